"""Models, and their predictions: one class for what was fitted and what was loaded.

All of it is post-processing. Models of arrays of NumPy, as `dpbt.load` makes them, predict without
JAX, which is never imported here but for arrays of it. With arrays of JAX in the model or in the
rows, all functions are pure: they work under jit and vmap, and scores have gradients.

Functions read encoded rows, of the kind that the model was trained on:

- cells u8[N, F] (`domains.encode`) or exact numbers f32[N, F] (`domains.positions`);
- a Table of either, or one in chunks, whose absent rows are predicted, too;
- splits bool[N, S], if the model was trained on a table of raw splits (`questions.of_splits`).

There may be no rows: N may be 0. The methods of a model with a domain read raw columns, too.
"""

import dataclasses
import functools
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpbt.arithmetic import Array, fold, namespace
from dpbt.data import domains
from dpbt.data.blocks import BlockTable
from dpbt.data.cells import tried
from dpbt.data.domains import Domain
from dpbt.data.kinds import Nominal, Numeric
from dpbt.data.targets import Target
from dpbt.learners.hypotheses import KINDS
from dpbt.learners.hypotheses.kind import Hypotheses, Kind, Of, Rows
from dpbt.public import Questions, of_bits
from dpbt.release.answers import NO_CLASSES, answer, kinks, no_link, probability_of, vote
from dpbt.storage import HoldsFunctions

if TYPE_CHECKING:
    from dpbt.base import HypothesisClass, Recipe, Release, Transcript

BLOCK_ROWS = 2**16
"""How many rows are laid out at once, so that memory does not follow their number."""


class About(NamedTuple):
    """What is public about a model, besides its arrays.

    Attributes:
        name: of the algorithm.
        kind: of its hypotheses.
        target: the declared classes or range; None for two classes.
        classes: the negative and the positive class, or all of several classes in the order of
            scores; None if they were not named.
        probability: what gives probabilities: a function of scores of two classes; "softmax" of
            several; "shares" where trees state them; None if nothing does.
        reason: why nothing does.
        domain: the public columns; None if the model was not saved with them.
        codes: whether nominal columns are read as codes (`domains.positions`).
    """

    name: str
    kind: Kind
    target: Target | None
    classes: tuple[Any, ...] | None
    probability: Callable[[Array], Array] | str | None
    reason: str | None = None
    domain: Domain | None = None
    codes: bool = False


class Kept(NamedTuple):
    """What a file says of the model beside its arrays.

    Attributes:
        about: the model.
        ledger: the ledger as printed when the model was saved.
        privacy: the ledger's numbers, as JSON content.
        statement: what `dpbt.statement` said when the model was saved.
        versions: of what wrote the file.
    """

    about: About
    ledger: str
    privacy: Mapping[str, Any]
    statement: str
    versions: Mapping[str, str]

    __hash__ = object.__hash__


