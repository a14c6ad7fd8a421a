"""The commands `convert`, and `fit` and `predict` on the folder that it makes."""

import json
import os
from pathlib import Path

import pytest

import dpbt
from dpbt.owners.cli import models
from tests.support.block_commands import (
    DOMAIN,
    FIT_OPTIONS,
    FOREST_OPTIONS,
    NUM_ROWS,
    convert_rows,
    refusal_line,
    run_command,
)


@pytest.mark.slow
def test_a_folder_gives_the_model_of_the_file(rows_folder, capsys):
    assert convert_rows("--rows-per-block", 90) == 0
    assert str(NUM_ROWS) not in capsys.readouterr().out
    for rows, out in (("rows.csv", "a.json"), ("rows.chunks", "b.json")):
        assert (
            run_command("fit", rows, *FIT_OPTIONS, *FOREST_OPTIONS, "--seed", 3, "--out", out) == 0
        )
    assert Path("a.json").read_text() == Path("b.json").read_text()
    capsys.readouterr()
    assert "rows.chunks: exists; give a new folder" in refusal_line(
        capsys, "convert", "domain.json", "rows.csv", "rows.chunks"
    )


def test_convert_and_fit_refuse_settings_that_do_not_fit_the_folder(rows_folder, capsys):
    assert convert_rows() == 0
    capsys.readouterr()
    out = ("--out", "model.json")
    small = ("--domain", "domain.json", "--rows", "399", "--epsilon", "4")
    assert "room for 400 rows" in refusal_line(
        capsys, "fit", "rows.chunks", *small, *FOREST_OPTIONS, *out
    )
    lazy = ("--recipe", "lazybb_trees")
    assert "reads all rows at once" in refusal_line(
        capsys, "fit", "rows.chunks", *FIT_OPTIONS, *lazy, *out
    )
    kept = ("--checkpoint", "run")
    assert "folder of blocks" in refusal_line(
        capsys, "fit", "rows.csv", *FIT_OPTIONS, *FOREST_OPTIONS, *kept, *out
    )
    other = json.loads(json.dumps(DOMAIN))
    other["label"] = {"column": "class", "positive": "healthy", "negative": "ill"}
    Path("domain.json").write_text(json.dumps(other))
    assert "another label" in refusal_line(
        capsys, "fit", "rows.chunks", *FIT_OPTIONS, *FOREST_OPTIONS, *out
    )


def test_predictions_of_blocks_are_those_of_all_rows(rows_folder, forest_model_file, monkeypatch):
    """And no more rows than a block has are encoded at a time."""
    Path(".dpbt-whole-abcdefgh.csv").write_text("predictions that a kill left")
    assert run_command("predict", forest_model_file, "rows.csv", "--out", "whole.csv") == 0
    assert not Path(".dpbt-whole-abcdefgh.csv").exists()
    encode, seen = dpbt.domains.encode, []
    monkeypatch.setattr(models, "BLOCK_ROWS", 7)
    monkeypatch.setattr(
        dpbt.domains, "encode", lambda *given: seen.append(encode(*given)) or seen[-1]
    )
    assert run_command("predict", forest_model_file, "rows.csv", "--out", "blocks.csv") == 0
    assert Path("blocks.csv").read_bytes() == Path("whole.csv").read_bytes()
    assert [len(rows) for rows in seen] == [7] * (NUM_ROWS // 7) + [NUM_ROWS % 7]


def test_predictions_of_a_folder_have_a_line_for_each_of_its_rows(
    rows_folder, forest_model_file, capsys
):
    lines = Path("rows.csv").read_text().splitlines()
    lines[5] = lines[5].rpartition(",")[0] + ",neither"
    Path("rows.csv").write_text("\n".join(lines) + "\n")
    assert convert_rows("--rows-per-block", 90) == 0
    for rows in ("rows.csv", "rows.chunks"):
        assert run_command("predict", forest_model_file, rows, "--out", f"{rows}.out") == 0
    of_file, of_folder = (
        Path(f"{rows}.out").read_text().splitlines() for rows in ("rows.csv", "rows.chunks")
    )
    of_file[5] = ","
    assert of_folder == of_file + [","] * (400 - NUM_ROWS)

    other = json.loads(json.dumps(DOMAIN))
    other["columns"]["age"]["bins"] = 9
    Path("domain.json").write_text(json.dumps(other))
    assert run_command("convert", "domain.json", "rows.csv", "others") == 0
    capsys.readouterr()
    assert "column 'age' has bins 9 in others and 8" in refusal_line(
        capsys, "predict", forest_model_file, "others"
    )
    damaged = bytearray(Path("rows.chunks/block-000002").read_bytes())
    damaged[5] ^= 1
    Path("rows.chunks/block-000002").write_bytes(damaged)
    words = ("predict", forest_model_file, "rows.chunks", "--out", "new/p.csv")
    assert "block-000002: the file was changed" in refusal_line(capsys, *words)
    assert os.listdir("new") == []
