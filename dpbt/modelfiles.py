"""The file of a saved model: JSON text with a format, a version and a checksum. No JAX is needed.

The checksum finds accidents, such as a lost byte. It is no signature: whoever edits a file can
compute another one.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dpbt.storage import without_twins, write_whole
from dpbt.validate import as_path

FORMAT = "dpbt model"
VERSION = 2
"""The newest version of the format that this dpbt reads.

Version 2 has a "target", for several classes and for numbers. Models of two classes are written in
version 1.
"""


def write(path: str | Path, content: Mapping[str, Any]) -> None:
    """Write a model's content to one file, or leave the file as it was.

    Args:
        path: the file, which is replaced if it exists.
        content: JSON content without infinite numbers, beside the format, version and checksum.

    Raises:
        ValueError: if the path is a folder, or is no path.
        OSError: naming the path, if the file cannot be written.
    """
    path = as_path("path", path)
    if path.is_dir():
        raise ValueError(f"{path}: a folder, where the file of a model was expected")
    version = 1 if content.get("target") is None else VERSION
    full = {"format": FORMAT, "format_version": version, **content}
    full["checksum"] = checksum(full)
    text = _lines(full, "") + "\n"
    write_whole(path, lambda part: part.write_text(text, encoding="ascii"))


def read(path: str | Path) -> dict[str, Any]:
    """The content of a file that `write` wrote.

    Raises:
        ValueError: naming the path and the reason, for any other file. Also for a newer format, and
            for content that does not have its checksum.
        OSError: if the file cannot be read.
    """
    path = as_path("path", path)
    content = path.read_bytes()
    try:
        return _checked(parsed(content))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def parsed(content: bytes) -> object:
    """JSON content; ValueError with a reason of one line.

    Integers have at most 4,300 digits (`sys.set_int_max_str_digits`).
    """
    if not content.strip():
        raise ValueError("the file is empty")
    try:
        return json.loads(
            content.decode("utf-8"), object_pairs_hook=without_twins, parse_constant=_no_constant
        )
    except UnicodeDecodeError:
        raise ValueError("not a saved model: it holds bytes that are no text") from None
    except json.JSONDecodeError as error:
        raise ValueError(
            f"not a saved model, or cut off: no JSON at line {error.lineno}, {error.msg}"
        ) from None
    except RecursionError:
        raise ValueError("not a saved model: objects or lists are nested too deeply") from None


def _checked(content: object) -> dict[str, Any]:
    """The content, if it has the format, a known version and its own checksum."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f'not a saved model: it lacks "format": "{FORMAT}"')
    version = content.get("format_version")
    if type(version) is not int or version < 1:
        raise ValueError("not a saved model: format_version is no whole number of at least 1")
    if version > VERSION:
        raise ValueError(
            f"written in format {version} by a newer dpbt; this one reads up to format {VERSION}"
        )
    if content.get("checksum") != checksum(content):
        raise ValueError("the content does not have its checksum: the file was changed or damaged")
    return content


def own(path: Path, text: bytes, name: str, version: int, what: str, again: str) -> dict[str, Any]:
    """The content of another file with a format, a version and a checksum.

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
        content = parsed(text)
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


def _no_constant(name: str) -> None:
    raise ValueError(f"not a saved model: it holds {name}, which is no JSON number")


def _lines(value: object, indent: str) -> str:
    """JSON text that is easy to read: a name or a row of numbers on each line."""
    deeper = indent + "  "
    if isinstance(value, dict) and value:
        entries = [f"{deeper}{json.dumps(key)}: {_lines(value[key], deeper)}" for key in value]
        return "{\n" + ",\n".join(entries) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(entry, list | dict | str) for entry in value):
        entries = [f"{deeper}{_lines(entry, deeper)}" for entry in value]
        return "[\n" + ",\n".join(entries) + f"\n{indent}]"
    return json.dumps(value, allow_nan=False)


def from_array(name: str, array: object) -> list:
    """An array as nested lists. A float32 has the shortest digits that give it back.

    Raises:
        ValueError: naming the array, if a number is infinite or NaN.
    """
    values = np.asarray(array)
    if values.dtype.kind != "f":
        return values.tolist()
    if not np.isfinite(values).all():
        raise ValueError(f"{name} holds a number that is infinite or NaN, which no file keeps")
    short = np.array([float(str(value)) for value in values.ravel()], np.float64)
    exact = short.astype(values.dtype) == values.ravel()
    return np.where(exact, short, values.ravel().astype(np.float64)).reshape(values.shape).tolist()


def to_array(name: str, value: object, dtype: type, rank: int) -> np.ndarray:
    """An array of a file.

    Raises:
        ValueError: naming it, unless it has the rank, numbers of the kind, and no empty axis.
    """
    kinds = "iu" if np.dtype(dtype).kind in "iu" else "iuf"
    try:
        array = np.asarray(value)
    except ValueError:  # a ragged list
        array = np.asarray(None)
    expected = f"{name} must be {np.dtype(dtype)} numbers of rank {rank}"
    # A list of no splits has no type, as in a tree of one leaf.
    none = array.size == 0 and array.shape[:-1] != () and 0 not in array.shape[:-1]
    if array.ndim != rank or not (none or (array.size > 0 and array.dtype.kind in kinds)):
        raise ValueError(f"{expected}, and is something else")
    with np.errstate(over="ignore"):
        found = array.astype(dtype)
    same = np.isfinite(found).all() if kinds != "iu" else np.array_equal(found, array)
    if not same:
        raise ValueError(f"{expected}, and holds one out of range")
    return found


def from_number(value: float) -> float | str:
    """A number of a ledger, which may be infinite."""
    return float(value) if math.isfinite(value) else str(float(value))
