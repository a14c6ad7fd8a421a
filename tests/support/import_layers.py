"""Which room of dpbt imports which, read off the code.

`python -m tests.support.import_layers` draws it.

A room is a package of dpbt, or a module of its root. Its floor is one above the highest room that
it imports.
"""

import ast
import functools
import gc
from collections.abc import Iterator
from pathlib import Path

from tests.support import ROOT


@functools.cache
def files(folder: str) -> tuple[Path, ...]:
    return tuple(sorted((ROOT / folder).rglob("*.py")))


def tree(path: Path) -> ast.Module:
    gc.disable()  # a tree has many objects and no garbage, and collecting takes most of the time
    try:
        return ast.parse(path.read_text())
    finally:
        gc.enable()


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements within a node; expressions are not looked into, which is much faster."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        found = getattr(node, name, None)
        for below in found if isinstance(found, list) else ():
            yield below
            yield from statements(below)


def module(path: Path) -> str:
    """The dotted name of a file of dpbt, without "dpbt."; empty for dpbt itself."""
    parts = path.relative_to(ROOT / "dpbt").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def _known() -> frozenset[str]:
    return frozenset(map(module, files("dpbt")))


def imported(path: Path) -> Iterator[str]:
    """The modules of dpbt that a file imports, wherever in the file."""
    known = _known()
    for node in statements(tree(path)):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        inside = {name.removeprefix("dpbt.") for name in names if name.startswith("dpbt.")} & known
        yield from {each for each in inside if not any(o.startswith(f"{each}.") for o in inside)}


@functools.cache
def modules() -> dict[str, set[str]]:
    """Module -> the modules that it imports."""
    return {module(path): set(imported(path)) - {module(path)} for path in files("dpbt")}


def rooms() -> dict[str, set[str]]:
    """Room -> the rooms that it imports."""
    found: dict[str, set[str]] = {}
    for name, imports in modules().items():
        if name:  # dpbt itself names its modules, and imports them when they are asked for
            room = name.split(".")[0]
            found.setdefault(room, set()).update(each.split(".")[0] for each in imports)
    return {room: imports - {room} for room, imports in found.items()}


def reached(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    todo = [start]
    while todo:
        new = graph.get(todo.pop(), set()) - seen
        seen |= new
        todo += new
    return seen


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The sets of nodes that import each other."""
    below = {node: reached(graph, node) for node in graph}
    found = {
        tuple(sorted({node} | {other for other in below[node] if node in below.get(other, ())}))
        for node in graph
    }
    return sorted([list(each) for each in found if len(each) > 1])


def floors(graph: dict[str, set[str]]) -> list[list[str]]:
    """The nodes of each floor, the lowest first; a circle is on one floor."""
    of = {node: {node} for node in graph} | {n: set(c) for c in circles(graph) for n in c}

    @functools.cache
    def floor(node: str) -> int:
        below = {other for member in of[node] for other in graph[member]} - of[node]
        return 1 + max((floor(other) for other in below), default=0)

    levels = {node: floor(node) for node in graph}
    return [
        sorted(node for node, level in levels.items() if level == number)
        for number in range(1, max(levels.values()) + 1)
    ]


def picture() -> str:
    """The rooms, highest floor first, as the page on the architecture shows them."""
    return "\n".join(
        f"{n:2}  {'  '.join(room)}" for n, room in reversed([*enumerate(floors(rooms()), 1)])
    )


if __name__ == "__main__":
    print(f"circles: {circles(rooms())}\n\n{picture()}")
