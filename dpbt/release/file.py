"""The file of a model: JSON text with a format, a version and a checksum. No JAX is needed.

It holds what was released and what is public. It never holds keys, scores or withheld sites. It
does not hold the transcript either, as the hypotheses follow from it. The checksum finds accidents,
such as a lost byte. It is no signature: whoever edits a file can compute another one.
"""

import json
import math
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

import dpbt
from dpbt.data import cells, domains
from dpbt.data.domains import Domain
from dpbt.data.kinds import Nominal, Numeric
from dpbt.data.targets import Target, check, response_of
from dpbt.formats import LedgerRecord, decode
from dpbt.learners.hypotheses import KINDS
from dpbt.learners.hypotheses.kind import Kind, check_within
from dpbt.modelfiles import checksum, own
from dpbt.public import CELLS, Questions
from dpbt.release.answers import PROBABILITIES
from dpbt.release.model import About, Kept, Model, model_of
from dpbt.storage import write_whole
from dpbt.validate import as_path, shown

FORMAT, VERSION = "dpbt model", 3
"""Files of any other version are refused."""

_AGAIN = "save the model again"


class _Array(msgspec.Struct):
    """An array, its last axis fastest; eight Booleans are one number, the first the highest bit."""

    shape: Annotated[list[Annotated[int, Meta(ge=0, le=2**40)]], Meta(max_length=4)]
    values: list[float]


class _Rows(msgspec.Struct):
    """What the model reads: the columns of a domain, or cells and what is asked of them."""

    dtype: Literal["uint8", "float32"]
    features: Annotated[int, Meta(ge=1, le=1_000_000)]
    codes: bool
    domain: dict[str, Any] | None
    questions: dict[str, _Array] | None


class _Versions(msgspec.Struct):
    dpbt: str
    jax: str


class _Hypotheses(msgspec.Struct):
    kind: str
    arrays: dict[str, _Array]


