"""What a picture shows of a model: its score, the score of one class, or a number in its units."""

from typing import Any, NamedTuple

import numpy as np

from dpbt.data.kinds import Nominal, Numeric
from dpbt.release.answers import NO_CLASSES
from dpbt.release.model import Model
from dpbt.validate import shown


class Answer(NamedTuple):
    """One number of each row.

    Attributes:
        number: which class it is of, on the last axis of scores; None where there is one score.
        scale: what a step of 1 in the model's score is in the units of the answer.
        shift: the answer where the score is 0.
        words: its name, for axes.
        middle: a value of no preference: around it the colours of maps diverge. None for a number.
    """

    number: int | None
    scale: float
    shift: float
    words: str
    middle: float | None

    def of_scores(self, values: np.ndarray) -> np.ndarray:
        """f64[...]: the answers; scores of several classes have an axis of classes, the last."""
        one = values if self.number is None else values[..., self.number]
        return self.shift + self.scale * one


def answer_of(model: Model, class_: Any = None, of: str = "score") -> Answer:
    """What is drawn of a model.

    Args:
        model: from `fit` or from `dpbt.load`.
        class_: the name of a class, for a model of several classes, and only there.
        of: "score" or "probability".

    Raises:
        ValueError: for a class that the model does not have, for none where there are several, and
            for the probability of a number.
    """
    target = model.about.target
    if isinstance(target, Nominal):
        names = list(model.about.classes or target.names)
        if class_ is None or class_ not in names:
            raise ValueError(f"class_ must be one of {shown(names)}, got {shown(class_)}")
        middle = 0.0 if of == "score" else 1 / len(names)
        return Answer(names.index(class_), 1.0, 0.0, f"{of} of {class_}", middle)
    if class_ is not None:
        raise ValueError("class_ is for models of several classes")
    if isinstance(target, Numeric):
        if of == "probability":
            raise ValueError(NO_CLASSES)
        low, width = float(target.low), float(target.high) - float(target.low)
        return Answer(None, width, low, "prediction", None)
    return Answer(None, 1.0, 0.0, of, 0.0 if of == "score" else 0.5)
