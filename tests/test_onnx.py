"""ONNX graphs of saved models, run by onnxruntime; skipped where the extra is not installed."""

import importlib.util
import json
import sys

import numpy as np
import pytest

import dpbt
from dpbt import onnx as graphs
from dpbt.__main__ import main
from tests.support.fitted_models import DOMAIN, MODEL_NAMES, model_of_kind, random_raw_columns

installed = all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime"))
needs_onnx = pytest.mark.skipif(not installed, reason="the extra onnx is not installed")


@needs_onnx
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODEL_NAMES)
def test_a_graph_gives_what_the_saved_model_gives(name, tmp_path):
    import onnxruntime

    dpbt.save(model_of_kind(name), tmp_path / "m.json", domain=DOMAIN)
    model = dpbt.load(tmp_path / "m.json")
    graphs.export(model, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    rows = model.encode(random_raw_columns(9, 300))
    texts = session.get_modelmeta().custom_metadata_map
    names = [output.name for output in session.get_outputs()]
    outputs = dict(zip(names, session.run(None, {"rows": rows}), strict=True))
    score, several = model.decision_function(rows), name == "several"
    assert np.ptp(score) > 0
    np.testing.assert_allclose(outputs["score"], score, rtol=1e-6, atol=1e-6)
    assert texts["statement"] == model.loaded_facts.statement
    assert session.run(None, {"rows": rows[:0]})[0].shape == ((0, 3) if several else (0,))
    if name in ("number", "count"):
        assert names == ["score", "number"]
        np.testing.assert_allclose(outputs["number"], model.predict(rows), rtol=1e-6, atol=1e-5)
        return
    if several:
        first, second = np.sort(score, axis=1)[:, :-3:-1].T
        clear, classes = first - second > 1e-5, json.loads(texts["classes"])
        predicted_classes = [classes[k] for k in outputs["class"][clear]]
    else:
        clear = np.abs(score) > 1e-5
        predicted_classes = outputs["positive"][clear].tolist()
    assert clear.mean() > 0.9
    assert predicted_classes == model.predict(rows)[clear].tolist()
    assert ("probability" in outputs) == (model.about.probability is not None)
    if "probability" in outputs:
        expected = model.predict_proba(rows)
        np.testing.assert_allclose(
            outputs["probability"], expected if several else expected[:, 1], rtol=2e-6, atol=1e-6
        )


def test_a_graph_of_a_file_that_is_no_model_is_refused(tmp_path, monkeypatch):
    for wrong in (None, "m.json", dpbt.recipes.bdpe(epsilon=1.0, rows=9)):
        with pytest.raises(ValueError, match="expected a model"):
            graphs.export(wrong, tmp_path / "m.onnx")
    dpbt.save(model_of_kind("forest"), tmp_path / "m.json")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError):
        graphs.export(dpbt.load(tmp_path / "m.json"), tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_trees_of_treelite_give_what_the_saved_model_gives(tmp_path, monkeypatch):
    """Rows have missing and unlisted cells; curves and halfspaces are refused."""
    treelite = pytest.importorskip("treelite", reason="the extra treelite is not installed")
    monkeypatch.chdir(tmp_path)
    for name in MODEL_NAMES:
        dpbt.save(model_of_kind(name), "m.json", domain=DOMAIN)
        model = dpbt.load("m.json")
        if name in ("additive", "halfspace"):
            assert main(["export", "m.json", "--format", "treelite", "--out", "m.none"]) == 2
            continue
        dpbt.treelite.export(model, "m.treelite")
        read = treelite.Model.deserialize("m.treelite")
        rows = model.encode(random_raw_columns(9, 300))
        margin, predicted = (
            treelite.gtil.predict(read, rows.astype(np.float32), pred_margin=margin).squeeze()
            for margin in (True, False)
        )
        score, target = model.decision_function(rows), model.about.target
        if model.about.probability == "shares":
            score = model.predict_proba(rows)[:, 1]
        elif name == "several":
            score = score * np.log(2)
            np.testing.assert_allclose(predicted, model.predict_proba(rows), rtol=1e-5)
        elif target is not None:
            score = target.score_units[0] * score + target.score_units[1]
            inside = np.clip(predicted, target.low, target.high)
            np.testing.assert_allclose(inside, model.predict(rows), rtol=1e-5)
        elif model.about.probability == "log":
            np.testing.assert_allclose(predicted, model.predict_proba(rows)[:, 1], rtol=1e-5)
        np.testing.assert_allclose(margin, score, rtol=1e-5, atol=1e-5)
        assert np.ptp(margin) > 0
