"""The file of a model: JSON text with a format, a version and a checksum. No JAX is needed.

It holds what was released and what is public. It never holds keys, scores or withheld sites. It
does not hold the transcript either, as the hypotheses follow from it. The checksum finds accidents,
such as a lost byte. It is no signature: whoever edits a file can compute another one.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from dpbt.common.public import MAX_BINS, Splits
from dpbt.common.storage import checksum, decode, own, write_whole
from dpbt.common.validate import shown
from dpbt.data import cells, domains
from dpbt.data.domains import Domain
from dpbt.data.kinds import Nominal, Numeric
from dpbt.data.targets import Target, check, response_of
from dpbt.learners.hypotheses import KINDS, check_within
from dpbt.privacy import accounting
from dpbt.release.scoring import PROBABILITIES, About, ask_the_same

FORMAT, VERSION = "dpbt model", 4
"""Files of any other version are refused."""

_QUESTIONS = {
    "feature": "int32",
    "low": "uint8",
    "high": "uint8",
    "attribute": "int32",
    "position": "float32",
}
"""The arrays of splits and their dtypes, in the order of `Splits`."""


class _Array(msgspec.Struct):
    """An array, its last axis fastest; eight Booleans are one number, the first the highest bit."""

    shape: Annotated[list[Annotated[int, Meta(ge=0, le=2**40)]], Meta(max_length=4)]
    values: list[float]


class _Rows(msgspec.Struct):
    """What the model reads: the columns of a domain, or bins and what is asked of them."""

    dtype: Literal["uint8", "float32"]
    features: Annotated[int, Meta(ge=1, le=1_000_000)]
    codes: bool
    domain: dict[str, Any] | None
    splits: dict[str, _Array] | None


class _Hypotheses(msgspec.Struct):
    kind: str
    arrays: dict[str, _Array]


class _File(msgspec.Struct):
    name: str
    versions: dict[str, str]
    statement: str
    ledger: str
    privacy: dict[str, Any]
    classes: list[str | bool | int | float] | None
    target: dict[str, Any] | None
    probability: str | None
    reason: str | None
    rows: _Rows
    intercept: _Array
    hypotheses: _Hypotheses


def write(path: Path, model: Any, domain: Domain | None, classes: Sequence[Any] | None) -> None:
    """Write the file of a model, whole or not at all.

    Args:
        path: the file.
        model: a `Model`, as `model.frozen` makes it.
        domain: as `dpbt.save`.
        classes: as `dpbt.save`.

    Raises:
        ValueError: as `dpbt.save`.
        OSError: if the file cannot be written.
    """
    about = model.about
    if path.is_dir():
        raise ValueError(f"{path}: a folder, where the file of a model was expected")
    if not about.kind.arrays:
        raise ValueError(
            f"the hypotheses of {about.name} are of your own, and a file holds no functions "
            "that predict with them"
        )
    if callable(about.probability):
        raise ValueError(
            f"the loss of {about.name} is your own, and a file holds no functions, so the saved "
            "model could give no probabilities; give its recipe loss=None to save scores alone"
        )
    content = _File(
        name=about.name,
        versions=dict(about.versions),
        statement=about.statement,
        ledger=about.ledger,
        privacy=accounting.to_json(about.privacy),
        classes=_classes(about.classes if classes is None else classes, about.target),
        target=None if about.target is None else domains.column_to_json(about.target),
        probability=about.probability,
        reason=about.reason,
        rows=_rows(model, about.domain if domain is None else domain),
        intercept=_packed("intercept", model.intercept),
        hypotheses=_Hypotheses(
            about.kind.name, _all_packed(model.hypotheses, dict(about.kind.arrays))
        ),
    )
    plain = {"format": FORMAT, "format_version": VERSION, **msgspec.to_builtins(content)}
    text = json.dumps({**plain, "checksum": checksum(plain)}, allow_nan=False)
    write_whole(path, lambda part: part.write_text(text + "\n", encoding="ascii"))


def _all_packed(arrays: Any, dtypes: Mapping[str, str]) -> dict[str, _Array]:
    return {name: _packed(name, getattr(arrays, name)) for name in dtypes}


def _packed(name: str, array: Any) -> _Array:
    """An array as a file has it, bit for bit.

    Raises:
        ValueError: naming it, if a number is infinite or NaN.
    """
    values = np.asarray(array)
    shape = list(values.shape)
    if values.dtype == bool:
        values = np.packbits(values, axis=-1)
    if not np.isfinite(values).all():
        raise ValueError(f"{name} holds a number that is infinite or NaN, which no file keeps")
    numbers: Any = values.ravel().tolist()
    return _Array(shape, numbers)


def _all_unpacked(arrays: Mapping[str, _Array], dtypes: Mapping[str, str]) -> dict[str, np.ndarray]:
    """The arrays of a file, by name.

    Raises:
        ValueError: naming one that is not there, and as `_unpacked`.
    """
    if lacking := [name for name in dtypes if name not in arrays]:
        raise ValueError(f"the saved model lacks the array {lacking[0]}")
    return {name: _unpacked(name, arrays[name], dtype) for name, dtype in dtypes.items()}


def _unpacked(name: str, entry: _Array, dtype: str) -> np.ndarray:
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
        ValueError: unless they are distinct words, finite numbers or Booleans, one for each class,
            in the order of the target.
    """
    if classes is None:
        return None
    if isinstance(target, Numeric):
        raise ValueError("a model that predicts a number has no classes")
    given = list(classes) if isinstance(classes, list | tuple | np.ndarray) else []
    words = [word.item() if isinstance(word, np.generic) else word for word in given]
    count = response_of(target).classes
    good = all(isinstance(word, str | int | float) for word in words)
    good = good and not any(isinstance(word, float) and not math.isfinite(word) for word in words)
    if not good or len(words) != count or len(set(words)) != count:
        raise ValueError(
            f"classes must be {count} distinct words or finite numbers, the negative one first or "
            f"in the order of the target, got {shown(classes)}"
        )
    if isinstance(target, Nominal):
        read, names = [cells.declared(word, "a class") for word in words], list(target.names)
        if read != names and sorted(read) == sorted(names):
            raise ValueError(f"classes must be in the order of the target, {shown(names)}")
    return words


