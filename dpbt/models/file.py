"""The public facts of a model, and its file: JSON text with a version and a checksum.

Files are written and read without JAX. A file holds the release and public declarations, and never
keys, scores or withheld sites. It does not hold the transcript either, as the hypotheses follow
from it. The checksum finds accidents, such as a lost byte. It is no signature: whoever edits a file
can compute another one.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np
from jaxtyping import Float32
from msgspec import Meta

from dpbt.common import arithmetic
from dpbt.common.arithmetic import array_namespace
from dpbt.common.storage import encode_record, read_record, write_atomically
from dpbt.common.validate import is_traced, show_value
from dpbt.data import cells, domains
from dpbt.data.column_types import Nominal, Numeric, Target, response_of_target
from dpbt.data.domains import Domain
from dpbt.hypothesis_kind import HypothesisKind
from dpbt.learners.kinds import KINDS, files_can_hold_kind
from dpbt.learners.model_parts import EncodedRows, check_indices_in_range
from dpbt.privacy import accounting
from dpbt.public_types import MAX_BINS, AnyArray, DeclaredDomain, Splits, have_same_splits

if TYPE_CHECKING:
    from dpbt.types import Recipe

PROBABILITIES: dict[str, Callable[[AnyArray], AnyArray]] = {
    "matsushita": arithmetic.matsushita_loss_probability,
    "log": arithmetic.log_loss_probability,
    "square": arithmetic.square_loss_probability,
}
"""By the name of a loss in files, the function from scores f32[N] to probabilities f32[N]."""


class AuthorLoss(msgspec.Struct, frozen=True):
    """The name and the alpha of a loss that is none of dpbt's, with which a model was boosted.

    A file holds these words.

    Attributes:
        name: `ProperLoss.name`.
        alpha: the alpha at which a family gives it.
    """

    name: str
    alpha: float


class PublicFacts(NamedTuple):
    """The public facts of a model besides its arrays, such as domain and ledger.

    The last eight, but for `own_loss`, are those of a saved model.

    Attributes:
        name: the name of the algorithm.
        kind: the kind of its hypotheses.
        target: the declared classes or range; None for two classes.
        classes: the negative and the positive class, or all of several classes in the order of
            scores; None if they have no names.
        probability: the source of probabilities: the name of a loss of `PROBABILITIES`, or a
            function of scores of two classes; "softmax" for several classes; "shares" where trees
            state them; None if there is no source.
        reason: why there is no source of probabilities; None if there is one.
        domain: the declared columns; None if the model was made or saved without them.
        ledger: the text of the ledger.
        privacy: the ledger itself.
        statement: the text of `dpbt.statement`.
        versions: the version of each package that saved it.
        bin_shares: for each column the share of the rows in each of its bins, as released
            histograms tell; None if none were released.
        mean_error: as `Model.mean_error`.
        own_loss: the loss whose probabilities no file holds; None for a loss of dpbt, or none.
    """

    name: str
    kind: HypothesisKind
    target: Target | None
    classes: tuple[Any, ...] | None
    probability: Callable[[AnyArray], AnyArray] | str | None
    reason: str | None
    domain: Domain | None = None
    ledger: str = ""
    privacy: Any = None
    statement: str = ""
    versions: Mapping[str, str] = {}
    bin_shares: tuple[tuple[float, ...], ...] | None = None
    mean_error: float | None = None
    own_loss: AuthorLoss | None = None

    __hash__ = object.__hash__


def public_facts_of_recipe(recipe: "Recipe") -> PublicFacts:
    """The public facts of the models that a recipe fits."""
    kind = _kind_for_prediction(recipe.learner.kind)
    target = recipe.target
    source = _probability_source(recipe, kind)
    return PublicFacts(
        name=recipe.name,
        kind=kind,
        target=target,
        classes=target.values if isinstance(target, Nominal) else None,
        probability=source.probability,
        reason=source.reason,
        own_loss=source.own_loss,
    )


@functools.cache
def _kind_for_prediction(kind: HypothesisKind) -> HypothesisKind:
    """The kind of hypotheses that a model predicts with.

    It needs no training.

    A kind of the library is that of `KINDS`. A kind of an author has no file and no description,
    and its rows are laid out as they are for training.
    """
    if files_can_hold_kind(kind):
        return KINDS[kind.name]
    from dpbt.types import Table

    training = kind.training
    assert training is not None  # as `WeakLearner` says

    def read_rows(rows: EncodedRows) -> Any:
        absent = array_namespace(rows.bins).zeros(rows.bins.shape[:1], bool)
        return training.prepare(Table(rows.bins, absent, absent, rows.splits))

    return HypothesisKind(predict=kind.predict_prepared, read_rows=read_rows)


class _ProbabilitySource(NamedTuple):
    """The source of the probabilities of a model, or the reason why there is none.

    Attributes:
        probability: as `PublicFacts.probability`.
        reason: as `PublicFacts.reason`.
        own_loss: as `PublicFacts.own_loss`.
    """

    probability: Callable[[AnyArray], AnyArray] | str | None
    reason: str | None
    own_loss: AuthorLoss | None = None


def _probability_source(recipe: "Recipe", kind: HypothesisKind) -> _ProbabilitySource:
    """The source of the probabilities of a recipe's models, or why there is none."""
    if isinstance(recipe.target, Nominal):
        return _ProbabilitySource("softmax", None)
    if isinstance(recipe.target, Numeric):
        reason = "the model predicts a number, and no probabilities of classes"
        return _ProbabilitySource(None, reason)
    if kind.shares is not None:
        return _ProbabilitySource("shares", None)
    if (family := recipe.weight_update.loss) is None:
        reason = f"{recipe.name} is a vote without a link, so a score defines no probability"
        if recipe.options_text == "custom":
            reason += "; custom(loss=..., weighting=...) gives it one"
        return _ProbabilitySource(None, reason)
    alpha = recipe.weight_params.link_alpha
    loss = family(alpha if hasattr(alpha, "dtype") else np.float32(alpha))
    try:
        is_smooth = bool(np.isfinite(loss.smoothness))
    except TypeError:  # traced
        is_smooth = True
    if not is_smooth:
        reason = f"the surrogate of {loss.name} has kinks, so a score defines no probability"
        return _ProbabilitySource(None, reason)
    function = loss.probability or loss.inverse_link
    for name, link in PROBABILITIES.items():
        if link == function:
            return _ProbabilitySource(name, None)
    own_loss = None if is_traced(alpha) else AuthorLoss(str(loss.name), float(np.asarray(alpha)))
    return _ProbabilitySource(function, None, own_loss)


