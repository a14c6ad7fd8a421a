"""What leaves a private file besides draws, by the demo.

`tests/test_private_data_leaving.py` has all else.
"""

import argparse
import itertools
import json

import numpy as np
import pytest

from dpbt.types import ADD_REMOVE, REPLACE_ONE
from experiments import __main__ as command_line
from experiments import demo as demos
from tests.support.leak_watch import (
    BOUND,
    NUM_ROWS,
    Watch,
    find_private_words,
    find_private_words_in_files,
)

DOMAIN = {
    "columns": {
        "age": {"type": "numeric", "low": 0, "high": 100, "bins": 3},
        "job": {"type": "nominal", "values": ["clerk", "smith"]},
        "member": {"type": "boolean", "true": "yes", "false": "no"},
    },
    "label": {"column": "ill", "positive": "1", "negative": "0"},
}


@pytest.fixture
def watch(capfd, caplog, tmp_path):
    return Watch(capfd, caplog, tmp_path)


def result_lines(extra=()):
    """A file of N rows with a rare cell and a rare number; extra lines replace its last rows."""
    rng = np.random.default_rng(0)
    age, job = rng.uniform(20, 90, NUM_ROWS), rng.choice(["clerk", "smith"], NUM_ROWS)
    member, ill = np.where(np.arange(NUM_ROWS) % 3, "no", "yes"), (age > 50).astype(int)
    lines = [f"{age[i]:.0f},{job[i]},{member[i]},{ill[i]}" for i in range(NUM_ROWS)]
    lines[7] = f"31337.7719,{job[7]},no,1"
    lines[11] = f"{age[11]:.0f},zqxcell,no,1"
    return ["age,job,member,ill", *lines[: NUM_ROWS - len(extra)], *extra]


@pytest.fixture
def demo(tmp_path, monkeypatch, watch):
    """Runs the demo with one small program on a file of private rows; returns its exit status."""
    monkeypatch.setattr(demos, "curves", lambda: [("tight", "gini")])
    monkeypatch.setattr(demos, "EPSILONS", (1.0,))
    clock = itertools.count()
    # A clock of its own, as the models in a second may be N.
    monkeypatch.setattr(demos.time, "perf_counter", lambda: float(next(clock)))
    drawn, draw = [], demos._draw_figure

    def draw_and_record_title(path, measured, *, title, **options):
        drawn.append(title)
        draw(path, measured, title=title, **options)

    monkeypatch.setattr(demos, "_draw_figure", draw_and_record_title)
    files = {"--data": "mine.csv", "--domain": "domain.json", "--out": "out"}
    files = {option: tmp_path / name for option, name in files.items()}
    files["--domain"].write_text(json.dumps(DOMAIN))

    def run(*options, extra=()):
        files["--data"].write_text("\n".join(result_lines(extra)) + "\n")
        named = [str(word) for pair in files.items() for word in pair]
        status = watch(lambda: command_line.main(["demo", "--smoke", *named, *options]))
        return status, tmp_path / "out"

    run.titles = drawn
    return run


@pytest.mark.slow
def test_the_demo_says_what_it_is_and_shows_no_cell_and_no_number_of_rows(demo, watch, monkeypatch):
    monkeypatch.setattr(demos, "curves", lambda: [("tight", "gini"), demos.AUTO])
    status, out = demo("--rows", str(BOUND))
    assert status == 0, watch.said
    assert find_private_words(watch.said) == find_private_words_in_files(out) == []
    assert find_private_words("\n".join(demo.titles)) == []

    # Table, figure and CSV are headed.
    assert watch.out.startswith(demos.PRIVATE)
    assert demo.titles[0].startswith(demos.PRIVATE)
    lines = (out / "demo.csv").read_text().splitlines()
    assert all(demos.PRIVATE in line for line in lines[1:])

    # JSON says so too.
    assert demo("--rows", str(BOUND), "--json")[0] == 0
    assert find_private_words(watch.said) == []
    assert {line["status"] for line in json.loads(watch.out)} == {demos.PRIVATE}


@pytest.mark.slow
def test_a_public_number_of_rows_is_shown(demo, watch):
    """Without a bound the relation is replace-one, and N is public; the same search finds it."""
    assert demo()[0] == 0
    assert set(find_private_words(watch.said)) == {str(NUM_ROWS)}
    assert "replace_one" in watch.out


def test_malformed_rows_are_not_shown(demo, watch):
    """A label of neither class, a row with too many cells, and text among numbers."""
    bad = ["40,clerk,no,zqxlabel", "40,clerk,no,1,zqxextra", "zqxcell,clerk,no,1"]
    _, out = demo("--rows", str(BOUND), extra=bad)
    # The number of a malformed line tells N, so it is not said either.
    assert find_private_words(watch.said.replace(str(NUM_ROWS + 1), str(NUM_ROWS))) == []
    assert not out.exists() or find_private_words_in_files(out) == []


@pytest.mark.parametrize("options", [("--rows", "100"), ("--rows", "0")], ids=" ".join)
def test_a_bound_that_is_too_small_is_refused_without_the_number(demo, watch, options):
    status, out = demo(*options)
    assert status == 2
    assert "--rows must be at least" in watch.said
    assert find_private_words(watch.said) == []
    assert not out.exists()


def test_the_private_number_of_rows_is_no_bound():
    """Without a public bound the number of rows is public, and the relation says so."""
    bundled, own_table, bounded = (
        argparse.Namespace(data=d, rows=r) for d, r in ((None, None), ("x", None), ("x", 80))
    )
    assert demos.public_size(bundled, 569) == (600, ADD_REMOVE)
    assert demos.public_size(own_table, 60) == (60, REPLACE_ONE)
    assert demos.public_size(bounded, 60) == (80, ADD_REMOVE)
