from typing import Literal

import msgspec
import pytest

from dpbt.common import storage
from dpbt.common.storage import decode


class Inner(msgspec.Struct):
    cost: storage.Number
    count: storage.Count = 1
    word: Literal["a", "b"] = "a"


class Outer(msgspec.Struct):
    inner: list[Inner]
    named: dict[str, storage.Fraction] = {}
    digits: storage.Digits | None = None
    parts: list["Outer"] = []


def outer(**fields):
    return {"inner": [fields]}


WRONG = {
    "no number": (outer(cost="SECRET"), "Expected float, got str at $.inner[0].cost"),
    "below": (outer(cost=-41), "Expected float >= 0.0 at $.inner[0].cost"),
    "above": (outer(cost=1e308), "at $.inner[0].cost"),
    "not whole": (outer(cost=1, count=41.0), "Expected int, got float at $.inner[0].count"),
    "another word": (outer(cost=1, word="SECRET"), "Invalid value at $.inner[0].word"),
    "nothing": (outer(), "missing required field cost at $.inner[0]"),
    "in a mapping": ({"inner": [], "named": {"SECRET": 41}}, "<= 1.0 at $.named[...]"),
    "no digits": ({"inner": [], "digits": "SECRET"}, "at $.digits"),
    "text alone": ("SECRET", "Expected object, got str"),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_name_the_place_and_never_the_value(name):
    content, words = WRONG[name]
    with pytest.raises(ValueError, match=r"^the file has a malformed entry: ") as caught:
        decode(Outer, content, "the file")
    text = str(caught.value)
    assert words in text
    assert "SECRET" not in text
    assert "41" not in text


def test_what_is_named_is_read_and_the_rest_is_not():
    content = b'{"inner": [{"cost": 1, "more": 3}, {"cost": 2}], "other": []}'
    assert decode(Outer, content, "the file") == Outer([Inner(1.0), Inner(2.0)])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'{"inner": [], "inner": []}', "'inner' occurs twice in one object"),
        (b'{"inner": [{"cost": NaN}]}', "NaN is no JSON number"),
        (b'{"inner": [', "no JSON, or cut off: line 1"),
        (b'{"inner": ["\xff"]}', "no text"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"inner": ' + b"9" * 5000 + b"}", "4300 digits"),
        (b'{"inner": [{"cost": 1e999}]}', "cost"),
    ],
)
def test_text_that_is_not_of_the_type_is_refused(text, words):
    with pytest.raises(ValueError, match=words) as caught:
        decode(Outer, text, "the file")
    assert "\n" not in str(caught.value)


def test_deep_content_is_refused():
    content: dict = {"inner": []}
    for _ in range(50_000):
        content = {"inner": [], "parts": [content]}
    with pytest.raises(ValueError, match="nested too deeply"):
        decode(Outer, content, "the file")
