"""What is known of one kind of hypotheses: how it predicts, is kept, put in words and in graphs.

Functions take arrays of NumPy or of JAX alike (`arithmetic.namespace`). JAX is never imported here.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpbt.arithmetic import namespace
from dpbt.data.domains import Domain, Predicate
from dpbt.data.targets import Target
from dpbt.learners.hypotheses.graph import Graph, Value
from dpbt.public import Questions, without_values

Hypotheses = Any
"""Hypotheses of all rounds, stacked along a leading axis: a NamedTuple of arrays."""


class Rows(NamedTuple):
    """Encoded rows: u8[N, F] cells and what is asked of them, or f32[N, F] numbers alone."""

    cells: Any
    questions: Questions | None

    __repr__ = without_values

    @property
    def positions(self) -> Any:
        """f32[N, A]: the position of each row in each attribute's range, or its numbers."""
        if self.questions is None:
            return self.cells
        attribute, position = self.questions.attribute, self.questions.position
        cell = self.cells[:, attribute].astype(np.int32)
        return position[namespace(cell).arange(len(attribute))[None], cell]


class Heap(NamedTuple):
    """Complete trees in heap order: what their nodes ask of cells, and what their leaves say.

    Attributes:
        ask: (trees i64[k], nodes i64[k]) -> the columns i64[k] that nodes read, and bool[k, CELLS],
            the cells of a column that go right.
        words: (tree, node) -> what the node asks. A node of which no cell goes right has none.
        leaf: f[k, 2^D], what leaves say; f[k, 2^D, K] with several classes.
    """

    ask: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
    words: Callable[[int, int], Predicate]
    leaf: np.ndarray

    @property
    def depth(self) -> int:
        """D."""
        return self.leaf.shape[1].bit_length() - 1


class Kind(NamedTuple):
    """A kind of hypotheses; `hypotheses.KINDS` has them all.

    Attributes:
        name: in files, and in words.
        predict: (one hypothesis, rows as `read` lays them out) -> f32[N], or f32[K, N] with several
            classes: what it adds to the score of each row.
        read: (rows) -> what `predict` reads of them.
        shares: (hypotheses, what `read` gives) -> f32[k, N], the shares of the positive class that
            they state instead of scores, and NaN for rounds beyond T.
        arrays: (name, dtype) of each array that a file keeps.
        make: (arrays by name) -> hypotheses.
        check: (hypotheses, how many features rows have, questions, axes of a score) -> None; raises
            ValueError for arrays that do not fit each other or the rows.
        explain: (hypotheses, heap, domain, target, names of several classes) -> the words.
        heap: (hypotheses, questions, domain) -> the hypotheses as trees. None if they are none.
        nodes: (graph, hypotheses, rows in it, questions) -> the score of each row in an ONNX graph,
            and the mean share of the positive class where hypotheses state shares.
    """

    name: str
    predict: Callable[[Any, Any], Any]
    read: Callable[[Rows], Any]
    shares: Callable[[Hypotheses, Any], Any] | None = None
    arrays: tuple[tuple[str, str], ...] = ()
    make: Callable[..., Hypotheses] | None = None
    check: Callable[[Any, int, Questions | None, tuple[int, ...]], None] | None = None
    explain: (
        Callable[[Hypotheses, Heap | None, Domain, Target | None, Sequence | None], str] | None
    ) = None
    heap: Callable[[Hypotheses, Questions, Domain], Heap] | None = None
    nodes: (
        Callable[[Graph, Hypotheses, Value, Questions | None], tuple[Value, Value | None]] | None
    ) = None


class Of(NamedTuple):
    """How hypotheses of a kind predict rows that a learner has laid out in its own way.

    Attributes:
        kind: its name in `hypotheses.KINDS`; it predicts the same of other rows.
        predict: (hypothesis, prepared) -> f32[N] or f32[K, N].
    """

    kind: str
    predict: Callable[[Any, Any], Any]

    def __call__(self, hypothesis: Any, prepared: Any) -> Any:
        """What a hypothesis adds to the score of each row."""
        return self.predict(hypothesis, prepared)


def check_heap(inner: np.ndarray, leaf: np.ndarray) -> None:
    """Refuse arrays that are not complete trees.

    Raises:
        ValueError: saying so.
    """
    leaves = leaf.shape[-1]
    if leaves < 1 or leaves & (leaves - 1) or inner.shape != (*leaf.shape[:-1], leaves - 1):
        raise ValueError("trees must be complete, with one inner node fewer than leaves")


def check_within(name: str, numbers: Any, low: int, high: int) -> None:
    """Refuse numbers outside low..high - 1, with which a model would read out of its arrays.

    Raises:
        ValueError: naming them.
    """
    numbers = np.asarray(numbers)
    if numbers.size and not (numbers.min() >= low and numbers.max() < high):
        raise ValueError(f"{name} must number what the model has")
