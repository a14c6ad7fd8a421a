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
def test_a_fit_of_blocks_gives_the_model_of_a_fit_of_their_file(rows_folder, capsys):
    assert convert_rows("--rows-per-block", 90) == 0
    assert str(NUM_ROWS) not in capsys.readouterr().out
    for rows, model_file in (("rows.csv", "a.json"), ("rows.chunks", "b.json")):
        assert (
            run_command(
                "fit", rows, *FIT_OPTIONS, *FOREST_OPTIONS, "--seed", 3, "--out", model_file
            )
            == 0
        )
    assert Path("a.json").read_text() == Path("b.json").read_text()
    capsys.readouterr()
    assert "rows.chunks: exists; give a new folder" in refusal_line(
        capsys, "convert", "domain.json", "rows.csv", "rows.chunks"
    )


def test_convert_and_fit_refuse_settings_that_do_not_fit_the_folder(rows_folder, capsys):
    assert convert_rows() == 0
    capsys.readouterr()
    out_option = ("--out", "model.json")
    smaller_bound = ("--domain", "domain.json", "--rows", "399", "--epsilon", "4")
    assert "room for 400 rows" in refusal_line(
        capsys, "fit", "rows.chunks", *smaller_bound, *FOREST_OPTIONS, *out_option
    )
    lazy_recipe = ("--recipe", "lazybb_trees")
    assert "reads all rows at once" in refusal_line(
        capsys, "fit", "rows.chunks", *FIT_OPTIONS, *lazy_recipe, *out_option
    )
    checkpoint = ("--checkpoint", "run")
    assert "folder of blocks" in refusal_line(
        capsys, "fit", "rows.csv", *FIT_OPTIONS, *FOREST_OPTIONS, *checkpoint, *out_option
    )
    other_domain = json.loads(json.dumps(DOMAIN))
    other_domain["label"] = {"column": "class", "positive": "healthy", "negative": "ill"}
    Path("domain.json").write_text(json.dumps(other_domain))
    assert "another label" in refusal_line(
        capsys, "fit", "rows.chunks", *FIT_OPTIONS, *FOREST_OPTIONS, *out_option
    )


def test_predictions_of_blocks_are_those_of_all_rows(rows_folder, forest_model_file, monkeypatch):
    """No more rows than a block has are encoded at a time."""
    Path(".dpbt-whole-abcdefgh.csv").write_text("predictions that a kill left")
    assert run_command("predict", forest_model_file, "rows.csv", "--out", "whole.csv") == 0
    assert not Path(".dpbt-whole-abcdefgh.csv").exists()
    encode, encoded_blocks = dpbt.domains.encode, []
    monkeypatch.setattr(models, "BLOCK_ROWS", 7)
    monkeypatch.setattr(
        dpbt.domains,
        "encode",
        lambda *arguments: encoded_blocks.append(encode(*arguments)) or encoded_blocks[-1],
    )
    assert run_command("predict", forest_model_file, "rows.csv", "--out", "blocks.csv") == 0
    assert Path("blocks.csv").read_bytes() == Path("whole.csv").read_bytes()
    assert [len(rows) for rows in encoded_blocks] == [7] * (NUM_ROWS // 7) + [NUM_ROWS % 7]


def test_predictions_of_a_folder_have_a_line_for_each_of_its_rows(
    rows_folder, forest_model_file, capsys
):
    lines = Path("rows.csv").read_text().splitlines()
    lines[5] = lines[5].rpartition(",")[0] + ",neither"
    Path("rows.csv").write_text("\n".join(lines) + "\n")
    assert convert_rows("--rows-per-block", 90) == 0
    for rows in ("rows.csv", "rows.chunks"):
        assert run_command("predict", forest_model_file, rows, "--out", f"{rows}.out") == 0
    lines_of_file, lines_of_folder = (
        Path(f"{rows}.out").read_text().splitlines() for rows in ("rows.csv", "rows.chunks")
    )
    lines_of_file[5] = ","
    assert lines_of_folder == lines_of_file + [","] * (400 - NUM_ROWS)

    other_domain = json.loads(json.dumps(DOMAIN))
    other_domain["columns"]["age"]["bins"] = 9
    Path("domain.json").write_text(json.dumps(other_domain))
    assert run_command("convert", "domain.json", "rows.csv", "others") == 0
    capsys.readouterr()
    assert "column 'age' has bins 9 in others and 8" in refusal_line(
        capsys, "predict", forest_model_file, "others"
    )
    damaged = bytearray(Path("rows.chunks/block-000002").read_bytes())
    damaged[5] ^= 1
    Path("rows.chunks/block-000002").write_bytes(damaged)
    command = ("predict", forest_model_file, "rows.chunks", "--out", "new/p.csv")
    assert "block-000002: the file was changed" in refusal_line(capsys, *command)
    assert os.listdir("new") == []