def _rows(model: Any, domain: Domain | None) -> _Rows:
    """What the model reads: a domain, or else the splits of its bins.

    Raises:
        ValueError: for a domain that the model was not trained with.
    """
    dtype: Any = model.dtype
    if domain is None:
        asked = model.splits
        return _Rows(dtype, model.features, False, None, asked and _all_packed(asked, _QUESTIONS))

    domains.check(domain)
    for name in domain:
        if not isinstance(name, str):
            raise ValueError(f"names of columns must be text to be kept, got {shown(name)}")
    columns = {name: domains.column_to_json(column) for name, column in domain.items()}
    for codes in (False, True):
        asked = domains.splits(domain, codes=codes)
        fits = len(asked.attribute) == model.features
        if model.splits is not None:
            fits = len(domain) == model.features and ask_the_same(model.splits, asked)
        if fits:
            return _Rows(dtype, model.features, codes, columns, None)
    raise ValueError("the model was trained with other splits than the domain asks")


def read(path: Path) -> dict[str, Any]:
    """The fields of the `Model` that a file holds. Nothing in the file is run.

    Raises:
        ValueError: as `dpbt.load`.
        OSError: if the file cannot be read.
    """
    again = "save the model again"
    content = own(path, path.read_bytes(), FORMAT, VERSION, "a saved model", again)
    try:
        return _fields(decode(_File, content, "the saved model"))
    except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
        words = str(error) if isinstance(error, ValueError) else "an entry is none"
        raise ValueError(f"{path}: not a whole saved model: {words}") from None


def _fields(file: _File) -> dict[str, Any]:
    """The fields of a model, from the content of its file.

    Raises:
        ValueError: for entries that do not fit each other.
    """
    # What it reads, and what it predicts.
    rows, target = file.rows, None
    domain, asked = _asked(rows)
    if file.target is not None:
        target = check(domains.column_from_json("target", file.target))
    axes = response_of(target).axes

    # The arrays.
    kind = KINDS.get(file.hypotheses.kind)
    if kind is None or kind.make is None or kind.check is None:
        raise ValueError(f"hypotheses must be of one of the kinds {sorted(KINDS)}")
    arrays = _all_unpacked(file.hypotheses.arrays, dict(kind.arrays))
    if list(arrays.values())[-1].size == 0:
        raise ValueError("hypotheses must be of at least one round")
    hypotheses = kind.make(**arrays)
    intercept = _unpacked("intercept", file.intercept, "float32")
    if intercept.shape != axes:
        raise ValueError("intercept must have a value for each class of the target")
    kind.check(hypotheses, rows.features, asked, axes)

    # What gives probabilities.
    known = ("shares",) if kind.shares is not None else (None, *PROBABILITIES)
    if target is not None:
        known = ("softmax",) if isinstance(target, Nominal) else (None,)
    if file.probability not in known or (file.probability is None and file.reason is None):
        raise ValueError("probability must be by a loss of dpbt, or say why there is none")

    classes = _classes(file.classes, target)
    about = About(
        name=file.name,
        kind=kind,
        target=target,
        classes=None if classes is None else tuple(classes),
        probability=file.probability,
        reason=file.reason,
        domain=domain,
        codes=rows.codes,
        ledger=file.ledger,
        privacy=accounting.from_json(file.privacy),
        statement=file.statement,
        versions=file.versions,
    )
    reads = {"splits": asked, "features": rows.features, "dtype": rows.dtype}
    return {"hypotheses": hypotheses, "intercept": intercept, "kept": about, **reads}


def _asked(rows: _Rows) -> tuple[Domain | None, Splits | None]:
    """(domain, splits) of a file, which fit each other and the features of rows."""
    reads_bins = rows.dtype == "uint8"
    if rows.domain is not None:
        entries = rows.domain.items()
        domain = {name: domains.column_from_json(name, entry) for name, entry in entries}
        asked = domains.splits(domain, codes=rows.codes)
        if rows.features != (len(domain) if reads_bins else len(asked.attribute)):
            raise ValueError("features must be those of the domain")
        return domain, asked if reads_bins else None

    if (rows.splits is not None) != reads_bins:
        raise ValueError("rows must be uint8 with splits, or float32 without")
    if rows.splits is None:
        return None, None
    asked = Splits(**_all_unpacked(rows.splits, _QUESTIONS))
    of_splits = {array.shape for array in asked[:3]} == {(asked.feature.size,)}
    count = asked.attribute.size
    if not of_splits or (asked.attribute.shape, asked.position.shape) != (
        (count,),
        (count, MAX_BINS),
    ):
        raise ValueError("splits must have arrays of the same length")
    for numbers in (asked.feature, asked.attribute):
        check_within("a split", numbers, 0, rows.features)
    return None, asked
