"""`convert`, and `fit` on its folder."""

import json
import os
from pathlib import Path

import pytest

import dpbt
from dpbt.owners.cli import models
from tests.support.block_commands import DOMAIN, FIT, FOREST, ROWS, convert, refused, run


@pytest.mark.slow
def test_a_folder_gives_the_model_of_the_file(rows_folder, capsys):
    assert convert("--rows-per-block", 90) == 0
    assert str(ROWS) not in capsys.readouterr().out
    for rows, out in (("rows.csv", "a.json"), ("rows.chunks", "b.json")):
        assert run("fit", rows, *FIT, *FOREST, "--seed", 3, "--out", out) == 0
    assert Path("a.json").read_text() == Path("b.json").read_text()
    capsys.readouterr()
    assert "rows.chunks: exists; give a new folder" in refused(
        capsys, "convert", "domain.json", "rows.csv", "rows.chunks"
    )


def test_what_the_commands_refuse(rows_folder, capsys):
    assert convert() == 0
    capsys.readouterr()
    out = ("--out", "model.json")
    small = ("--domain", "domain.json", "--rows", "399", "--epsilon", "4")
    assert "room for 400 rows" in refused(capsys, "fit", "rows.chunks", *small, *FOREST, *out)
    lazy = ("--recipe", "lazybb_trees")
    assert "reads all rows at once" in refused(capsys, "fit", "rows.chunks", *FIT, *lazy, *out)
    kept = ("--checkpoint", "run")
    assert "folder of blocks" in refused(capsys, "fit", "rows.csv", *FIT, *FOREST, *kept, *out)
    other = json.loads(json.dumps(DOMAIN))
    other["label"] = {"column": "class", "positive": "healthy", "negative": "ill"}
    Path("domain.json").write_text(json.dumps(other))
    assert "another label" in refused(capsys, "fit", "rows.chunks", *FIT, *FOREST, *out)


def test_predictions_of_blocks_are_those_of_all_rows(rows_folder, forest_model_file, monkeypatch):
    """And no more rows than a block has are encoded at a time."""
    Path(".dpbt-whole-abcdefgh.csv").write_text("predictions that a kill left")
    assert run("predict", forest_model_file, "rows.csv", "--out", "whole.csv") == 0
    assert not Path(".dpbt-whole-abcdefgh.csv").exists()
    encode, seen = dpbt.domains.encode, []
    monkeypatch.setattr(models, "BLOCK_ROWS", 7)
    monkeypatch.setattr(
        dpbt.domains, "encode", lambda *given: seen.append(encode(*given)) or seen[-1]
    )
    assert run("predict", forest_model_file, "rows.csv", "--out", "blocks.csv") == 0
    assert Path("blocks.csv").read_bytes() == Path("whole.csv").read_bytes()
    assert [len(rows) for rows in seen] == [7] * (ROWS // 7) + [ROWS % 7]


def test_predictions_of_a_folder_have_a_line_for_each_of_its_rows(
    rows_folder, forest_model_file, capsys
):
    lines = Path("rows.csv").read_text().splitlines()
    lines[5] = lines[5].rpartition(",")[0] + ",neither"
    Path("rows.csv").write_text("\n".join(lines) + "\n")
    assert convert("--rows-per-block", 90) == 0
    for rows in ("rows.csv", "rows.chunks"):
        assert run("predict", forest_model_file, rows, "--out", f"{rows}.out") == 0
    of_file, of_folder = (
        Path(f"{rows}.out").read_text().splitlines() for rows in ("rows.csv", "rows.chunks")
    )
    of_file[5] = ","
    assert of_folder == of_file + [","] * (400 - ROWS)

    other = json.loads(json.dumps(DOMAIN))
    other["columns"]["age"]["bins"] = 9
    Path("domain.json").write_text(json.dumps(other))
    assert run("convert", "domain.json", "rows.csv", "others") == 0
    capsys.readouterr()
    assert "column 'age' has bins 9 in others and 8" in refused(
        capsys, "predict", forest_model_file, "others"
    )
    damaged = bytearray(Path("rows.chunks/block-000002").read_bytes())
    damaged[5] ^= 1
    Path("rows.chunks/block-000002").write_bytes(damaged)
    words = ("predict", forest_model_file, "rows.chunks", "--out", "new/p.csv")
    assert "block-000002: the file was changed" in refused(capsys, *words)
    assert os.listdir("new") == []
