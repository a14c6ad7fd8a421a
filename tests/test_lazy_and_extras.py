"""Errors that say what to do: lazy containers, estimators for models, extras that are missing."""

import functools
import sys

import jax
import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.__main__ import main
from dpbt.data.domains import Numeric

DOMAIN = {"x": Numeric(0, 1, bins=4)}
X = np.linspace(0, 1, 60)[:, None]
Y = X[:, 0] > 0.5
SMALL = {"depth": 1, "rounds": 2}


class LazyFrame:
    """Stands in for that of polars: columns by name, a query, and no length."""

    columns = ("x",)

    def __getitem__(self, name):
        raise TypeError("LazyFrame is not subscriptable")

    def collect(self):
        raise AssertionError("nothing is computed behind the caller's back")


class Delayed(LazyFrame):
    """Stands in for a collection of Dask."""

    collect = None

    def compute(self):
        raise AssertionError("nothing is computed behind the caller's back")


def _cells():
    yield 0.5


def _polars():
    return pytest.importorskip("polars").DataFrame({"x": [0.1, 0.9]}).lazy()


LAZY = {
    "a lazy frame": (LazyFrame, "got LazyFrame; it holds a query.*collect"),
    "a delayed frame": (Delayed, "got Delayed; it holds a query.*compute"),
    "a generator": (_cells, "got generator; it gives its items once.*list of them"),
    "polars": (_polars, "got LazyFrame; it holds a query.*collect"),
}


@pytest.fixture(scope="module")
def model():
    recipe = recipes.bdpe(epsilon=1.0, rows=100, **SMALL)
    return dpbt.fit(jax.random.key(0), dpbt.table(DOMAIN, {"x": X[:, 0]}, Y), recipe)


@pytest.fixture(scope="module")
def estimator():
    sklearn = pytest.importorskip("dpbt.sklearn")
    small = {"domain": DOMAIN, "recipe": functools.partial(recipes.bdpe, **SMALL)}
    made = sklearn.PrivateBoostingClassifier(epsilon=1.0, rows=100, random_state=0, **small)
    return made.fit(X, Y)


@pytest.mark.parametrize(("make", "words"), LAZY.values(), ids=LAZY)
def test_a_lazy_frame_is_refused_with_what_to_do(make, words, model, tmp_path):
    dpbt.save(model, tmp_path / "model.json", domain=DOMAIN)
    loaded = dpbt.load(tmp_path / "model.json")
    for read in (
        lambda rows: dpbt.table(DOMAIN, rows, Y),
        lambda rows: dpbt.table(DOMAIN, {"x": X[:, 0]}, rows),
        lambda rows: dpbt.domains.encode(DOMAIN, rows),
        lambda rows: dpbt.domains.encode_positions(DOMAIN, rows),
        lambda rows: dpbt.predict(model, rows),
        lambda rows: loaded.predict(rows),
    ):
        with pytest.raises(ValueError, match=words):
            read(make())


@pytest.mark.parametrize(("make", "words"), LAZY.values(), ids=LAZY)
def test_estimators_refuse_a_lazy_frame_with_what_to_do(make, words, estimator):
    from sklearn.base import clone

    for read in (
        lambda rows: clone(estimator).fit(rows, Y),
        lambda rows: clone(estimator).fit(X, rows),
        lambda rows: clone(estimator).set_params(max_weight=1.0).fit(X, Y, sample_weight=rows),
        lambda rows: estimator.predict(rows),
    ):
        with pytest.raises(ValueError, match=words):
            read(make())


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_are_columns_by_name(library):
    frames = pytest.importorskip(library)
    frame = getattr(frames, "table" if library == "pyarrow" else "DataFrame")({"x": [0.1, 0.9]})
    np.testing.assert_array_equal(dpbt.domains.encode(DOMAIN, frame), [[0], [3]])
    with pytest.raises(ValueError, match=r"lacks columns \['y'\]"):
        dpbt.domains.encode({"y": Numeric(0, 1, bins=2)}, frame)


def test_an_estimator_in_place_of_a_model_names_its_model(estimator, tmp_path):
    pytest.importorskip("matplotlib")
    for call in (
        dpbt.ledger,
        dpbt.statement,
        lambda est: dpbt.predict(est, X),
        lambda est: dpbt.predict_proba(est, X),
        lambda est: dpbt.save(est, tmp_path / "model.json"),
        lambda est: dpbt.onnx.export(est, tmp_path / "model.onnx"),
        lambda est: dpbt.treelite.export(est, tmp_path / "model.treelite"),
    ):
        with pytest.raises(ValueError, match=r"est\.model_, and its domain est\.domain_"):
            call(estimator)


def test_words_and_pictures_take_estimators(estimator, tmp_path):
    pytest.importorskip("matplotlib")
    exceptions = pytest.importorskip("sklearn.exceptions")
    unfitted = type(estimator)(epsilon=1.0)
    for call in (
        dpbt.explain,
        dpbt.effects.attribute_effects,
        lambda est: dpbt.effects.partial_dependence(est, "x").values.tolist(),
        lambda est: dpbt.plot.attributes(est).get_title(),
        lambda est: len(dpbt.plot.shapes(est)),
        lambda est: dpbt.plot.shape(est, attribute="x").get_ylabel(),
    ):
        assert call(estimator) == call(estimator.model_)
        words = r"not fitted.*after est\.fit, as est\.model_.*pipeline"
        with pytest.raises(exceptions.NotFittedError, match=words):
            call(unfitted)
    for call in (type(unfitted).explain, lambda est: est.save(tmp_path / "model.json")):
        with pytest.raises(exceptions.NotFittedError):
            call(unfitted)
    with pytest.raises(exceptions.NotFittedError):
        unfitted.contributions(X)
    assert list(tmp_path.iterdir()) == []


EXTRAS = {
    "onnx": ("export MODEL --format onnx --out OUT", "onnx"),
    "treelite": ("export MODEL --format treelite --out OUT", "treelite"),
    "plot": ("plot MODEL --out OUT.png", "figures"),
    "pdf": ("statement MODEL --pdf OUT.pdf", "figures"),
    "parquet": ("predict MODEL ROWS.parquet", "parquet"),
    "template": ("domain template ROWS.parquet --out OUT", "parquet"),
}


@pytest.mark.parametrize(("words", "extra"), EXTRAS.values(), ids=EXTRAS)
def test_a_command_without_its_extra_names_it_in_one_line(
    words, extra, model, tmp_path, capsys, monkeypatch
):
    dpbt.save(model, tmp_path / "MODEL", domain=DOMAIN)
    (tmp_path / "ROWS.parquet").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    for name in [*sys.modules]:
        if name.partition(".")[0] in ("onnx", "treelite", "matplotlib", "pyarrow"):
            monkeypatch.delitem(sys.modules, name)
    for name in ("onnx", "treelite", "matplotlib", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)
    assert main(words.split()) == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert f"pip install 'dpbt[{extra}]'" in shown
