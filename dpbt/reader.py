"""Saved models: read a file and predict with NumPy alone. JAX is never imported here.

`load` reads what `dpbt.saving.save` wrote. Everything here is post-processing of a release.
"""

import dataclasses
import operator
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpbt import modelfiles
from dpbt.data import domains
from dpbt.data.columns import tried
from dpbt.data.domains import Domain
from dpbt.data.kinds import Nominal, Numeric
from dpbt.data.targets import Target, check, in_units, response_of
from dpbt.modelfiles import to_array
from dpbt.privacy import entries
from dpbt.privacy.entries import TEXT
from dpbt.public import CELLS, UNSPLIT, Questions
from dpbt.scoring import (
    KINDS,
    PROBABILITIES,
    Groves,
    Halfspaces,
    Hypotheses,
    ObliviousTrees,
    Rows,
    Trees,
)

MOST_FEATURES = 1_000_000
BLOCK_ROWS = 2**16
"""How many rows are laid out at once, so that memory does not follow their number."""


@dataclasses.dataclass(frozen=True, eq=False)
class SavedModel:
    """A model that was read from a file. All of its methods need NumPy alone.

    `dpbt.predict`, `decision_function`, `predict_proba`, `explain`, `ledger` and `statement` take
    it, too. They read encoded rows, as of any model.

    Attributes:
        name: of the algorithm.
        kind: the name of its hypotheses in `KINDS`.
        hypotheses: of all rounds.
        intercept: f32[], where every score starts; f32[K] with several classes.
        domain: the public columns; None if the model was saved without them.
        codes: whether nominal columns are read as codes (`domains.positions`).
        questions: what is asked of cells; None if the model reads numbers.
        features: F, how many features a row has.
        dtype: of encoded rows: "uint8" for cells, "float32" for numbers.
        classes: the negative and the positive class, or all of several classes in the order of
            scores; None if they were not named.
        target: the declared classes or range; None for two classes.
        probability: the loss that gives probabilities, by its name in `PROBABILITIES`; "shares"
            where trees state them; None if there are none.
        no_probability: why there are none.
        ledger: the ledger as printed when the model was saved.
        privacy: the ledger's numbers, as JSON content.
        statement: what `dpbt.statement` said when the model was saved.
        versions: of what wrote the file.
    """

    name: str
    kind: str
    hypotheses: Hypotheses
    intercept: np.ndarray
    domain: Domain | None
    codes: bool
    questions: Questions | None
    features: int
    dtype: str
    classes: tuple[Any, ...] | None
    target: Target | None
    probability: str | None
    no_probability: str | None
    ledger: str
    privacy: Mapping[str, Any]
    statement: str
    versions: Mapping[str, str]

    def decision_function(self, rows: Any) -> np.ndarray:
        """f32[N]: the score of each row; above 0 means the positive class.

        With several classes it is f32[N, K], and for a number its position in the declared range.

        Args:
            rows: raw columns: a mapping of names to cells, a data frame, or a list of mappings, one
                for each row. They are read by the domain. A cell that a mapping lacks is missing.
                Or an array of encoded rows: `domains.encode` makes cells, and `domains.positions`
                numbers.

        Raises:
            ValueError: for rows that the model cannot read. No cell is shown, and none is an error.
        """
        return self.scores_of(self.encode(rows))

    def predict(self, rows: Any) -> np.ndarray:
        """The class of each row, or bool[N] if classes have no names; a tie is negative.

        With several classes it is the class of the largest score, or its number if classes have no
        names. For a number it is f64[N], in its units and inside the declared range.

        Raises:
            ValueError: as `decision_function`.
        """
        return self.answers_of(self.decision_function(rows))

    def answers_of(self, scores: np.ndarray) -> np.ndarray:
        """What `predict` answers for the scores of rows, as `decision_function` gives them."""
        if isinstance(self.target, Numeric):
            return in_units(self.target, scores)
        number = scores > 0 if self.target is None else np.argmax(scores, axis=1)
        if self.classes is None:
            return number
        words = np.asarray(self.classes)
        if len({type(word) for word in self.classes}) > 1:
            words = np.asarray(self.classes, object)
        return words[number.astype(np.int64)]

    def predict_proba(self, rows: Any) -> np.ndarray:
        """f32[N, 2]: the probabilities of the negative and of the positive class.

        With several classes it is f32[N, K].

        Raises:
            ValueError: as `decision_function`, and if a score defines no probability.
        """
        if self.probability != "shares":
            return self.probabilities_of(self.decision_function(rows))
        stated = [self.shares_of(part).mean(axis=0) for part in _parts(self.encode(rows))]
        positive = np.concatenate(stated)
        return np.stack([1 - positive, positive], axis=1)

    def probabilities_of(self, scores: np.ndarray) -> np.ndarray:
        """What `predict_proba` states for the scores of rows, where trees state no shares.

        Raises:
            ValueError: if a score defines no probability.
        """
        if self.probability == "softmax":
            return _softmax(scores)
        positive = self.probability_of(scores)
        return np.stack([1 - positive, positive], axis=1)

    def encode(self, rows: Any) -> np.ndarray:
        """Rows as the hypotheses read them: u8[N, F] or f32[N, F]; see `decision_function`.

        Raises:
            ValueError: as `decision_function`.
        """
        if isinstance(rows, np.ndarray):
            return self._checked(rows)
        columns = _columns_of(rows, self.domain)
        if self.domain is None:
            raise ValueError(
                "the model was saved without a domain, so it reads arrays of encoded rows alone; "
                "save it with domain=..."
            )
        if self.dtype == "uint8":
            return domains.encode(self.domain, columns)
        return domains.positions(self.domain, columns, codes=self.codes)

    def _checked(self, rows: np.ndarray) -> np.ndarray:
        if rows.dtype == bool and self.questions is not None and _are_bits(self.questions):
            rows = rows.astype(np.uint8)
        if str(rows.dtype) != self.dtype or rows.ndim != 2 or rows.shape[1] != self.features:
            raise ValueError(
                f"an array must hold encoded rows of {self.dtype} and {self.features} features; "
                "give raw rows as columns by name"
            )
        return rows

    def scores_of(self, encoded: np.ndarray) -> np.ndarray:
        """f32[N], or f32[N, K] with several classes: the scores of encoded rows."""
        kind = KINDS[self.kind]
        found = [
            kind.score(self.hypotheses, Rows(part, self.questions)) for part in _parts(encoded)
        ]
        return np.concatenate([self.intercept + np.moveaxis(part, -1, 0) for part in found])

    def shares_of(self, encoded: np.ndarray) -> np.ndarray:
        """f32[k, N]: the share of the positive class that each tree states for encoded rows.

        Raises:
            ValueError: for hypotheses that state scores.
        """
        kind = KINDS[self.kind]
        if kind.shares is None:
            raise ValueError(
                f"the hypotheses of {self.name} state scores, and no shares to vote with"
            )
        return kind.shares(self.hypotheses, Rows(encoded, self.questions))

    def probability_of(self, score: np.ndarray) -> np.ndarray:
        """f32[...]: the probability of the positive class that the loss gives a score.

        Raises:
            ValueError: if a score defines no probability.
        """
        if self.probability not in PROBABILITIES:
            raise ValueError(self.no_probability)
        return PROBABILITIES[self.probability](np.asarray(score, np.float32))