class _File(msgspec.Struct):
    name: str
    versions: _Versions
    statement: str
    ledger: str
    privacy: LedgerRecord
    classes: list[str | bool | int | float] | None
    target: dict[str, Any] | None
    probability: str | None
    reason: str | None
    rows: _Rows
    intercept: _Array
    hypotheses: _Hypotheses


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
        model: from `fit`, or `dpbt.load`.
        path: the file; one that exists is replaced.
        domain: the domain that encoded the rows. With it, the saved model reads raw columns. A
            loaded model has its own.
        classes: the negative and the positive class, each text, a number or a Boolean. With them,
            the saved model predicts classes instead of Booleans. With several classes it is all of
            them in order, by default the declared ones. A number has none.

    Raises:
        ValueError: for anything that is no model, or a domain with other questions than the model.
            Also for hypotheses or a loss of your own, which are functions that no file holds. Also
            for hypotheses that are not finite, and a path that is a folder.
        OSError: if the file cannot be written.
    """
    path = as_path("path", path)
    about, kept = model_of(model).about, kept_of(model)
    if path.is_dir():
        raise ValueError(f"{path}: a folder, where the file of a model was expected")
    if not about.kind.arrays:
        raise ValueError(
            f"the hypotheses of {about.name} are of your own, and a file holds no functions "
            "that predict with them"
        )
    arrays = model.on_host()._asdict()
    target = about.target
    content = {
        "format": FORMAT,
        "format_version": VERSION,
        "name": about.name,
        "versions": kept.versions,
        "statement": kept.statement,
        "ledger": kept.ledger,
        "privacy": kept.privacy,
        "classes": _classes(about.classes if classes is None else classes, target),
        "target": None if target is None else domains.column_to_json(target),
        "probability": name_of_probability(about),
        "reason": about.reason,
        "rows": _rows(model, about.domain if domain is None else domain),
        "intercept": _to_json("intercept", model.intercept),
        "hypotheses": {
            "kind": about.kind.name,
            "arrays": {name: _to_json(name, arrays[name]) for name, _ in about.kind.arrays},
        },
    }
    text = json.dumps({**content, "checksum": checksum(content)}, allow_nan=False)
    write_whole(path, lambda part: part.write_text(text + "\n", encoding="ascii"))


def kept_of(model: Model) -> Kept:
    """What a file says of a model."""
    if model.kept is not None:
        return model.kept
    from dpbt.privacy import accounting
    from dpbt.release.statement import ledger, statement

    book = ledger(model)
    versions = {"dpbt": dpbt.__version__, "jax": metadata.version("jax")}
    return Kept(model.about, str(book), accounting.to_json(book), statement(model), versions)


def _to_json(name: str, array: Any) -> dict[str, Any]:
    """An array as JSON content, bit for bit.

    Raises:
        ValueError: naming it, if a number is infinite or NaN.
    """
    values = np.asarray(array)
    shape = list(values.shape)
    if values.dtype == bool:
        values = np.packbits(values, axis=-1)
    if not np.isfinite(values).all():
        raise ValueError(f"{name} holds a number that is infinite or NaN, which no file keeps")
    return {"shape": shape, "values": values.ravel().tolist()}


def _from_json(name: str, entry: _Array, dtype: str) -> np.ndarray:
    """An array of a file.

    Raises:
        ValueError: naming it, if its numbers do not fill its shape, or are not of the type.
    """
    shape = list(entry.shape)
    if dtype == "bool":
        shape[-1:] = [size // 8 for size in shape[-1:]]
    values, kept = np.array(entry.values, np.float64), "uint8" if dtype == "bool" else dtype
    with np.errstate(all="ignore"):
        found = values.astype(kept)
    same = np.isfinite(found).all() if kept == "float32" else np.array_equal(found, values)
    if math.prod(shape) != len(values) or not same:
        raise ValueError(f"{name} must be {dtype} numbers that fill its shape")
    found = found.reshape(shape)
    return np.unpackbits(found, axis=-1).astype(bool) if dtype == "bool" else found


def _classes(classes: Any, target: Target | None) -> list[Any] | None:
    """The classes as JSON content.

    Raises:
        ValueError: unless they are distinct words, finite numbers or Booleans, one for each class.
    """
    if classes is None:
        return None
    if isinstance(target, Numeric):
        raise ValueError("a model that predicts a number has no classes")
    count = response_of(target).classes
    expected = "classes must be the negative and the positive class, two words or finite numbers"
    if target is not None:
        expected = f"classes must be {count} words or finite numbers, in the order of the target"
    listed = isinstance(classes, Sequence | np.ndarray) and not isinstance(classes, str | bytes)
    if not listed or len(classes) != count:
        raise ValueError(f"{expected}, got {shown(classes)}")
    words = [word.item() if isinstance(word, np.generic) else word for word in classes]
    good = all(isinstance(word, str | int | float) for word in words)
    if not good or any(isinstance(word, float) and not math.isfinite(word) for word in words):
        raise ValueError(f"{expected}, got {shown(classes)}")
    for number, word in enumerate(words):
        if word in words[:number]:
            raise ValueError(f"classes must differ, got {shown(word)} twice")
    if isinstance(target, Nominal):
        read, names = [cells.declared(word, "a class") for word in words], list(target.names)
        if read != names and sorted(read) == sorted(names):
            raise ValueError(f"classes must be in the order of the target, {shown(names)}")
    return words


def name_of_probability(about: About) -> str | None:
    """The name of what gives probabilities.

    Raises:
        ValueError: for a loss of the user's own.
    """
    if not callable(about.probability):
        return about.probability
    names = {function: name for name, function in PROBABILITIES.items()}
    if about.probability not in names:
        raise ValueError(
            f"the loss of {about.name} is your own, and a file holds no functions, so the saved "
            "model could give no probabilities; give its recipe loss=None to save scores alone"
        )
    return names[about.probability]


def _rows(model: Model, domain: Domain | None) -> dict[str, Any]:
    """What the model reads: a domain, or else the questions of its cells.

    Raises:
        ValueError: for a domain that the model was not trained with.
    """
    entry = {"dtype": model.dtype, "features": model.features, "codes": False, "domain": None}
    if domain is None:
        asked = model.questions
        fields = None if asked is None else dict(zip(_QUESTIONS, asked[:5], strict=True))
        kept = fields and {name: _to_json(name, array) for name, array in fields.items()}
        return {**entry, "questions": kept}

    domains.check(domain)
    columns: dict[str, Any] = {}
    for name, column in domain.items():
        if not isinstance(name, str):
            raise ValueError(f"names of columns must be text to be kept, got {shown(name)}")
        columns[name] = domains.column_to_json(column)
    for codes in (False, True):
        if _fits(model, domains.questions(domain, codes=codes), len(domain)):
            return {**entry, "codes": codes, "domain": columns, "questions": None}
    raise ValueError("the model was trained with other questions than the domain asks")


def _fits(model: Model, questions: Questions, columns: int) -> bool:
    """Whether a model reads rows of a domain with these questions."""
    if model.questions is None:
        return len(questions.attribute) == model.features
    pairs = zip(model.questions[:5], questions[:5], strict=True)
    return columns == model.features and all(np.array_equal(a, b) for a, b in pairs)


def load(path: str | Path) -> Model:
    """A model from the file that `save` wrote, without JAX. Nothing in the file is run.

    The checksum finds a file that was changed by accident. It is no signature, so load files of
    those whom you trust to state the model's privacy.

    Args:
        path: the file.

    Raises:
        ValueError: naming the path and the reason, if the file is no saved model, was cut off or
            changed, or has another format.
        OSError: if the file cannot be read.
    """
    path = as_path("path", path)
    content = own(path, path.read_bytes(), FORMAT, VERSION, "a saved model", _AGAIN)
    try:
        return _model(decode(_File, content, "the saved model"))
    except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
        words = str(error) if isinstance(error, ValueError) else "an entry is none"
        raise ValueError(f"{path}: not a whole saved model: {words}") from None


def _model(file: _File) -> Model:
    """The model of a file's content.

    Raises:
        ValueError: for entries that do not fit each other.
    """
    domain, questions = _asked(file.rows)
    kind = KINDS.get(file.hypotheses.kind)
    if kind is None or kind.make is None or kind.check is None:
        raise ValueError(f"hypotheses must be of one of the kinds {sorted(KINDS)}")
    arrays = {
        name: _from_json(name, _entry(file.hypotheses.arrays, name), dtype)
        for name, dtype in kind.arrays
    }
    if list(arrays.values())[-1].size == 0:
        raise ValueError("hypotheses must be of at least one round")
    hypotheses = kind.make(**arrays)

    target = None
    if file.target is not None:
        target = check(domains.column_from_json("target", file.target))
    axes = response_of(target).axes
    intercept = _from_json("intercept", file.intercept, "float32")
    if intercept.shape != axes:
        raise ValueError("intercept must have a value for each class of the target")
    kind.check(hypotheses, file.rows.features, questions, axes)

    classes = _classes(file.classes, target)
    about = About(
        name=file.name,
        kind=kind,
        target=target,
        classes=None if classes is None else tuple(classes),
        probability=_named_probability(file, target, kind),
        reason=file.reason,
        domain=domain,
        codes=file.rows.codes,
    )
    privacy = msgspec.to_builtins(file.privacy)
    kept = Kept(about, file.ledger, privacy, file.statement, msgspec.to_builtins(file.versions))
    asked = questions if file.rows.dtype == "uint8" else None
    size = file.rows.features, file.rows.dtype
    return Model(hypotheses, intercept, None, None, asked, *size, kept=kept)


def _entry(arrays: dict[str, _Array], name: str) -> _Array:
    """An array of a file; ValueError if it is not there."""
    if name not in arrays:
        raise ValueError(f"the saved model lacks the array {name}")
    return arrays[name]


def _named_probability(file: _File, target: Target | None, kind: Kind) -> Any:
    """What gives probabilities, by its name in a file."""
    known = ("shares",) if kind.shares is not None else (None, *PROBABILITIES)
    if target is not None:
        known = ("softmax",) if isinstance(target, Nominal) else (None,)
    if file.probability not in known or (file.probability is None and file.reason is None):
        raise ValueError("probability must be by a loss of dpbt, or say why there is none")
    return PROBABILITIES.get(file.probability or "", file.probability)


_QUESTIONS = ("feature", "low", "high", "attribute", "position")
_DTYPES = ("int32", "uint8", "uint8", "int32", "float32")


def _asked(rows: _Rows) -> tuple[Domain | None, Questions | None]:
    """(domain, questions) of a file, which fit each other and the features of rows."""
    reads_cells = rows.dtype == "uint8"
    if rows.domain is not None:
        domain = {
            name: domains.column_from_json(name, entry) for name, entry in rows.domain.items()
        }
        asked = domains.questions(domain, codes=rows.codes)
        if rows.features != (len(domain) if reads_cells else len(asked.attribute)):
            raise ValueError("features must be those of the domain")
        return domain, asked if reads_cells else None

    if (rows.questions is not None) != reads_cells:
        raise ValueError("rows must be uint8 with questions, or float32 without")
    if rows.questions is None:
        return None, None
    named = zip(_QUESTIONS, _DTYPES, strict=True)
    asked = Questions(
        *(_from_json(name, _entry(rows.questions, name), dtype) for name, dtype in named)
    )
    if not (asked.feature.ndim == 1 and asked.feature.shape == asked.low.shape == asked.high.shape):
        raise ValueError("feature, low and high must have the same length")
    if asked.attribute.ndim != 1 or asked.position.shape != (len(asked.attribute), CELLS):
        raise ValueError("attribute and position must have the same length")
    for read in (asked.feature, asked.attribute):
        check_within("a question", read, 0, rows.features)
    return None, asked