def with_probabilities_of_loss(about: PublicFacts, loss: Any) -> PublicFacts:
    """Add probabilities to the facts of a loaded model, by the loss it was boosted with.

    Args:
        about: the facts in the file.
        loss: a `ProperLoss`, or a family of them, as the recipe had it.

    Raises:
        ValueError: for a model of no loss of one's own, for a loss of another name, and as
            `losses.loss_family_of_loss_or_name` and `losses.check_links_of_family`.
    """
    from dpbt import losses  # this brings JAX

    own_loss = about.own_loss
    if own_loss is None:
        raise ValueError("the model was boosted with a loss of dpbt, or none, so it takes no loss")
    family = losses.loss_family_of_loss_or_name(loss, "loss")
    losses.check_links_of_family(family)
    proper_loss = family(np.float32(own_loss.alpha))
    if str(proper_loss.name) != own_loss.name:
        raise ValueError(
            f"loss must be the one of the name {show_value(own_loss.name)}, which the model was "
            f"boosted with, got {show_value(str(proper_loss.name))}"
        )
    return about._replace(
        probability=proper_loss.probability or proper_loss.inverse_link, reason=None
    )


def probabilities_of_scores(about: Any, scores: AnyArray) -> Float32[AnyArray, "..."]:
    """f32[...]: the probability of the positive class by scores.

    With several classes it is f32[N, K], the probability of each.

    Args:
        about: the `PublicFacts` of a model whose hypotheses state scores.
        scores: as `decision_function` returns them, or `dpbt.boost` for two classes.

    Raises:
        ValueError: if scores define no probability.
    """
    if about.probability is None:
        raise ValueError(about.reason)
    if callable(about.probability):
        return about.probability(scores)
    if about.probability == "softmax":
        return arithmetic.softmax_in_bits(scores.T).T
    return PROBABILITIES[about.probability](scores)