def _softmax(scores: np.ndarray) -> np.ndarray:
    """f32[N, K]: the probability of each class, for scores in bits."""
    powers = np.exp2(scores - scores.max(axis=1, keepdims=True, initial=-np.inf))
    return powers / powers.sum(axis=1, keepdims=True)


def _parts(encoded: np.ndarray) -> list[np.ndarray]:
    """The rows in parts; one part without rows if there are none."""
    starts = range(0, max(len(encoded), 1), BLOCK_ROWS)
    return [encoded[start : start + BLOCK_ROWS] for start in starts]


def _are_bits(questions: Questions) -> bool:
    """Whether every feature has two cells, so that rows may be given as Booleans."""
    features = np.arange(len(questions.feature))
    ones = [np.asarray(bound) == 1 for bound in (questions.low, questions.high)]
    numbered = [questions.feature, questions.attribute]
    return all(np.all(one) for one in ones) and all(
        np.array_equal(number, features) for number in numbered
    )


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


def load(path: str | Path) -> SavedModel:
    """A model from the file that `save` wrote. Nothing in the file is run.

    The checksum finds a file that was changed by accident. It is no signature, so load files of
    those whom you trust to state the model's privacy.

    Args:
        path: the file.

    Raises:
        ValueError: naming the path and the reason, if the file is no saved model, was cut off or
            changed, or has a newer format.
        OSError: if the file cannot be read.
    """
    content = modelfiles.read(path)
    try:
        return _model(content)
    except _NO_MODEL as error:
        reason = str(error) if isinstance(error, ValueError) else "an entry is missing or no entry"
        raise ValueError(f"{path}: not a whole saved model: {reason}") from None


