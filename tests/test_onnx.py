"""ONNX graphs of saved models, run by onnxruntime; skipped where the extra is not installed."""

import importlib.util
import json
import sys

import numpy as np
import pytest

import dpbt
from dpbt import onnx as graphs
from tests.test_saving import DOMAIN, MADE, TARGETS, fitted, raw_rows

installed = all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime"))
needs_onnx = pytest.mark.skipif(not installed, reason="the extra onnx is not installed")


@needs_onnx
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MADE)
def test_a_graph_gives_what_the_saved_model_gives(name, tmp_path):
    import onnxruntime

    fitted(name).save(tmp_path / "m.json", domain=DOMAIN)
    model = dpbt.load(tmp_path / "m.json")
    graphs.export(model, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    columns = raw_rows(9, 300)
    rows = model.encode(columns)
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, {"rows": rows}), strict=True))

    expected = model.decision_function(rows)
    assert np.ptp(expected) > 0
    np.testing.assert_allclose(found["score"], expected, rtol=1e-6, atol=1e-6)
    clear = np.abs(expected) > 1e-5
    np.testing.assert_array_equal(found["positive"][clear], expected[clear] > 0)
    if model.about.probability is None:
        assert "probability" not in found
    else:
        probability = model.predict_proba(columns)[:, 1]
        np.testing.assert_allclose(found["probability"], probability, rtol=2e-6, atol=1e-6)
    assert session.get_modelmeta().custom_metadata_map["statement"] == model.kept.statement
    assert session.run(None, {"rows": rows[:0]})[0].shape == (0,)


@needs_onnx
@pytest.mark.parametrize("name", TARGETS)
def test_graphs_of_several_classes_and_of_numbers(name, tmp_path):
    import onnxruntime

    fitted(name).save(tmp_path / "m.json", domain=DOMAIN)
    model = dpbt.load(tmp_path / "m.json")
    graphs.export(model, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    rows = model.encode(raw_rows(9, 300))
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, {"rows": rows}), strict=True))
    score = model.decision_function(rows)
    np.testing.assert_allclose(found["score"], score, rtol=1e-6, atol=1e-6)
    texts = session.get_modelmeta().custom_metadata_map
    if name == "number":
        assert names == ["score", "number"]
        np.testing.assert_allclose(found["number"], model.predict(rows), rtol=1e-6, atol=1e-5)
        assert "classes" not in texts
        return
    assert names == ["score", "class", "probability"]
    np.testing.assert_allclose(found["probability"], model.predict_proba(rows), atol=1e-6)
    first, second = np.sort(score, axis=1)[:, :-3:-1].T
    clear = first - second > 1e-5
    classes = json.loads(texts["classes"])
    assert clear.mean() > 0.9
    assert [classes[k] for k in found["class"][clear]] == model.predict(rows)[clear].tolist()
    assert session.run(None, {"rows": rows[:0]})[0].shape == (0, 3)


def test_what_is_no_model_is_refused(tmp_path, monkeypatch):
    for wrong in (None, "m.json", dpbt.recipes.bdpe(epsilon=1.0, rows=9)):
        with pytest.raises(ValueError, match="expected a model"):
            graphs.export(wrong, tmp_path / "m.onnx")
    fitted("forest").save(tmp_path / "m.json")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError):
        graphs.export(dpbt.load(tmp_path / "m.json"), tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()
