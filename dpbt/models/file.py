"""What is public about a model, and its file: JSON text with a version and a checksum.

No JAX is needed. The file holds what was released and what is public. It never holds keys, scores
or withheld sites. It does not hold the transcript either, as the hypotheses follow from it. The
checksum finds accidents, such as a lost byte. It is no signature: whoever edits a file can compute
another one.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from dpbt.common import arithmetic
from dpbt.common.arithmetic import Array, array_namespace
from dpbt.common.storage import open_record, seal_record, write_whole
from dpbt.common.validate import show_value
from dpbt.data import cells, domains
from dpbt.data.domains import Domain
from dpbt.data.kinds import Nominal, Numeric, Target, response_of
from dpbt.learners.hypotheses import KINDS, EncodedRows, Kind, Of, check_indices
from dpbt.privacy import accounting
from dpbt.public_types import MAX_BINS, Splits, have_same_splits

if TYPE_CHECKING:
    from dpbt.types import HypothesisClass, Recipe

PROBABILITIES: dict[str, Callable[[Array], Array]] = {
    "matsushita": arithmetic.matsushita_probability,
    "log": arithmetic.log_probability,
    "square": arithmetic.square_probability,
}
"""Score f32[N] -> probability f32[N], by the names of files."""


class About(NamedTuple):
    """What is public about a model, besides its arrays; and what its file says, if it has one.

    Attributes:
        name: of the algorithm.
        kind: of its hypotheses.
        target: the declared classes or range; None for two classes.
        classes: the negative and the positive class, or all of several classes in the order of
            scores; None if they were not named.
        probability: what gives probabilities: the name of a loss of `PROBABILITIES`, or a
            function of scores of two classes; "softmax" of several; "shares" where trees state
            them; None if nothing does.
        reason: why nothing does.
        domain: the public columns; None if the model was not saved with them.
        ledger: the ledger as printed when the model was kept.
        privacy: the ledger itself.
        statement: what `dpbt.statement` said when the model was kept.
        versions: of what kept it.
    """

    name: str
    kind: Kind
    target: Target | None
    classes: tuple[Any, ...] | None
    probability: Callable[[Array], Array] | str | None
    reason: str | None
    domain: Domain | None = None
    ledger: str = ""
    privacy: Any = None
    statement: str = ""
    versions: Mapping[str, str] = {}

    __hash__ = object.__hash__


def about_recipe(recipe: "Recipe") -> About:
    """What is public about the models of a recipe."""
    hypotheses, target = recipe.learner.hypotheses, recipe.target
    own = hypotheses.predict
    kind = own.kind if isinstance(own, Of) else _kind_of_own_hypotheses(hypotheses)
    classes = target.values if isinstance(target, Nominal) else None
    return About(recipe.name, kind, target, classes, *_probability(recipe, kind))


@functools.cache
def _kind_of_own_hypotheses(hypotheses: "HypothesisClass") -> Kind:
    """The kind of hypotheses of the user's own, which no file and no words know."""
    from dpbt.types import Table

    def read(rows: EncodedRows) -> Any:
        absent = array_namespace(rows.bins).zeros(rows.bins.shape[:1], bool)
        return hypotheses.prepare(Table(rows.bins, absent, absent, rows.splits))

    return Kind("", hypotheses.predict, read)


def _probability(recipe: "Recipe", kind: Kind) -> tuple[Any, str | None]:
    """(what gives probabilities, why nothing does); one of them is None."""
    if isinstance(recipe.target, Nominal):
        return "softmax", None
    if isinstance(recipe.target, Numeric):
        return None, "the model predicts a number, and no probabilities of classes"
    if kind.shares is not None:
        return "shares", None
    if (family := recipe.weight_update.loss) is None:
        return None, f"{recipe.name} is a vote without a link, so a score defines no probability"
    alpha = recipe.weighting.link_alpha
    loss = family(alpha if hasattr(alpha, "dtype") else np.float32(alpha))
    try:
        smooth = bool(np.isfinite(loss.smoothness))
    except TypeError:  # traced
        smooth = True
    if not smooth:
        return None, f"the surrogate of {loss.name} has kinks, so a score defines no probability"
    own = loss.probability or loss.inverse_link
    return next((name for name, known in PROBABILITIES.items() if known == own), own), None


def probability_of(about: Any, scores: Array) -> Array:
    """f32[...]: the probability of the positive class that scores give; f32[N, K] of several.

    Args:
        about: the `About` of a model whose hypotheses state scores, as `about(recipe)`.
        scores: as `decision_function` gives them, or `dpbt.boost` of two classes.

    Raises:
        ValueError: if scores define no probability.
    """
    if about.probability is None:
        raise ValueError(about.reason)
    if callable(about.probability):
        return about.probability(scores)
    if about.probability == "softmax":
        return arithmetic.softmax(scores.T).T
    return PROBABILITIES[about.probability](scores)


