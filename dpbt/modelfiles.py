"""Files with a format, a version and a checksum. No JAX is needed.

The checksum finds accidents, such as a lost byte. It is no signature: whoever edits a file can
compute another one.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpbt.formats import parse


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


def from_number(value: float) -> float | str:
    """A number of a ledger, which may be infinite."""
    return float(value) if math.isfinite(value) else str(float(value))
