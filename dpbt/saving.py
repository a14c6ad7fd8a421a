"""Saving a model: one JSON file that `dpbt.reader` reads with NumPy alone.

The file holds what was released and what is public. It never holds keys, scores or withheld sites.
It does not hold the transcript either, as the hypotheses follow from it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

import dpbt
from dpbt import modelfiles
from dpbt.base import Model, Questions
from dpbt.checks import hypotheses_of
from dpbt.data import cells, domains
from dpbt.data.domains import Domain
from dpbt.data.kinds import Nominal, Numeric
from dpbt.data.questions import same
from dpbt.data.targets import Target
from dpbt.learners.hypothesis_kinds import kind_of
from dpbt.losses import log, matsushita, square
from dpbt.modelfiles import from_array
from dpbt.prediction import NO_CLASSES, kinks, no_link
from dpbt.privacy import accounting
from dpbt.privacy.pricing import ledger
from dpbt.reader import SavedModel, to_hex
from dpbt.statements import statement
from dpbt.validate import as_path, shown


def save(
    model: Model,
    path: str | Path,
    *,
    domain: Domain | None = None,
    classes: Sequence[Any] | None = None,
) -> None:
    """Write a model to one JSON file, whole or not at all. `dpbt.load` reads it without JAX.

    All of it is post-processing of the release, and public declarations. A checksum finds accidents
    with the file. It is no signature.

    Args:
        model: from `fit`.
        path: the file; one that exists is replaced.
        domain: the domain that encoded the rows. With it, the saved model reads raw columns.
        classes: the negative and the positive class, each text, a number or a Boolean. With them,
            the saved model predicts classes instead of Booleans. With several classes it is all of
            them in order, by default the declared ones. A number has none.

    Raises:
        ValueError: for anything that is no model, or a domain with other questions than the model.
            Also for hypotheses or a loss of your own, which are functions that no file holds. Also
            for hypotheses that are not finite, and a path that is a folder.
        OSError: if the file cannot be written.
    """
    as_path("path", path)
    if isinstance(model, SavedModel):
        raise ValueError("a saved model is saved already: copy its file")
    hypotheses_of(model)  # refuses anything but a model
    book = ledger(model)
    content = {
        "name": model.recipe.name,
        "calibration": model.recipe.calibration,
        "setting": model.recipe.setting,
        "versions": {"dpbt": dpbt.__version__, "jax": jax.__version__},
        "statement": statement(model).splitlines(),
        "ledger": str(book).splitlines(),
        "privacy": accounting.to_json(book),
        "classes": _classes(classes, model.recipe.target),
        **_target(model.recipe.target),
        "probability": _probability(model),
        "rows": _rows(model, domain),
        "intercept": from_array("intercept", model.intercept),
        "hypotheses": _hypotheses(model),
    }
    modelfiles.write(path, content)


def _target(target: Target | None) -> dict[str, Any]:
    """The declared target as JSON content; nothing for two classes."""
    return {} if target is None else {"target": domains.column_to_json("target", target)}


def _classes(classes: Sequence[Any] | None, target: Target | None) -> list[Any] | None:
    """The classes as JSON content.

    Raises:
        ValueError: unless they are distinct words, finite numbers or Booleans, one for each class.
    """
    if classes is None:
        return list(target.names) if isinstance(target, Nominal) else None
    if isinstance(target, Numeric):
        raise ValueError("a model that predicts a number has no classes")
    count = 2 if target is None else len(target.names)
    expected = "classes must be the negative and the positive class, two words or finite numbers"
    if target is not None:
        expected = f"classes must be {count} words or finite numbers, in the order of the target"
    listed = isinstance(classes, Sequence | np.ndarray) and not isinstance(classes, str | bytes)
    if not listed or len(classes) != count:
        raise ValueError(f"{expected}, got {shown(classes)}")
    words = [word.item() if isinstance(word, np.generic) else word for word in classes]
    good = all(isinstance(word, str | int | float) for word in words)
    if not good or any(isinstance(word, float) and not np.isfinite(word) for word in words):
        raise ValueError(f"{expected}, got {shown(classes)}")
    for number, word in enumerate(words):
        if word in words[:number]:
            raise ValueError(f"classes must differ, got {shown(word)} twice")
    if isinstance(target, Nominal):
        read = [cells.declared(word, "a class") for word in words]
        names = list(target.names)
        if read != names and sorted(read) == sorted(names):
            raise ValueError(f"classes must be in the order of the target, {shown(names)}")
    return words


_STATED: dict[Any, str] = {
    matsushita.probability: "matsushita",  # that of every M-alpha loss, too
    square.inverse_link: "square",
    log.inverse_link: "log",
}
"""The functions of a score that `reader.PROBABILITIES` has."""


def _probability(model: Model) -> dict[str, str]:
    """What gives probabilities, or why nothing does.

    Raises:
        ValueError: for a loss of the user's own.
    """
    recipe = model.recipe
    if isinstance(recipe.target, Nominal):
        return {"by": "softmax"}
    if isinstance(recipe.target, Numeric):
        return {"reason": NO_CLASSES}
    if recipe.learner.hypotheses.shares is not None:
        return {"by": "shares"}
    if recipe.loss is None:
        return {"reason": no_link(recipe.name)}
    loss = recipe.loss(np.float32(recipe.reweighting.link_alpha))
    if not np.isfinite(loss.smoothness):
        return {"reason": kinks(loss.name)}
    stated = loss.probability or loss.inverse_link
    if stated not in _STATED:
        raise ValueError(
            f"the loss {loss.name} is your own, and a file holds no functions, so the saved model "
            "could give no probabilities; give its recipe loss=None to save scores alone"
        )
    return {"by": _STATED[stated]}


def _rows(model: Model, domain: Domain | None) -> dict[str, Any]:
    """What the model reads: a domain, or else the questions of its cells.

    Raises:
        ValueError: for a domain that the model was not trained with.
    """
    asked = model.questions
    entry = {"dtype": model.dtype, "features": model.features, "codes": False}
    if domain is None:
        kept = None if asked is None else _questions(asked)
        return {**entry, "domain": None, "questions": kept}

    domains.check(domain)
    columns: dict[str, Any] = {}
    for name, column in domain.items():
        if not isinstance(name, str):
            raise ValueError(f"names of columns must be text to be kept, got {shown(name)}")
        columns[name] = domains.column_to_json(name, column)
    codes = _codes(model, domain)
    return {**entry, "codes": codes, "domain": columns, "questions": None}


def _codes(model: Model, domain: Domain) -> bool:
    """Whether the model reads nominal columns as codes.

    Raises:
        ValueError: for a domain that the model was not trained with.
    """
    declared = {codes: domains.questions(domain, codes=codes) for codes in (False, True)}
    for codes, questions in declared.items():
        if model.questions is None:
            fits = len(questions.attribute) == model.features
        else:
            fits = same(model.questions, questions) and len(domain) == model.features
        if fits:
            return codes
    raise ValueError("the model was trained with other questions than the domain asks")


def _questions(asked: Questions) -> dict[str, list]:
    """The questions of cells; the zeros at the end of positions are left out."""
    entry: dict[str, list] = {
        name: from_array(name, getattr(asked, name))
        for name in ("feature", "low", "high", "attribute")
    }
    kept = [np.trim_zeros(row, "b") for row in np.asarray(asked.position)]
    return {**entry, "position": [from_array("position", row) for row in kept]}


def _hypotheses(model: Model) -> dict[str, Any]:
    """The hypotheses of the model's rounds.

    Raises:
        ValueError: for hypotheses of the user's own.
    """
    kind = kind_of(model.recipe.learner.hypotheses)
    if kind is None:
        raise ValueError(
            f"the hypotheses of {model.recipe.name} are of your own, and a file holds no functions "
            "that predict with them"
        )
    entry: dict[str, Any] = {"kind": kind}
    for name, array in model.hypotheses._asdict().items():
        values = np.asarray(array)[: int(model.recipe.rounds)]
        if name == "grown":
            assert np.all(values == 1)  # all trees of these rounds
        elif name == "right":
            entry[name] = to_hex(values)
        else:
            entry[name] = from_array(name, values)
    return entry