# Files.


FORMAT, VERSION = "dpbt model", 7
"""Files of any other version are refused."""

_SPLITS = {
    "feature": "int32",
    "low": "uint8",
    "high": "uint8",
    "attribute": "int32",
    "position": "float32",
}
"""The arrays of splits and their dtypes, in the order of `Splits`."""


class _Array(msgspec.Struct):
    """An array, as its bytes in base64: of little-endian numbers of 32 bits, the last axis fastest.

    Eight Booleans are one byte, the first the highest bit; bins are bytes.
    """

    shape: Annotated[list[Annotated[int, Meta(ge=0, le=2**40)]], Meta(max_length=4)]
    values: bytes


_Arrays = dict[str, _Array]


class _File(msgspec.Struct):
    """The content: what is public of a model, the rows that it reads, and its arrays.

    It reads the columns of a domain, or bins and what is asked of them, or numbers. The arrays are
    the intercept, and those of its kind of hypotheses.
    """

    name: str
    versions: dict[str, str]
    statement: str
    ledger: str
    privacy: dict[str, Any]
    classes: list[str | bool | int | float] | None
    target: Target | None
    probability: str | None
    reason: str | None
    dtype: Literal["uint8", "float32"]
    features: Annotated[int, Meta(ge=1, le=1_000_000)]
    domain: dict[str, domains.Column] | None
    splits: _Arrays | None
    kind: str
    arrays: _Arrays


_TOLD = ("name", "versions", "statement", "ledger", "target", "probability", "reason")
"""What a file holds as `About` has it."""

_INTERCEPT = {"intercept": "float32"}


def write_model(
    path: Path, model: Any, domain: Domain | None, classes: Sequence[Any] | None
) -> None:
    """Write the file of a model, whole or not at all.

    Args:
        path: the file.
        model: a `Model`, as `model.without_training_parts` makes it.
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
            "model could give no probabilities; give its recipe a loss by name, such as 'gini'"
        )
    arrays = {"intercept": model.intercept, **model.hypotheses._asdict()}
    asked = model.splits
    if domain is not None:
        domains.check_domain(domain)
        for name in domain:
            if not isinstance(name, str):
                raise ValueError(
                    f"names of columns must be text to be kept, got {show_value(name)}"
                )
        domains.check_same_domain(domain, model.domain, "the given domain", "the model")
        if not _has_splits_of(domain, model):
            raise ValueError("the model was trained with other splits than the domain asks")
    elif about.domain is not None and _has_splits_of(
        about.domain, model
    ):  # not if splits were exchanged
        domain = {str(name): kind for name, kind in about.domain.items()}
    if domain is not None:
        asked = None  # the domain asks them
    content = _File(
        **{name: getattr(about, name) for name in _TOLD},
        privacy=accounting.to_json(about.privacy),
        classes=_classes(about.classes if classes is None else classes, about.target),
        dtype=model.dtype,
        features=model.features,
        domain=None if domain is None else dict(domain),
        splits=None if asked is None else _pack_arrays(asked._asdict(), _SPLITS),
        kind=about.kind.name,
        arrays=_pack_arrays(arrays, {**_INTERCEPT, **dict(about.kind.arrays)}),
    )
    text = seal_record(content, FORMAT, VERSION)
    write_whole(path, lambda part: part.write_bytes(text))


def _has_splits_of(domain: Domain, model: Any) -> bool:
    """Whether a domain has the features of a model, and asks its splits."""
    splits = domains.splits(domain)
    if model.splits is None:
        return len(splits.attribute) == model.features
    return len(domain) == model.features and have_same_splits(model.splits, splits)


def _pack_arrays(arrays: Mapping[str, Any], dtypes: Mapping[str, str]) -> _Arrays:
    """Arrays as a file has them, bit for bit.

    Raises:
        ValueError: naming one that holds an infinite number or NaN.
    """
    packed = {}
    for name, dtype in dtypes.items():
        values = np.asarray(arrays[name])
        shape = list(values.shape)
        if values.dtype == bool:
            values = np.packbits(values, axis=-1)
        if not np.isfinite(values).all():
            raise ValueError(f"{name} holds a number that is infinite or NaN, which no file keeps")
        stored = "uint8" if dtype == "bool" else dtype
        packed[name] = _Array(shape, values.astype(np.dtype(stored).newbyteorder("<")).tobytes())
    return packed


def _unpack_arrays(arrays: _Arrays, dtypes: Mapping[str, str]) -> dict[str, np.ndarray]:
    """The arrays of a file, by name.

    Raises:
        ValueError: naming one that is not there, whose numbers do not fill its shape, or are not of
            the type.
    """
    found = {}
    for name, dtype in dtypes.items():
        if name not in arrays:
            raise ValueError(f"the saved model lacks the array {name}")
        shape, kept = list(arrays[name].shape), "uint8" if dtype == "bool" else dtype
        if dtype == "bool":
            shape[-1:] = [size // 8 for size in shape[-1:]]
        stored, values = np.dtype(kept).newbyteorder("<"), arrays[name].values
        if math.prod(shape) * stored.itemsize != len(values):
            raise ValueError(f"{name} must be {dtype} numbers that fill its shape")
        array = np.frombuffer(values, stored).astype(kept).reshape(shape)
        if not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite {dtype} numbers")
        found[name] = np.unpackbits(array, axis=-1).astype(bool) if dtype == "bool" else array
    return found


def _classes(classes: Any, target: Target | None) -> Any:
    """The classes as a tuple of JSON content, or None for None.

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
    good = all(
        isinstance(word, str | int) or (isinstance(word, float) and math.isfinite(word))
        for word in words
    )
    if not good or len(words) != count or len(set(words)) != count:
        raise ValueError(
            f"classes must be {count} distinct words or finite numbers, the negative one first or "
            f"in the order of the target, got {show_value(classes)}"
        )
    if isinstance(target, Nominal):
        read, names = [cells.declared_word(word, "a class") for word in words], list(target.values)
        if read != names and sorted(read) == sorted(names):
            raise ValueError(f"classes must be in the order of the target, {show_value(names)}")
    return tuple(words)