# Files.


FORMAT, VERSION = "dpbt model", 7
"""Files of any other version are refused."""

_SPLIT_DTYPES = {
    "feature": "int32",
    "low": "uint8",
    "high": "uint8",
    "attribute": "int32",
    "position": "float32",
}
"""The arrays of splits and their dtypes, in the order of `Splits`."""


class _Array(msgspec.Struct):
    """An array as bytes in base64.

    They are little-endian numbers of 32 bits, the last axis fastest.

    Bins are bytes, and deviations of noise have 16 bits. Eight Booleans are one byte, the first of
    them its highest bit.
    """

    shape: Annotated[list[Annotated[int, Meta(ge=0, le=2**40)]], Meta(max_length=4)]
    values: bytes


_Arrays = dict[str, _Array]


class _File(msgspec.Struct, omit_defaults=True):
    """The content of a model's file: public facts, the form of rows, and arrays.

    The model reads the columns of a domain, or bins with the splits that the file holds, or
    numbers. The arrays are the intercept, and those of its kind of hypotheses.
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
    own_loss: AuthorLoss | None = None


_FIELDS_OF_FACTS = (
    "name",
    "versions",
    "statement",
    "ledger",
    "target",
    "probability",
    "reason",
    "own_loss",
)
"""The fields of `PublicFacts` that a file holds unchanged."""

_BIN_SHARES_DTYPES = {"bin_shares": "float32"}
"""The dtype of `PublicFacts.bin_shares`, of a model that has them."""

_MEAN_ERROR_DTYPES = {"mean_error": "float32"}
"""The dtype of `PublicFacts.mean_error`, of a model that states it."""

_INTERCEPT_DTYPES = {"intercept": "float32"}
"""The dtype of the intercept, beside those of `Kind.arrays`."""


def write_model(
    path: Path, model: Any, domain: Domain | None, classes: Sequence[Any] | None
) -> None:
    """Write a model to a file.

    The file is written whole or not at all.

    Args:
        path: the file.
        model: a `Model`, as `model.without_training_parts` returns it.
        domain: as `dpbt.save`.
        classes: as `dpbt.save`.

    Raises:
        ValueError: as `dpbt.save`.
        OSError: if the file cannot be written.
    """
    if path.is_dir():
        raise ValueError(f"{path}: a folder, where the file of a model was expected")
    text = encode_model_as_ascii_json(model, domain, classes)
    write_atomically(path, lambda part: part.write_bytes(text))


def encode_model_as_ascii_json(
    model: Any, domain: Domain | None, classes: Sequence[Any] | None
) -> bytes:
    """The text of the file of a model: JSON, as bytes in ASCII.

    Arguments and errors are those of `write_model`.
    """
    about = model.about
    kind = about.kind
    if not kind.arrays or kind.make is None or kind.check_arrays is None:  # `load` needs all three
        raise ValueError(
            f"the hypotheses of {about.name} are of your own, and a file holds no functions "
            "that predict with them"
        )
    if callable(about.probability):
        assert about.own_loss is not None  # a model that is saved is not traced
        about = about._replace(
            probability=None,
            reason=(
                f"the loss {about.own_loss.name} of {about.name} is your own, and a file holds no "
                "functions, so its scores define no probability; dpbt.load(path, loss=...) takes "
                "that loss"
            ),
        )
    arrays = {"intercept": model.intercept, **model.hypotheses._asdict()}
    dtypes = {**_INTERCEPT_DTYPES, **_array_dtypes(kind)}
    if about.bin_shares is not None:
        arrays |= {"bin_shares": about.bin_shares}
        dtypes |= _BIN_SHARES_DTYPES
    if about.mean_error is not None:
        arrays |= {"mean_error": np.float32(about.mean_error)}
        dtypes |= _MEAN_ERROR_DTYPES
    domain = _domain_to_save(model, domain)
    # The splits follow from a domain.
    splits = model.splits if domain is None else None
    content = _File(
        **{name: getattr(about, name) for name in _FIELDS_OF_FACTS},
        privacy=accounting.to_json(about.privacy),
        classes=_checked_class_words(about.classes if classes is None else classes, about.target),
        dtype=model.dtype,
        features=model.features,
        domain=None if domain is None else dict(domain),
        splits=None if splits is None else _pack_arrays(splits._asdict(), _SPLIT_DTYPES),
        kind=about.kind.name,
        arrays=_pack_arrays(arrays, dtypes),
    )
    return encode_record(content, format_name=FORMAT, format_version=VERSION)


def _domain_to_save(model: Any, domain: Domain | None) -> Domain | None:
    """The domain that the file of a model holds.

    It is the argument of `save`, or else the model's own.

    Names of columns become their texts, which `check_domain` found to differ. The domain is None if
    neither is there, and if the splits of the model are not those of its own domain, as after an
    exchange of splits.

    Raises:
        ValueError: for an argument that is another domain than the model's.
    """
    if domain is None:
        saved = model.about.domain
        if saved is None or not _has_columns_and_splits_of_model(saved, model):
            return None
        return {str(name): kind for name, kind in saved.items()}
    domains.check_domain(domain)
    domains.check_same_domain(domain, model.domain, "the given domain", "the model")
    if not _has_columns_and_splits_of_model(domain, model):
        raise ValueError("the model was trained with other splits than the domain asks")
    return {str(name): kind for name, kind in domain.items()}


def _has_columns_and_splits_of_model(domain: Domain, model: Any) -> bool:
    """Whether the features and splits of a domain are those of a model."""
    splits = domains.splits(domain)
    if model.splits is None:
        return len(splits.attribute) == model.features
    return len(domain) == model.features and have_same_splits(model.splits, splits)


def _array_dtypes(kind: HypothesisKind) -> dict[str, str]:
    """The dtype of each array of a kind of hypotheses, by its name.

    The optional ones are last.
    """
    return dict((*kind.arrays, *kind.optional_arrays))


def _pack_arrays(arrays: Mapping[str, Any], dtypes: Mapping[str, str]) -> _Arrays:
    """Pack arrays in the form of a file, bit for bit.

    Raises:
        ValueError: naming an array that holds an infinite number or NaN.
    """
    packed = {}
    for name, dtype in dtypes.items():
        values = np.asarray(arrays[name])
        shape = list(values.shape)
        if values.dtype == bool:
            values = np.packbits(values, axis=-1)
        if not np.isfinite(values).all():
            raise ValueError(f"{name} holds a number that is infinite or NaN, which no file keeps")
        if dtype == "float16":  # it is only about a deviation, so no number of it refuses a model
            values = np.minimum(values, np.finfo(np.float16).max)
        packed[name] = _Array(shape, values.astype(_stored_dtype(dtype)).tobytes())
    return packed


def _stored_dtype(dtype: str) -> np.dtype:
    """The little-endian dtype of the bytes in which an array is stored.

    Packed Booleans are bytes.
    """
    return np.dtype("uint8" if dtype == "bool" else dtype).newbyteorder("<")


def _unpack_arrays(arrays: _Arrays, dtypes: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Unpack the arrays of a file, by name.

    Raises:
        ValueError: naming an array that is missing, or whose numbers do not fill its shape or are
            not finite.
    """
    unpacked = {}
    for name, dtype in dtypes.items():
        if name not in arrays:
            raise ValueError(f"the saved model lacks the array {name}")
        shape = list(arrays[name].shape)
        values = arrays[name].values
        if dtype == "bool":
            shape[-1:] = [size // 8 for size in shape[-1:]]
        stored_dtype = _stored_dtype(dtype)
        if math.prod(shape) * stored_dtype.itemsize != len(values):
            raise ValueError(f"{name} must be {dtype} numbers that fill its shape")
        stored = np.frombuffer(values, stored_dtype)
        array = stored.astype(stored_dtype.newbyteorder("=")).reshape(shape)
        if not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite {dtype} numbers")
        unpacked[name] = np.unpackbits(array, axis=-1).astype(bool) if dtype == "bool" else array
    return unpacked


def _checked_class_words(classes: Any, target: Target | None) -> Any:
    """The classes as a tuple of text, numbers and Booleans, once they were checked.

    JSON holds such values. None stays None.

    Raises:
        ValueError: unless they are distinct words, finite numbers or Booleans, one for each class,
            in the order of the target.
    """
    if classes is None:
        return None
    if isinstance(target, Numeric):
        raise ValueError("a model that predicts a number has no classes")
    class_list = list(classes) if isinstance(classes, list | tuple | np.ndarray) else []
    words = [_as_plain_class(word) for word in class_list]
    count = response_of_target(target).num_classes
    are_words = all(
        isinstance(word, str | int) or (isinstance(word, float) and math.isfinite(word))
        for word in words
    )
    if not are_words or len(words) != count or len(set(words)) != count:
        raise ValueError(
            f"classes must be {count} distinct words or finite numbers, the negative one first or "
            f"in the order of the target, got {show_value(classes)}"
        )
    if isinstance(target, Nominal):
        names = list(target.values)
        declared = [cells.declared_word(word, "a class") for word in words]
        if declared != names and sorted(declared) == sorted(names):
            raise ValueError(f"classes must be in the order of the target, {show_value(names)}")
    return tuple(words)


def _as_plain_class(word: Any) -> Any:
    """Convert a class that may be of NumPy to a plain value of Python.

    The float32 nearest to .1 becomes .1, as cells are read.
    """
    is_narrow = isinstance(word, np.floating) and not isinstance(word, float)
    if is_narrow and np.isfinite(word):
        return float(cells.declared_word(word, "a class"))
    return word.item() if isinstance(word, np.generic) else word


class SavedModel(NamedTuple):
    """The parts of a `Model` that a file holds.

    They have the names of its fields.
    """

    hypotheses: Any
    intercept: np.ndarray
    splits: Splits | None
    features: int
    dtype: str
    loaded_facts: PublicFacts
    domain: DeclaredDomain | None


def read_model(path: Path) -> SavedModel:
    """Read the parts of a `Model` from its file.

    Nothing in the file is run.

    Raises:
        ValueError: as `dpbt.load`.
        OSError: if the file cannot be read.
    """
    content = read_record(
        _File,
        path,
        format_name=FORMAT,
        format_version=VERSION,
        description="a saved model",
        remedy="save the model again",
    )
    try:
        return _parse_saved_model(content)
    except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
        words = str(error) if isinstance(error, ValueError) else "an entry is none"
        raise ValueError(f"{path}: not a whole saved model: {words}") from None


def _parse_saved_model(file: _File) -> SavedModel:
    """Parse the content of a file into the parts of a model.

    Raises:
        ValueError: for entries that do not fit each other.
    """
    splits = _parse_splits(file)
    axes = response_of_target(file.target).score_axes
    kind = KINDS.get(file.kind)
    if kind is None or kind.make is None or kind.check_arrays is None:
        raise ValueError(f"hypotheses must be of one of the kinds {sorted(KINDS)}")
    dtypes = {**_INTERCEPT_DTYPES, **_array_dtypes(kind)}
    for name, _ in kind.optional_arrays:
        if name not in file.arrays:
            del dtypes[name]
    arrays = _unpack_arrays(file.arrays, dtypes)
    intercept = arrays.pop("intercept")
    if intercept.shape != axes:
        raise ValueError("intercept must have a value for each class of the target")
    if list(arrays.values())[-1].size == 0:
        raise ValueError("hypotheses must be of at least one round")
    hypotheses = kind.make(**arrays)
    kind.check_arrays(hypotheses, file.features, splits, axes)

    # The source of probabilities.
    sources = ("shares",) if kind.shares is not None else (None, *PROBABILITIES)
    if file.target is not None:
        sources = ("softmax",) if isinstance(file.target, Nominal) else (None,)
    if file.probability not in sources or (file.probability is None and file.reason is None):
        raise ValueError("probability must be by a loss of dpbt, or say why there is none")
    if file.own_loss is not None and (
        file.probability is not None or file.target is not None or kind.shares is not None
    ):
        raise ValueError("a loss of one's own must be of scores of two classes, without a source")
    if file.own_loss is not None and not 0 <= file.own_loss.alpha <= 1:
        raise ValueError("alpha of a loss must be in [0, 1]")

    facts = PublicFacts(
        **{name: getattr(file, name) for name in _FIELDS_OF_FACTS},
        kind=kind,
        classes=_checked_class_words(file.classes, file.target),
        domain=file.domain,
        privacy=accounting.from_json(file.privacy),
    )
    if _BIN_SHARES_DTYPES.keys() <= file.arrays.keys():
        bin_shares = _unpack_arrays(file.arrays, _BIN_SHARES_DTYPES)["bin_shares"]
        if bin_shares.ndim != 2 or len(bin_shares) != file.features or np.any(bin_shares < 0):
            raise ValueError("bin_shares must have a share for each bin of each feature")
        facts = facts._replace(bin_shares=tuple(map(tuple, bin_shares.tolist())))
    if _MEAN_ERROR_DTYPES.keys() <= file.arrays.keys():
        mean_error = _unpack_arrays(file.arrays, _MEAN_ERROR_DTYPES)["mean_error"]
        if mean_error.shape or mean_error < 0 or not isinstance(file.target, Numeric):
            raise ValueError("mean_error must be one size, in units of a predicted number")
        facts = facts._replace(mean_error=float(mean_error))
    return SavedModel(
        hypotheses=hypotheses,
        intercept=intercept,
        splits=splits,
        features=file.features,
        dtype=file.dtype,
        loaded_facts=facts,
        domain=None if file.domain is None else domains.as_declared_domain(file.domain),
    )


def _parse_splits(file: _File) -> Splits | None:
    """The splits of a model: those of its domain, or else those that the file states.

    They are None if the model reads numbers.

    Raises:
        ValueError: for splits that do not fit the features of rows.
    """
    reads_bins = file.dtype == "uint8"
    if file.domain is not None:
        splits = domains.splits(file.domain)
        if file.features != (len(file.domain) if reads_bins else len(splits.attribute)):
            raise ValueError("features must be those of the domain")
        return splits if reads_bins else None
    if (file.splits is not None) != reads_bins:
        raise ValueError("rows must be uint8 with splits, or float32 without")
    if file.splits is None:
        return None
    splits = Splits(**_unpack_arrays(file.splits, _SPLIT_DTYPES))
    count = splits.feature.size
    attributes = splits.attribute.size
    shapes = [*[(count,)] * 3, (attributes,), (attributes, MAX_BINS)]
    if [array.shape for array in splits[:5]] != shapes:
        raise ValueError("splits must have arrays of the same length")
    for numbers in (splits.feature, splits.attribute):
        check_indices_in_range("a split", numbers, 0, file.features)
    return splits
