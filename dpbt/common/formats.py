"""What the content of files must be: JSON text with types. No JAX.

Types are those of msgspec. Errors name the place of an entry and never its value. Entries that a
type does not name are not looked at. A checksum finds accidents, such as a lost byte. It is no
signature: whoever edits a file can compute another one.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from dpbt.common.public import MAX_ROWS_IN_BLOCKS
from dpbt.common.storage import without_twins

T = TypeVar("T")

Count = Annotated[int, Meta(ge=1, le=2**62)]
"""A whole number of at least 1."""

Digits = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", max_length=64)]
"""256 bits in hexadecimal digits."""

Fraction = Annotated[float, Meta(ge=0, le=1)]
"""A number in 0..1."""

Number = Annotated[float, Meta(ge=0, le=1e100)]
"""A number of at least 0, whose square is finite."""

Rows = Annotated[int, Meta(ge=1, le=MAX_ROWS_IN_BLOCKS)]
"""A number of rows, or a bound on it."""

RowsOfPerson = Annotated[int, Meta(ge=1, le=2**31 - 1)]
"""The most rows that one person has."""


def decode(kind: type[T], content: object, what: str) -> T:
    """The content as a type of msgspec, such as a `msgspec.Struct`.

    Args:
        kind: the type.
        content: bytes of JSON text, or what `parse` made of them.
        what: the content is, in words for errors.

    Raises:
        ValueError: saying what is wrong and where, for content that is not of the type. Values are
            not shown, and neither are names in mappings. Also as `parse`.
    """
    if isinstance(content, bytes):
        content = parse(content, what)
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        wrong, _, place = str(error).partition(" - at ")
        if not wrong.startswith(("Expected", "Object missing")):
            wrong = "Invalid value"  # the other messages show it
        words = f"{wrong}{place and ' at '}{place}".replace("`", "")
        raise ValueError(f"{what} has a malformed entry: {words}") from None
    except RecursionError:
        raise ValueError(f"{what} is nested too deeply") from None


def replaced(content: Any, old: object, new: object) -> Any:
    """JSON content with another entry in place of each that equals `old`."""
    if isinstance(content, Mapping):
        return {name: replaced(entry, old, new) for name, entry in content.items()}
    if isinstance(content, list | tuple):
        return [replaced(entry, old, new) for entry in content]
    return new if content == old else content


def parse(text: bytes, what: str) -> Any:
    """JSON content, in which no name occurs twice in one object.

    Integers have at most 4,300 digits (`sys.set_int_max_str_digits`).

    Raises:
        ValueError: with a reason of one line, for any other text.
    """
    try:
        return json.loads(
            text.decode("utf-8"), object_pairs_hook=without_twins, parse_constant=_no_constant
        )
    except UnicodeDecodeError:
        raise ValueError(f"{what} holds bytes that are no text") from None
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{what} is no JSON, or cut off: line {error.lineno}, {error.msg}"
        ) from None
    except RecursionError:
        raise ValueError(f"{what} is nested too deeply") from None
    except ValueError as error:  # a name twice, a constant, or an integer of too many digits
        raise ValueError(f"{what} is refused: {error}") from None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def own(path: Path, text: bytes, name: str, version: int, what: str, again: str) -> dict[str, Any]:
    """The content of a file with a format, a version and a checksum.

    Args:
        path: of the file, for errors.
        text: its bytes.
        name: of the format.
        version: of the format, and of no other.
        what: the file is of, in words.
        again: what to do if it is damaged.

    Raises:
        ValueError: naming the path and the reason, for any other text.
    """
    try:
        content = parse(text, what)
    except ValueError:
        raise ValueError(f"{path}: not {what}, or cut off; {again}") from None
    if not isinstance(content, dict) or content.get("format") != name:
        raise ValueError(f"{path}: not the file of {what}")
    if content.get("format_version") != version:
        raise ValueError(f"{path}: {what} in another format than {version}, which this dpbt reads")
    try:
        same = content.get("checksum") == checksum(content)
    except ValueError:  # numbers or lists of which no checksum is made
        same = False
    if not same:
        raise ValueError(
            f"{path}: the file was changed or damaged: it lacks its own checksum; {again}"
        )
    return content


def checksum(content: Mapping[str, Any]) -> str:
    """The SHA-256 of the content without its checksum, as JSON text without blanks.

    The order of names counts, because the order of a domain's columns does.

    Raises:
        ValueError: for numbers that are infinite or NaN, and for content that is nested deeply.
    """
    rest = {name: value for name, value in content.items() if name != "checksum"}
    try:
        text = json.dumps(rest, separators=(",", ":"), allow_nan=False)
    except ValueError:
        raise ValueError("a number is infinite or NaN") from None
    except RecursionError:
        raise ValueError("objects or lists are nested too deeply") from None
    return hashlib.sha256(text.encode("ascii")).hexdigest()