def read_model(path: Path) -> dict[str, Any]:
    """The fields of the `Model` that a file holds. Nothing in the file is run.

    Raises:
        ValueError: as `dpbt.load`.
        OSError: if the file cannot be read.
    """
    content = open_record(_File, path, FORMAT, VERSION, "a saved model", "save the model again")
    try:
        return _fields_of_file(content)
    except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
        words = str(error) if isinstance(error, ValueError) else "an entry is none"
        raise ValueError(f"{path}: not a whole saved model: {words}") from None


def _fields_of_file(file: _File) -> dict[str, Any]:
    """The fields of a model, from the content of its file.

    Raises:
        ValueError: for entries that do not fit each other.
    """
    asked, axes = _splits_of_file(file), response_of(file.target).axes
    kind = KINDS.get(file.kind)
    if kind is None or kind.make is None or kind.check is None:
        raise ValueError(f"hypotheses must be of one of the kinds {sorted(KINDS)}")
    arrays = _unpack_arrays(file.arrays, {**_INTERCEPT, **dict(kind.arrays)})
    intercept = arrays.pop("intercept")
    if intercept.shape != axes:
        raise ValueError("intercept must have a value for each class of the target")
    if list(arrays.values())[-1].size == 0:
        raise ValueError("hypotheses must be of at least one round")
    hypotheses = kind.make(**arrays)
    kind.check(hypotheses, file.features, asked, axes)

    # What gives probabilities.
    known = ("shares",) if kind.shares is not None else (None, *PROBABILITIES)
    if file.target is not None:
        known = ("softmax",) if isinstance(file.target, Nominal) else (None,)
    if file.probability not in known or (file.probability is None and file.reason is None):
        raise ValueError("probability must be by a loss of dpbt, or say why there is none")

    about = About(
        **{name: getattr(file, name) for name in _TOLD},
        kind=kind,
        classes=_classes(file.classes, file.target),
        domain=file.domain,
        privacy=accounting.from_json(file.privacy),
    )
    reads: dict[str, Any] = {"splits": asked, "features": file.features, "dtype": file.dtype}
    if file.domain is not None:
        reads["domain"] = domains.as_declared_domain(file.domain)
    return {"hypotheses": hypotheses, "intercept": intercept, "kept": about, **reads}


def _splits_of_file(file: _File) -> Splits | None:
    """What is asked of bins, by the domain or as the file says; None where numbers are read.

    Raises:
        ValueError: if that does not fit the features of rows.
    """
    reads_bins = file.dtype == "uint8"
    if file.domain is not None:
        asked = domains.splits(file.domain)
        if file.features != (len(file.domain) if reads_bins else len(asked.attribute)):
            raise ValueError("features must be those of the domain")
        return asked if reads_bins else None
    if (file.splits is not None) != reads_bins:
        raise ValueError("rows must be uint8 with splits, or float32 without")
    if file.splits is None:
        return None
    asked = Splits(**_unpack_arrays(file.splits, _SPLITS))
    count, attributes = asked.feature.size, asked.attribute.size
    shapes = [*[(count,)] * 3, (attributes,), (attributes, MAX_BINS)]
    if [array.shape for array in asked[:5]] != shapes:
        raise ValueError("splits must have arrays of the same length")
    for numbers in (asked.feature, asked.attribute):
        check_indices("a split", numbers, 0, file.features)
    return asked
