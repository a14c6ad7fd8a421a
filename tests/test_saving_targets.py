"""Saved models of several classes and of numbers: what reads them, and their words."""

import functools
import json
import os
import re
import subprocess
import sys

import jax
import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.data import domains
from dpbt.data.domains import Nominal, Numeric
from tests.test_saving import COMMON, DOMAIN, ROOT, WITHOUT_JAX, raw_rows

TARGETS = {"several": Nominal(("low", "mid", "top")), "number": Numeric(-5, 20)}
"""What is predicted by models that do not tell two classes apart."""


@functools.cache
def fitted_target(name):
    """A model of several classes or of a number, learned from made-up rows."""
    target, columns = TARGETS[name], raw_rows(0, 50)
    labels = np.resize(["low", "mid", "top"] if name == "several" else [-9, 2.5, 14, 30], 50)
    table = dpbt.table(DOMAIN, columns, labels, target=target)
    shares = {"marginals_share": 0.1, "scores_share": 0.1 if name == "several" else 0.0}
    options = {**COMMON, **shares, "epsilon": 30.0, "domain": DOMAIN, "depth": 2, "target": target}
    return dpbt.fit(jax.random.key(0), table, recipes.oblivious_boost(**options))


@pytest.mark.parametrize("name", TARGETS)
def test_numpy_alone_reads_models_of_several_classes_and_of_numbers(name, tmp_path):
    model, columns = fitted_target(name), raw_rows(1, 200)
    model.save(tmp_path / "m.json", domain=DOMAIN)
    (tmp_path / "rows.json").write_text(json.dumps(columns))
    command = [sys.executable, "-c", WITHOUT_JAX, "m.json", "rows.json", "found.npz"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)

    found, rows = np.load(tmp_path / "found.npz"), domains.encode(DOMAIN, columns)
    score = np.asarray(dpbt.decision_function(model, rows))
    assert np.ptp(score, axis=0).min() > 0
    np.testing.assert_allclose(found["score"], score, rtol=1e-6, atol=1e-6)
    answers = np.asarray(dpbt.predict(model, rows))
    loaded = dpbt.load(tmp_path / "m.json")
    assert loaded.target == TARGETS[name]
    if name == "several":
        assert found["classes"].tolist() == [TARGETS[name].names[k] for k in answers]
        shares = np.asarray(dpbt.predict_proba(model, rows))
        np.testing.assert_allclose(found["probability"], shares, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(dpbt.predict_proba(loaded, rows), shares, rtol=1e-5, atol=1e-6)
    else:
        np.testing.assert_allclose(found["classes"], answers, rtol=1e-6)
        with pytest.raises(ValueError, match=re.escape(str(found["probability"]))):
            dpbt.predict_proba(model, rows)
    np.testing.assert_allclose(dpbt.predict(loaded, rows), answers, rtol=1e-6)
    assert dpbt.explain(loaded) == dpbt.explain(model, DOMAIN)
    assert str(dpbt.ledger(loaded)) == str(dpbt.ledger(model)) == loaded.ledger
    assert dpbt.statement(loaded) == dpbt.statement(model) == loaded.statement


def test_models_are_explained_by_class_and_in_units():
    """The words are checked against the scores of a row: its start, and what its leaves add."""
    words = dpbt.explain(fitted_target("several"), DOMAIN).splitlines()
    model = fitted_target("several")
    assert words[0].startswith("every row starts with low ")
    starts = [float(part.split()[-1]) for part in words[0].split(", ")]
    np.testing.assert_allclose(starts, model.intercept, atol=1e-4)
    leaves = np.asarray(model.hypotheses.leaf)
    for number, name in enumerate(TARGETS["several"].names):
        lines = [line for line in words if line.startswith(f"  {name}: nn ")]
        shown = [[float(part.split()[-1]) for part in line.split(", ")] for line in lines]
        np.testing.assert_allclose(shown, leaves[:, number], atol=1e-4)

    model, width = fitted_target("number"), 25
    words = dpbt.explain(model, DOMAIN).splitlines()
    assert float(words[0].split()[-1]) == pytest.approx(
        -5 + width * float(model.intercept), rel=1e-3
    )
    assert words[1].endswith("clipped to -5..20")
    shown = [float(line.split()[-1]) for line in words if ": add " in line]
    np.testing.assert_allclose(shown, width * np.ravel(model.hypotheses.leaf), rtol=1e-3)