@dataclasses.dataclass(frozen=True, eq=False)
class Model(HoldsFunctions):
    """An ensemble: everything that was released, and what follows from it.

    With JAX it is a pytree of its arrays, which may have an axis of settings (`jax.vmap`).

    Attributes:
        hypotheses: the hypotheses of all rounds, such as trees, with a leading axis for rounds. The
            score of a row is `intercept` plus the sum of their predictions.
        intercept: f32[], where every score starts; 0 for a learner without a prologue and without
            an epilogue. It is f32[K] with several classes.
        transcript: what was released. The sites that the learner withholds are not in it, unless
            `fit` was asked for them. None in a loaded model.
        recipe: the recipe that made it; None in a loaded model.
        questions: the questions of its table; None if it reads numbers.
        features: F, how many features its rows have.
        dtype: the dtype of its rows: "uint8" for cells, "float32" for numbers.
        key: the kind of key that its noise came from, "release" or "research", where it is known.
            The key itself is never kept.
        choice: if it is the best of several (`dpbt.tune`), what is public about the choice, and the
            content of the ledger's line for its score.
        kept: what its file says, if it was loaded.
    """

    hypotheses: Hypotheses
    intercept: Array
    transcript: "Transcript | None"
    recipe: "Recipe | None"
    questions: Questions | None
    features: int = dataclasses.field(metadata={"static": True})
    dtype: str = dataclasses.field(metadata={"static": True})
    key: str | None = dataclasses.field(default=None, metadata={"static": True})
    choice: Any = dataclasses.field(default=None, metadata={"static": True})
    kept: Kept | None = dataclasses.field(default=None, metadata={"static": True})

    _keep = "model.hypotheses and model.transcript, and the arguments that made its recipe"

    def __post_init__(self):
        if sys.modules.get("jax") is not None:
            _register()

    def __reduce__(self) -> Any:
        """A loaded model can be pickled; its kind is found again by its name."""
        if self.kept is None:
            return super().__reduce__()
        about = self.kept.about
        return _unpickled, (
            {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
            | {"kept": self.kept._replace(about=about._replace(kind=about.kind.name))},
        )

    @property
    def releases(self) -> "Release":
        """The stacked releases of all rounds; none in a loaded model."""
        return {} if self.transcript is None else self.transcript.rounds

    @property
    def about(self) -> About:
        """What is public about it, besides its arrays."""
        if self.kept is not None:
            return self.kept.about
        assert self.recipe is not None
        return about(self.recipe)

    def on_host(self) -> Hypotheses:
        """The hypotheses as NumPy arrays, without room beyond the number of rounds."""
        if self.recipe is None:
            return self.hypotheses
        rounds = int(self.recipe.rounds)
        return type(self.hypotheses)(*(np.asarray(array)[:rounds] for array in self.hypotheses))

    def decision_function(self, rows: Any) -> Array:
        """`dpbt.decision_function`, of raw columns, too.

        Args:
            rows: as `encode`.

        Raises:
            ValueError: for rows that the model cannot read. No cell is shown, and none is an error.
        """
        return decision_function(self, self.encode(rows))

    def predict(self, rows: Any) -> np.ndarray:
        """The class of each row; a tie is negative.

        Classes have their names. Where they have none it is what `dpbt.predict` answers: bool[N],
        and the number of the class with several classes. For a number it is f64[N], in its units
        and inside the declared range.

        Raises:
            ValueError: as `decision_function`.
        """
        return self.answers_of(np.asarray(self.decision_function(rows)))

    def answers_of(self, scores: np.ndarray) -> np.ndarray:
        """What `predict` answers for the scores of rows, as `decision_function` gives them."""
        found, classes = answer(self.about.target, scores), self.about.classes
        if classes is None:
            return found
        one_type = len({type(word) for word in classes}) == 1
        return np.asarray(classes, None if one_type else object)[found.astype(np.int64)]

    def predict_proba(self, rows: Any) -> np.ndarray:
        """f32[N, K]: the probability of each class, the negative one first.

        Raises:
            ValueError: as `decision_function`, and if a score defines no probability.
        """
        found = np.asarray(predict_proba(self, self.encode(rows)))
        return found if found.ndim == 2 else np.stack([1 - found, found], axis=1)

    def encode(self, rows: Any) -> Any:
        """Rows as the hypotheses read them: u8[N, F] or f32[N, F].

        Args:
            rows: raw columns: a mapping of names to cells, a data frame, or a list of mappings, one
                for each row. They are read by the domain that the model was saved with. A cell that
                a mapping lacks is missing. Encoded rows stay as they are.

        Raises:
            ValueError: for columns that the domain does not describe, and without a domain.
        """
        if hasattr(rows, "dtype") or hasattr(rows, "questions"):
            return rows
        domain = self.about.domain
        columns = _columns_of(rows, domain)
        if domain is None:
            raise ValueError(
                "the model was saved without a domain, so it reads arrays of encoded rows alone; "
                "save it with domain=..."
            )
        if self.dtype == "uint8":
            return domains.encode(domain, columns)
        return domains.positions(domain, columns, codes=self.about.codes)

    def save(
        self,
        path: str | Path,
        *,
        domain: Domain | None = None,
        classes: Sequence[Any] | None = None,
    ) -> None:
        """Write the model to one JSON file, which `dpbt.load` reads; see `dpbt.save`."""
        from dpbt.release.file import save

        save(self, path, domain=domain, classes=classes)


def _unpickled(fields: dict[str, Any]) -> Model:
    kept = fields["kept"]
    kind = KINDS[kept.about.kind]
    return Model(**{**fields, "kept": kept._replace(about=kept.about._replace(kind=kind))})


@functools.cache
def _register() -> None:
    """Make models pytrees."""
    import jax

    jax.tree_util.register_dataclass(Model)


def _columns_of(rows: Any, domain: Domain | None) -> Mapping[str, Any]:
    """Raw rows as columns by name.

    Raises:
        ValueError: for anything that is neither columns by name nor a list of mappings.
    """
    if isinstance(rows, Mapping):
        return rows
    for names in ("column_names", "columns"):  # a table of Arrow, a data frame
        found = getattr(rows, names, None)
        if found is not None and hasattr(rows, "__getitem__"):
            return {name: rows[name] for name in found if domain is None or name in domain}
    listed = isinstance(rows, Sequence) and not isinstance(rows, str | bytes)
    given: list[Any] = list(rows) if listed else []
    known = [row for row in given if tried(isinstance, row, Mapping)]
    if not listed or (given and not known):
        raise ValueError(
            "rows must be columns by name, a data frame, a list of mappings or an array of encoded "
            f"rows, got {type(rows).__name__}"
        )
    return {
        name: [tried(operator.getitem, row, name) for row in given]
        for name in domain or ()
        if not given or any(tried(operator.contains, row, name) for row in known)
    }


# What is known of a model.


def model_of(value: object) -> Model:
    """`value`, if it is a model.

    Raises:
        ValueError: for anything else.
    """
    if not isinstance(value, Model):
        raise ValueError(
            f"expected a model, as dpbt.fit returns it, got {type(value).__name__}; the model "
            "comes first, before rows or a domain"
        )
    return value


def about(recipe: "Recipe") -> About:
    """What is public about the models of a recipe."""
    hypotheses, target = recipe.learner.hypotheses, recipe.target
    own = hypotheses.predict
    kind = KINDS[own.kind] if isinstance(own, Of) else _own_kind(hypotheses)
    classes = target.names if isinstance(target, Nominal) else None
    return About(recipe.name, kind, target, classes, *_probability(recipe, kind))


@functools.cache
def _own_kind(hypotheses: "HypothesisClass") -> Kind:
    """The kind of hypotheses of the user's own, which no file and no words know."""
    from dpbt.base import Table

    def read(rows: Rows) -> Any:
        absent = namespace(rows.cells).zeros(rows.cells.shape[:1], bool)
        return hypotheses.prepare(Table(rows.cells, absent, absent, rows.questions))

    return Kind("", hypotheses.predict, read)


def _probability(recipe: "Recipe", kind: Kind) -> tuple[Any, str | None]:
    """(what gives probabilities, why nothing does); one of them is None."""
    if isinstance(recipe.target, Nominal):
        return "softmax", None
    if isinstance(recipe.target, Numeric):
        return None, NO_CLASSES
    if kind.shares is not None:
        return "shares", None
    if recipe.loss is None:
        return None, no_link(recipe.name)
    alpha = recipe.reweighting.link_alpha
    loss = recipe.loss(alpha if hasattr(alpha, "dtype") else np.float32(alpha))
    try:
        smooth = bool(np.isfinite(loss.smoothness))
    except TypeError:  # traced
        smooth = True
    if not smooth:
        return None, kinks(loss.name)
    return loss.probability or loss.inverse_link, None


# Predictions.


def _scores(kind: Kind, hypotheses: Hypotheses, intercept: Array, rows: Rows) -> Array:
    """f32[N], or f32[K, N] with several classes: the scores of rows."""
    laid_out = kind.read(rows)

    def add(total: Array, hypothesis: Any) -> Array:
        return total + kind.predict(hypothesis, laid_out)

    shape = (*intercept.shape, rows.cells.shape[0])
    start = namespace(intercept).zeros(shape, np.float32)
    return intercept[..., None] + fold(add, start, hypotheses)


def _shares(kind: Kind, hypotheses: Hypotheses, intercept: Array, rows: Rows) -> Array:
    """f32[k, N]: the shares that hypotheses state."""
    del intercept
    assert kind.shares is not None
    return kind.shares(hypotheses, kind.read(rows))


def _of_rows(model: Model, rows: Any, what: Callable[..., Array]) -> Array:
    """[..., N]: what a function of encoded rows says of each row."""
    if _differ(model.questions, getattr(rows, "questions", None)):
        raise ValueError("the model was trained with other questions than the table has")
    if isinstance(rows, BlockTable):
        blocks = rows.pieces(BLOCK_ROWS)
        found = [np.asarray(_of_rows(model, block.cells.T.copy(), what)) for block in blocks]
        return np.concatenate(found, axis=-1)

    cells, kind = _cells(model, rows), model.about.kind
    arrays = model.hypotheses, model.intercept
    if namespace(*arrays, cells) is not np:
        return _with_jax(kind, arrays, Rows(cells, model.questions), what)
    starts = range(0, max(len(cells), 1), BLOCK_ROWS)
    parts = [Rows(cells[start : start + BLOCK_ROWS], model.questions) for start in starts]
    return np.concatenate([what(kind, *arrays, part) for part in parts], axis=-1)


def _with_jax(kind: Kind, arrays: tuple[Any, Any], rows: Rows, what: Callable) -> Array:
    """What a function says of rows, compiled for one of few numbers of rows."""
    import jax
    from jax.core import Tracer

    from dpbt.training import shapes

    cells, count = rows.cells, rows.cells.shape[0]
    if not isinstance(cells, Tracer):
        padding = max(shapes.row_bucket(count) - count, 0)
        cells = np.pad(np.asarray(cells), [(0, padding), (0, 0)])
    found = _compiled(what)(kind, *arrays, rows._replace(cells=cells))
    if isinstance(found, Tracer):
        return found[..., :count]
    return jax.device_put(np.asarray(found)[..., :count])


@functools.cache
def _compiled(what: Callable) -> Callable:
    import jax
    import jax.numpy as jnp

    def run(kind: Kind, *arrays: Any) -> Array:
        return what(kind, *jax.tree.map(jnp.asarray, arrays))

    return jax.jit(run, static_argnums=0)


def _cells(model: Model, rows: Any) -> Array:
    """Encoded rows as the model reads them.

    Raises:
        ValueError: if the rows are not of the kind that the model reads, have another number of
            features, or are a table with other questions. No number of rows is shown.
    """
    encoder = "positions" if model.dtype == "float32" else "encode"
    advice = f"encode raw columns by dpbt.domains.{encoder}(domain, columns)"
    if hasattr(rows, "cells") and hasattr(rows, "questions"):
        rows = rows.cells
    elif isinstance(rows, Mapping) or hasattr(rows, "columns"):
        raise ValueError(f"rows must be an array or a table, got {type(rows).__name__}; {advice}")
    if not hasattr(rows, "__array_namespace__"):
        if not hasattr(rows, "__array__"):
            raise ValueError(f"rows must be an array, got {type(rows).__name__}; {advice}")
        rows = np.asarray(rows)
    if rows.dtype == bool and not _differ(model.questions, of_bits(model.features)):
        rows = rows.astype(np.uint8)  # splits are cells 0 and 1
    if rows.dtype != model.dtype or rows.ndim != 2:
        kind = "text or objects" if rows.dtype.kind not in "biufcV" else rows.dtype
        raise ValueError(
            f"the model reads rows of {model.dtype} and rank 2, got {kind} of rank {rows.ndim}; "
            f"{advice}"
        )
    if rows.shape[1] != model.features:
        raise ValueError(
            f"the model reads rows of {model.features} features, "
            "and these have another number of them"
        )
    return rows


def _differ(questions: Questions | None, others: Questions | None) -> bool:
    """Whether both are there and are not the same; which splits are allowed does not count."""
    if questions is None or others is None:
        return False
    try:
        first, second = ([np.asarray(field) for field in each[:5]] for each in (questions, others))
    except TypeError:  # traced, and checked where they come from
        return False
    return not all(map(np.array_equal, first, second))


def decision_function(model: Model, rows: Any) -> Array:
    """f32[N]: the score H of each row; above 0 means the positive class.

    With several classes it is f32[N, K], and the largest score of a row is its class. For a number
    it is its predicted position in the declared range, which may lie outside of [0, 1].

    Args:
        model: from `fit`, or `dpbt.load`.
        rows: cells u8[N, F], numbers f32[N, F], splits bool[N, S], a Table or a table in chunks, of
            the kind that the model was trained on. `domains.encode` makes cells of raw columns, and
            `domains.positions` makes numbers of them.

    Raises:
        ValueError: if the rows are not of the kind that the model reads, or `model` is no model.
    """
    found = _of_rows(model_of(model), rows, _scores)
    return namespace(found).moveaxis(found, -1, 0)


def shares(model: Model, rows: Any) -> Array:
    """f32[k, N]: the share of the positive class that each tree states for each row.

    Args:
        model: of hypotheses that state shares, such as a random forest.
        rows: as `decision_function`.

    Returns:
        The shares, with NaN for rounds beyond the recipe's number of rounds.

    Raises:
        ValueError: for a model of other hypotheses, and as `decision_function`.
    """
    described = model_of(model).about
    if described.kind.shares is None:
        name = described.name
        raise ValueError(f"the hypotheses of {name} state scores, and no shares to vote with")
    return _of_rows(model, rows, _shares)


def predict(model: Model, rows: Any, voting: str | None = None, key: Any = None) -> Array:
    """bool[N]: whether each row is of the positive class: H > 0, or a vote. A tie is negative.

    With several classes it is i32[N], the number of the class with the largest score, the first of
    equal ones. For a number it is f[N], in its units and inside the declared range.

    Args:
        model: from `fit`, or `dpbt.load`.
        rows: as `decision_function`.
        voting: a rule of `vote`, for hypotheses that state shares. The default is H > 0, which for
            these is the majority. Other hypotheses take no rule.
        key: of the coins of a probabilistic vote.

    Raises:
        ValueError: as `decision_function` and `vote`.
    """
    if voting is None:
        return answer(model_of(model).about.target, decision_function(model, rows))
    return vote(shares(model, rows), voting, key)


def predict_proba(model: Model, rows: Any) -> Array:
    """f32[N]: the probability of the positive class.

    Probabilities of few boosted trees are close to 1/2, because each tree adds a small step to the
    score. They order rows as the score does.

    It is the mean share of hypotheses that state shares. Of those that state scores it is the
    probability that the recipe's loss gives the score H (`ProperLoss.probability`). With several
    classes it is f32[N, K], the softmax of the scores.

    Args:
        model: from `fit`, or `dpbt.load`.
        rows: as `decision_function`.

    Raises:
        ValueError: as `decision_function`; and if the recipe has no link, or one whose surrogate
            has kinks (the 0/1 loss), where the inverse link is not a function. Also for a model
            that predicts a number.
    """
    described = model_of(model).about
    if described.probability == "shares":
        stated = shares(model, rows)
        return namespace(stated).nanmean(stated, axis=0)
    return probability_of(described, decision_function(model, rows))
