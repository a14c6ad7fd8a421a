"""Sentences of the README, the docs and the docstrings, and the long ones among them.

`python tests/prose.py` counts sentences of more than `LIMIT` words and prints each with its place;
`python tests/prose.py dpbt/privacy` looks below one path only.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

LIMIT = 40
ROOT = Path(__file__).parent.parent
PLACES = ("README.md", "CHANGELOG.md", "docs", "dpbt", "experiments", "paper_figures")

_SECTION = re.compile(r"\s*(Args|Returns|Raises|Yields|Attributes|Example|Examples):\s*$")
_ENTRY = re.compile(r"\s*(?:[*]{0,2}\w+(?:, \w+)*(?: \([^)]*\))?: |[-*] |\d+\. )")
_FIELD = re.compile(r"^\s*(?:[*]{0,2}\w+(?:, \w+)*(?: \([^)]*\))?: )")
_END = re.compile(r"(?<=[.!?])[\")*]*\s+(?=[\"'(*]*(?:[A-Z0-9`]|\[))")
_ALIGNED = re.compile(r"\S {2,}\S")  # a line of a table
_SHORT = re.compile(r"\b(e\.g|i\.e|et al|cf|vs|p|pp|Eq|Fig)\.")


def sentences(text: str, docstring: bool = False) -> list[str]:
    """The sentences of Markdown or of a docstring, without code blocks, tables and headings."""
    text = re.sub(r"```.*?```", "\n\n", text, flags=re.DOTALL)
    paragraphs: list[list[str]] = [[]]
    for line in text.splitlines():
        plain = line.strip()
        skipped = not plain or plain.startswith(("|", "#", ">>>", "![", "<"))
        if skipped or _SECTION.match(line) or _ALIGNED.search(plain):
            paragraphs.append([])
            continue
        if _ENTRY.match(line):
            paragraphs.append([])
        paragraphs[-1].append(line)
    found = []
    for lines in paragraphs:
        if docstring and lines:
            lines = [_FIELD.sub("", lines[0]), *lines[1:]]
        joined = _SHORT.sub(r"\1", " ".join(" ".join(lines).split()))
        found += [sentence for sentence in _END.split(joined) if sentence]
    return found


def words(sentence: str) -> int:
    """How many words a sentence has: what is between spaces and holds a letter or a digit."""
    shown = re.sub(r"\]\([^)]*\)", "]", sentence)  # the target of a link is not read
    shown = re.sub(r"`[^`]*`", "code", shown)
    return sum(any(map(str.isalnum, word)) for word in shown.split())


def texts(path: Path) -> Iterator[tuple[str, str, bool]]:
    """(place, text, whether it is a docstring) of one Markdown or Python file."""
    if path.suffix == ".md":
        yield str(path), path.read_text(), False
        return
    for node in ast.walk(ast.parse(path.read_text())):
        documented = ast.Module | ast.ClassDef | ast.FunctionDef
        if isinstance(node, documented) and (text := ast.get_docstring(node)):
            yield f"{path}:{getattr(node, 'lineno', 1)}", text, True
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            text = node.value.value  # below a name of the module
            if isinstance(text, str) and node.col_offset == 0 and node.lineno > 1:
                yield f"{path}:{node.lineno}", text, True


def long_sentences(place: Path, limit: int = LIMIT) -> list[tuple[str, int, str]]:
    """(place, words, sentence) of every sentence of more than `limit` words at or below `place`."""
    files = [place]
    if place.is_dir():
        files = sorted(path for path in place.rglob("*") if path.suffix in (".md", ".py"))
    return [
        (where, words(sentence), sentence)
        for file in files
        for where, text, docstring in texts(file)
        for sentence in sentences(text, docstring)
        if words(sentence) > limit
    ]


def main(places: list[str]) -> None:
    """Print the long sentences, and how many each place has."""
    counts = {}
    for place in places or PLACES:
        found = long_sentences(ROOT / place)
        counts[place] = len(found)
        for where, count, sentence in found:
            print(f"{where.removeprefix(f'{ROOT}/')}: {count} words: {sentence}")
    print(f"sentences over {LIMIT} words:", ", ".join(f"{n} {p}" for p, n in counts.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
