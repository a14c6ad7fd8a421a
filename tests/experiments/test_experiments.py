"""The command line as a person uses it: the demo, one's own file, bad files, figures."""

import argparse
import json

import numpy as np
import pytest

from dpbt.common.types import ADD_REMOVE, REPLACE_ONE
from experiments import __main__ as command_line
from experiments import demo as demos
from paper_figures import __main__ as figures

PAPER = "nock_henecka_2020"
DOMAIN = {
    "columns": {
        "age": {"type": "numeric", "low": 0, "high": 100},
        "weight": {"type": "numeric", "low": 0, "high": 200, "missing": True},
        "smoker": {"type": "nominal", "values": ["yes", "no"]},
    },
    "label": {"column": "ill", "positive": "1", "negative": "0"},
}


@pytest.fixture
def person(tmp_path):
    """A person's own CSV file and domain; returns (csv path, domain path)."""
    rng = np.random.default_rng(0)
    age, smoker = rng.uniform(20, 90, 60), rng.choice(["yes", "no"], 60)
    lines = ["name, age, weight, smoker, ill"]
    lines += [
        f"p{i}, {age[i]:.1f}, {'' if i == 3 else 70}, {smoker[i]}, {int(age[i] > 50)}"
        for i in range(60)
    ]
    (tmp_path / "mine.csv").write_text("\n".join(lines) + "\n\n")
    (tmp_path / "domain.json").write_text(json.dumps(DOMAIN))
    return tmp_path / "mine.csv", tmp_path / "domain.json"


def demo(tmp_path, *arguments):
    return command_line.main(
        ["demo", "--smoke", "--out", str(tmp_path / "out"), *map(str, arguments)]
    )


@pytest.mark.slow
def test_demo_on_a_persons_own_file(tmp_path, capsys, person):
    """One test, so that the table and the JSON share their compiled programs."""
    assert demo(tmp_path, "--data", person[0], "--domain", person[1], "--rows", 80) == 0
    text = capsys.readouterr().out
    assert text.count("add_remove") == 22
    assert text.count("unprotected") == 1
    assert text.count(" alpha\n") == 3
    assert "published test errors near chance come from the noise" in text
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["demo.csv", "demo.png"]
    header = (tmp_path / "out" / "demo.csv").read_text().splitlines()[0].split(",")
    assert {*demos.FIELDS, "commit", "jax", "device", "seed", "rounds", "depth"} <= set(header)

    assert demo(tmp_path, "--data", person[0], "--domain", person[1], "--json", "--rows", 80) == 0
    lines = json.loads(capsys.readouterr().out)
    assert len(lines) == 21
    assert all(tuple(line) == demos.FIELDS for line in lines)
    for line in lines:
        assert 0 <= line["test_error_mean"] <= 1
        assert line["epsilon"] * (1 - 1e-6) <= line["claimed_epsilon"] <= line["epsilon"]


@pytest.mark.slow
def test_audit_prints_one_json_object(capsys):
    words = "audit --algorithm bdpe --calibration tight --transcripts 2 --rounds 2 --depth 2 --json"
    assert command_line.main(words.split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["neighbours"] == 569
    assert 0 < found["largest_loss"] <= found["claimed_epsilon"] <= 1
    assert set(found["by_mechanism"]) == {"exponential", "discrete laplace"}


def test_the_private_number_of_rows_is_no_bound():
    """Without a public bound the number of rows is public, and the relation says so."""
    bundled, own, bounded = (
        argparse.Namespace(data=d, rows=r) for d, r in ((None, None), ("x", None), ("x", 80))
    )
    assert demos.public_size(bundled, 569) == (600, ADD_REMOVE)
    assert demos.public_size(own, 60) == (60, REPLACE_ONE)
    assert demos.public_size(bounded, 60) == (80, ADD_REMOVE)


def test_figures_are_drawn_by_name(tmp_path, capsys, monkeypatch):
    assert figures.main([f"{PAPER}/fig5", "--out", str(tmp_path)]) == 0
    drawn = list((tmp_path / PAPER).iterdir())
    assert sorted(p.name for p in drawn) == ["fig5.pdf", "fig5.png"]
    assert all(p.stat().st_size > 5000 for p in drawn)
    monkeypatch.chdir(tmp_path)
    assert figures.main(["privacy_audit"]) == 2
    assert "run: python -m experiments audit --grid" in capsys.readouterr().err
    assert figures.main(["nock_henecka_2020/fig99"]) == 2
    assert "no figure 'nock_henecka_2020/fig99'" in capsys.readouterr().err
