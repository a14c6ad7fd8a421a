"""`python -m experiments smooth_boosting`: its features, its settings, and its JSON."""

import json

import numpy as np
import pytest

from dpbt.domains import Boolean, Nominal, Numeric, encode
from experiments import __main__ as command_line
from experiments import smooth_settings

KEYS = {"dataset", "epsilon", "calibration", "learner", "accuracy_mean", "accuracy_sd", "keys", "paper"}


def test_intervals_are_one_hot():
    domain = {"x": Numeric(0, 3, bins=3, missing=True), "c": Nominal(("a", "b")), "f": Boolean()}
    columns = {"x": np.array([-1, 0.5, 1.5, 2.5, 9, np.nan]), "c": list("abbaab"), "f": [True, False] * 3}
    found, words = smooth_settings.one_hot(domain, encode(domain, columns))
    assert words == ["0 < x <= 1", "1 < x <= 2", "2 < x <= 3", "x is missing", "c = a", "c = b", "f"]
    inside = [[1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    np.testing.assert_array_equal(found[:, :4], np.array(inside, bool))
    np.testing.assert_array_equal(found[:, 4:6].sum(axis=1), 1)
    np.testing.assert_array_equal(found[:, 6], columns["f"])


def test_settings_are_those_of_the_papers_tables():
    assert smooth_settings.settings("adult", 1.0) == {"density": 0.35, "learning_rate": 0.45, "rounds": 39}
    assert smooth_settings.settings("adult", 0.4) == {"density": 0.35, "learning_rate": 0.5, "rounds": 9}
    assert smooth_settings.settings("cod-rna", 1.1) == {"density": 0.4, "learning_rate": 0.5, "rounds": 99}
    assert smooth_settings.settings("mushroom", 5.0) == {"density": 0.2, "learning_rate": 0.5, "rounds": 29}
    for by_dataset in (smooth_settings.DENSITY, smooth_settings.RATE, smooth_settings.ROUNDS):
        assert all(len(values) == len(smooth_settings.EPSILONS) for values in by_dataset.values())


@pytest.mark.parametrize("algorithm", ["lazybb", pytest.param("lazybb-trees", marks=pytest.mark.slow)])
def test_audits_know_smooth_boosting(capsys, algorithm):
    command = (
        f"audit --algorithm {algorithm} --relation replace_one --transcripts 2 --rounds 2 --depth 2 --steps --json"
    )
    assert command_line.main(command.split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert 0 < found["largest_loss"] <= found["claimed_epsilon"] == pytest.approx(1, rel=1e-5)
    assert 0 < found["worst_step_ratio"] <= 1.002


@pytest.mark.slow
def test_mushrooms_come_out_near_the_paper(data_folder, capsys):
    del data_folder
    command = ["smooth_boosting", "--dataset", "mushroom", "--epsilon", "1", "--keys", "2"]
    assert command_line.main([*command, "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)
    assert all(set(line) == KEYS for line in lines)
    by = {line["calibration"]: line["accuracy_mean"] for line in lines}
    assert by["tight"] > by["published"] > 0.93
    assert command_line.main(command) == 0
    shown = capsys.readouterr().out
    assert "odor" in shown
    assert "Rademacher" in shown