_NO_MODEL = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError)

_CONTENT = {
    "name": TEXT,
    "versions": {"dpbt": TEXT, "jax": TEXT},
    "ledger": [TEXT],
    "statement": [TEXT],
    "privacy": entries.LEDGER,
}


def _model(content: Mapping[str, Any]) -> SavedModel:
    """The model of a file's content."""
    entries.check("the content", content, _CONTENT)
    rows = content["rows"]
    domain, codes, questions = _asked(rows)
    dtype, features = rows["dtype"], rows["features"]
    if dtype not in ("uint8", "float32") or (dtype == "uint8") != (questions is not None):
        raise ValueError("rows must be uint8 with questions, or float32 without")
    if type(features) is not int or not 1 <= features <= MOST_FEATURES:
        raise ValueError("features must be a whole number of at least 1")
    expected = features
    if domain is not None:
        with_codes = domains.questions(domain, codes=codes)
        expected = len(domain) if dtype == "uint8" else len(with_codes.attribute)
    if features != expected:
        raise ValueError("features must be those of the domain")
    if questions is not None:
        _check_features(questions, features)

    kind = content["hypotheses"]["kind"]
    hypotheses = _hypotheses(content["hypotheses"])
    _check_hypotheses(hypotheses, features, questions)
    target, intercept = _target(content, hypotheses)

    probability, reason = content["probability"].get("by"), content["probability"].get("reason")
    by_shares = isinstance(hypotheses, Groves)
    known = ("shares",) if by_shares else (None, *PROBABILITIES)
    if target is not None:
        known = ("softmax",) if isinstance(target, Nominal) else (None,)
    if probability not in known or (probability is None and not isinstance(reason, str)):
        raise ValueError("probability must be by a loss of dpbt, or say why there is none")

    return SavedModel(
        name=content["name"],
        kind=kind,
        hypotheses=hypotheses,
        intercept=intercept,
        domain=domain,
        codes=codes,
        questions=questions,
        features=features,
        dtype=dtype,
        classes=_classes(content["classes"], target),
        target=target,
        probability=probability,
        no_probability=reason,
        ledger="\n".join(content["ledger"]),
        privacy=content["privacy"],
        statement="\n".join(content["statement"]),
        versions=content["versions"],
    )


def _target(content: Mapping[str, Any], hypotheses: Hypotheses) -> tuple[Target | None, np.ndarray]:
    """(target, intercept) of a file; the target is None for two classes.

    Raises:
        ValueError: for a target that does not fit the hypotheses.
    """
    entry = content.get("target")
    target = None if entry is None else check(domains.column_from_json("target", entry))
    axes = response_of(target).axes
    if target is not None and not isinstance(hypotheses, ObliviousTrees):
        raise ValueError("only oblivious trees have a target other than two classes")
    if hypotheses[-1].shape[1:-1] != axes and isinstance(hypotheses, ObliviousTrees):
        raise ValueError("leaf must have a value for each class of the target")
    intercept = to_array("intercept", content["intercept"], np.float32, len(axes))
    if intercept.shape != axes:
        raise ValueError("intercept must have a value for each class of the target")
    return target, intercept


def _classes(value: Any, target: Target | None) -> tuple[Any, ...] | None:
    if isinstance(target, Numeric) or (value is None and target is None):
        return None
    classes, count = tuple(value or ()), response_of(target).classes
    if len(classes) != count or not all(isinstance(word, str | int | float) for word in classes):
        raise ValueError(f"classes must be {count} words or numbers")
    if len(set(classes)) != len(classes):
        raise ValueError("classes must be distinct words or numbers")
    return classes


def _asked(rows: Mapping[str, Any]) -> tuple[Domain | None, bool, Questions | None]:
    """(domain, codes, questions) of a file."""
    codes = rows["codes"]
    if not isinstance(codes, bool):
        raise ValueError("codes must be true or false")
    columns, kept = rows["domain"], rows["questions"]
    if columns is not None:
        domain = {name: domains.column_from_json(name, column) for name, column in columns.items()}
        asked = domains.questions(domain, codes=codes) if rows["dtype"] == "uint8" else None
        return domain, codes, asked
    if kept is None:
        return None, codes, None
    position = np.zeros((len(kept["position"]), CELLS), np.float32)
    for number, row in enumerate(kept["position"]):
        if row:  # zeros at the end are left out
            found = to_array("position", row, np.float32, 1)
            position[number, : len(found)] = found
    return (
        None,
        codes,
        Questions(
            to_array("feature", kept["feature"], np.int32, 1),
            to_array("low", kept["low"], np.uint8, 1),
            to_array("high", kept["high"], np.uint8, 1),
            to_array("attribute", kept["attribute"], np.int32, 1),
            position,
        ),
    )


