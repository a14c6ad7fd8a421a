"""Files that somebody changed: mutations of JSON content at every place, signed again."""

import copy
import json

from dpbt.common.storage import checksum

HUGE = 10**400
"""An integer that no float holds."""

ODD = {
    "null": None,
    "true": True,
    "zero": 0,
    "minus one": -1,
    "near 2^62": 2**62,
    "beyond int64": 2**63,
    "huge": HUGE,
    "a tiny number": 5e-324,
    "no text": "",
    "text": "x\n\0",
    "a surrogate": "\ud800é",
    "infinity in words": "inf",
    "an empty list": [],
    "an object": {"x": {"y": [1]}},
}


def places(content, path=()):
    """The paths of all values in JSON content; of long lists the first and the last entry."""
    if path:
        yield path
    if isinstance(content, dict):
        entries = list(content.items())
    elif isinstance(content, list):
        entries = list(enumerate(content))
        entries = entries if len(entries) < 3 else [entries[0], entries[-1]]
    else:
        return
    for name, value in entries:
        yield from places(value, (*path, name))


def changed(content, path, value=None, *, drop=False, twice=False):
    """A copy with another value at a path, or without it, or (in a list) with it twice."""
    new = copy.deepcopy(content)
    within = new
    for name in path[:-1]:
        within = within[name]
    if drop:
        del within[path[-1]]
    elif twice:
        within.insert(path[-1], copy.deepcopy(within[path[-1]]))
    else:
        within[path[-1]] = copy.deepcopy(value)
    return new


def retyped(value):
    """The same value as another type."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return {str(number): entry for number, entry in enumerate(value)}
    if isinstance(value, dict):
        return list(value.values())
    return str(value)


def at(content, path):
    for name in path:
        content = content[name]
    return content


def mutations(content):
    """(words, a changed copy): all single changes of JSON content."""
    for path in places(content):
        where = "/".join(map(str, path))
        yield f"{where}: dropped", lambda p=path: changed(content, p, drop=True)
        value = at(content, path)
        yield f"{where}: retyped", lambda p=path, v=value: changed(content, p, retyped(v))
        if isinstance(path[-1], int):
            yield f"{where}: twice", lambda p=path: changed(content, p, twice=True)
        for words, odd in ODD.items():
            if odd != value or type(odd) is not type(value):
                yield f"{where}: {words}", lambda p=path, o=odd: changed(content, p, o)


def signed(content):
    """JSON text of content with a checksum of its own."""
    if isinstance(content, dict) and "checksum" in content:
        content = {**content, "checksum": checksum(content)}
    return json.dumps(content)


def damaged(text, rng):
    """Text that lost its end or a piece, or has flipped bits or nested lists at some place."""
    start, length = rng.integers(len(text)), rng.integers(1, 40)
    match rng.integers(5):
        case 0:
            return text[:start]
        case 1:
            return text[:start] + text[start + length :]
        case 2:
            flipped = chr(ord(text[start]) ^ (1 << rng.integers(7)))
            return text[:start] + flipped + text[start + 1 :]
        case 3:
            depth = int(10 ** rng.uniform(1, 5))
            return text[:start] + "[" * depth + "]" * depth + text[start:]
    end = text.find("]", start)
    return text if end < 0 else text[:end].rpartition(",")[0] + text[end:]  # an array lost its end
