"""Which classes labels can hold by their public type, such as a dtype. No cell is read."""

import array
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpbt.common.validate import show_value
from dpbt.data.cells import read_number, read_word

_WHOLE_NUMBER = re.compile("0|-?[1-9][0-9]{0,39}", re.ASCII)
"""The word of a whole number, as a cell that is a number has it: "01" is none."""

_FLOATS = (np.float64, np.float32, np.float16)
"""The types whose shortest texts are the words of floats, of which "0.50" is none."""


class LabelType(NamedTuple):
    """The values that the cells of a column can have, by its stated type.

    Attributes:
        name: the type in words.
        family: "boolean", "whole", "number" or "text".
        low: the least whole number of the type.
        high: the largest whole number of the type.
    """

    name: str
    family: str
    low: int = 0
    high: int = 0

    def can_be(self, word: str) -> bool:
        """Whether a cell of the type may have this word.

        The word is as `cells.read_word` reads it.
        """
        match self.family:
            case "boolean":
                return word.lower() in ("false", "true")
            case "whole":
                is_whole_number = _WHOLE_NUMBER.fullmatch(word) is not None
                return is_whole_number and self.low <= int(word) <= self.high
            case "number":
                number = read_number(word)
                return any(read_word(type_(number)) == word for type_ in _FLOATS)
        return self.family == "text"


_FAMILY_OF_KIND = {
    **{"b": "boolean", "i": "whole", "u": "whole", "f": "number"},
    **dict.fromkeys("UST", "text"),
}
"""The family of a kind of dtypes of NumPy and pandas; objects may be anything."""

_FAMILY_OF_NAME = (
    ("boolean", r"bool(ean)?"),
    ("whole", r"u?int(8|16|32|64)"),
    ("number", r"half_?float|float(16|32|64)?|double"),
    ("text", r"(large_)?string(_view)?|utf8"),
)
"""The families of the types of Arrow and polars, by their names in small letters."""


def label_type(labels: Any) -> LabelType | None:
    """The type that a column of labels states for its cells, such as a dtype.

    It is None if the column states none, as an array of objects does.

    Dates are refused elsewhere (`domains.refuse_undeclared_dates`). The type is public, as the form
    of a table is. `cells` describes what a cell of each type is.
    """
    stated_type = _type_of_values(labels)
    kind = getattr(stated_type, "kind", None)
    if isinstance(kind, str):
        family = _FAMILY_OF_KIND.get(kind)
        if family is None:
            return None
        bits = 8 * int(getattr(stated_type, "itemsize", 8))
        return _type_of_family(str(stated_type), family, is_signed=kind == "i", bits=bits)
    name = "" if stated_type is None else str(stated_type).lower()
    for family, pattern in _FAMILY_OF_NAME:
        if re.fullmatch(pattern, name):
            digits = re.search(r"\d+", name)
            bits = int(digits[0]) if digits and family == "whole" else 64
            return _type_of_family(name, family, is_signed=name[0] == "i", bits=bits)
    return None


def _type_of_values(labels: Any) -> Any:
    """The type that a column states for its values.

    Of a dictionary or of categories it is that of their values.
    """
    if isinstance(labels, array.array):
        return np.dtype("U1" if labels.typecode in "uw" else labels.typecode)
    if isinstance(labels, memoryview):
        return np.dtype(labels.format) if labels.format in _MEMORY_FORMATS else None
    stated_type = getattr(labels, "dtype", None)
    stated_type = getattr(labels, "type", None) if stated_type is None else stated_type
    stated_type = getattr(getattr(stated_type, "categories", None), "dtype", stated_type)
    return getattr(stated_type, "value_type", stated_type)


_MEMORY_FORMATS = frozenset("?bBhHiIlLqQfd")
"""The formats of memory that NumPy has types for."""


def _type_of_family(name: str, family: str, *, is_signed: bool, bits: int) -> LabelType:
    """Make a type of labels of a family, with the range of its whole numbers."""
    if family != "whole":
        return LabelType(name, family)
    largest = 2 ** (bits - is_signed) - 1
    return LabelType(name, family, low=-largest - 1 if is_signed else 0, high=largest)


def check_classes_can_occur(
    labels: Any,
    spellings_of_classes: Iterable[str | Sequence[str]],
    *,
    other: str | None = None,
    are_two: bool,
) -> None:
    """Refuse declared classes that labels of their type cannot hold.

    The rows of such a class would all be absent.

    Only the type that the labels state is read, and no label. What states no type is not refused.

    Args:
        labels: the column of labels.
        spellings_of_classes: the words that are read as each class; none for a number.
        other: the class of all labels that are not listed; None if there is none.
        are_two: whether there are two classes without a `Nominal`, of which a Boolean label is one.

    Raises:
        ValueError: naming the type and a class that it cannot hold.
    """
    type_ = label_type(labels)
    if type_ is None or (type_.family == "boolean" and are_two):
        return
    classes = [(words,) if isinstance(words, str) else words for words in spellings_of_classes]
    listed = [words for words in classes if words[0] != other]
    impossible = [words[0] for words in listed if not any(map(type_.can_be, words))]
    if not impossible or (other is not None and len(impossible) < len(listed)):
        return
    advice = "declare the classes as the labels have them"
    if type_.family in ("whole", "number") and {words[0] for words in listed} == {"False", "True"}:
        advice = "declare the numbers of the classes, such as 0 and 1, or give Booleans"
    raise ValueError(
        f"labels of type {type_.name} are never {show_value(impossible[0])}, so the rows of a "
        f"declared class would all be absent; {advice}"
    )