def _check_features(questions: Questions, features: int) -> None:
    splits, attributes = len(questions.feature), len(questions.attribute)
    if not len(questions.low) == len(questions.high) == splits:
        raise ValueError("feature, low and high must have the same length")
    if len(questions.position) != attributes:
        raise ValueError("attribute and position must have the same length")
    for read in (questions.feature, questions.attribute):
        _within("a question", np.asarray(read), 0, features)


def _within(name: str, numbers: np.ndarray, low: int, high: int) -> None:
    if numbers.size and not (numbers.min() >= low and numbers.max() < high):
        raise ValueError(f"{name} must number what the model has")


def _hypotheses(entry: Mapping[str, Any]) -> Hypotheses:
    """The arrays of a file."""
    match entry["kind"]:
        case "trees":
            return Trees(
                to_array("split", entry["split"], np.int32, 2),
                to_array("leaf", entry["leaf"], np.float32, 2),
            )
        case "oblivious trees":
            return ObliviousTrees(
                to_array("feature", entry["feature"], np.int32, 2),
                from_hex(entry["right"]),
                to_array("leaf", entry["leaf"], np.float32, _rank(entry["leaf"])),
            )
        case "groves":
            return Groves(
                to_array("attribute", entry["attribute"], np.int32, 3),
                to_array("threshold", entry["threshold"], np.float32, 3),
                to_array("leaf", entry["leaf"], np.float32, 3),
            )
        case "halfspaces":
            return Halfspaces(to_array("normal", entry["normal"], np.float32, 2))
    raise ValueError(f"hypotheses must be of one of the kinds {sorted(KINDS)}")


def _rank(leaf: Any) -> int:
    """The rank of an array of leaves: 3 with several classes, else 2."""
    return 3 if isinstance(leaf[0][0], list) else 2


def to_hex(right: np.ndarray) -> list[list[str]]:
    """bool[T, D, CELLS] as one text a question: the cell of a bit is its place, highest first."""
    packed = np.packbits(right, axis=-1)
    return [[question.tobytes().hex() for question in tree] for tree in packed]


def from_hex(value: Any) -> np.ndarray:
    """bool[T, D, CELLS]: what `to_hex` wrote."""
    packed = np.array([[list(bytes.fromhex(text)) for text in tree] for tree in value], np.uint8)
    if packed.ndim != 3 or packed.shape[-1] != CELLS // 8:
        raise ValueError("right must hold 64 hexadecimal digits for each question")
    return np.unpackbits(packed, axis=-1).astype(bool)


def _check_hypotheses(hypotheses: Hypotheses, features: int, questions: Questions | None) -> None:
    """Refuse arrays that do not fit each other or the rows."""
    attributes = features if questions is None else len(questions.attribute)
    match hypotheses:
        case Trees():
            if questions is None:
                raise ValueError("trees must have questions")
            _check_heap(hypotheses.split, hypotheses.leaf)
            _within("split", hypotheses.split, UNSPLIT, len(questions.feature))
        case ObliviousTrees():
            if questions is None:
                raise ValueError("oblivious trees must read cells")
            trees, depth = hypotheses.feature.shape
            leaves = hypotheses.leaf.shape[0], hypotheses.leaf.shape[-1]
            if (hypotheses.right.shape[:2], leaves) != ((trees, depth), (trees, 2**depth)):
                raise ValueError("feature, right and leaf must be of the same trees")
            _within("feature", hypotheses.feature, 0, features)
        case Groves():
            _check_heap(hypotheses.attribute, hypotheses.leaf)
            if hypotheses.attribute.shape != hypotheses.threshold.shape:
                raise ValueError("attribute and threshold must have the same shape")
            _within("attribute", hypotheses.attribute, 0, attributes)
        case Halfspaces():
            if hypotheses.normal.shape[1] != attributes:
                raise ValueError("normal must have a number for each attribute")


def _check_heap(inner: np.ndarray, leaf: np.ndarray) -> None:
    """Refuse arrays that are not complete trees of at most 2^24 leaves."""
    leaves = leaf.shape[-1]
    if leaves & (leaves - 1) or inner.shape != (*leaf.shape[:-1], leaves - 1):
        raise ValueError("trees must be complete, with one inner node fewer than leaves")
