"""Which package of dpbt imports which, as the code says.

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
def python_files(folder: str) -> tuple[Path, ...]:
    return tuple(sorted((ROOT / folder).rglob("*.py")))


def parse_file(path: Path) -> ast.Module:
    gc.disable()  # a tree has many objects and no garbage, and collecting takes most of the time
    try:
        return ast.parse(path.read_text())
    finally:
        gc.enable()


def iter_statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements within a node; expressions are not looked into, which is much faster."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        children = getattr(node, name, None)
        for child in children if isinstance(children, list) else ():
            yield child
            yield from iter_statements(child)


def module_name(path: Path) -> str:
    """The dotted name of a file of dpbt, without "dpbt."; empty for dpbt itself."""
    parts = path.relative_to(ROOT / "dpbt").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def _all_module_names() -> frozenset[str]:
    return frozenset(map(module_name, python_files("dpbt")))


def iter_imported_modules(path: Path) -> Iterator[str]:
    """The modules of dpbt that a file imports, wherever in the file."""
    all_names = _all_module_names()
    for node in iter_statements(parse_file(path)):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        imported = {
            name.removeprefix("dpbt.") for name in names if name.startswith("dpbt.")
        } & all_names
        yield from {
            name for name in imported if not any(other.startswith(f"{name}.") for other in imported)
        }


@functools.cache
def imports_by_module() -> dict[str, set[str]]:
    """The modules that each module imports."""
    return {
        module_name(path): set(iter_imported_modules(path)) - {module_name(path)}
        for path in python_files("dpbt")
    }


def imports_by_room() -> dict[str, set[str]]:
    """The rooms that each room imports."""
    imports_of_room: dict[str, set[str]] = {}
    for name, imports in imports_by_module().items():
        if name:  # dpbt itself names its modules, and imports them when they are asked for
            room = name.split(".")[0]
            imports_of_room.setdefault(room, set()).update(n.split(".")[0] for n in imports)
    return {room: imports - {room} for room, imports in imports_of_room.items()}


def reachable_nodes(graph: dict[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    todo = [start]
    while todo:
        new = graph.get(todo.pop(), set()) - reached
        reached |= new
        todo += new
    return reached


def import_circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The sets of nodes that import each other."""
    below = {node: reachable_nodes(graph, node) for node in graph}
    circles = {
        tuple(
            sorted(
                {node}
                | {other_node for other_node in below[node] if node in below.get(other_node, ())}
            )
        )
        for node in graph
    }
    return sorted([list(circle) for circle in circles if len(circle) > 1])


def nodes_by_floor(graph: dict[str, set[str]]) -> list[list[str]]:
    """The nodes of each floor, the lowest first; a circle is on one floor."""
    circle_of_node = {node: {node} for node in graph} | {
        member: set(circle) for circle in import_circles(graph) for member in circle
    }

    @functools.cache
    def floor(node: str) -> int:
        below = {
            node_below for member in circle_of_node[node] for node_below in graph[member]
        } - circle_of_node[node]
        return 1 + max((floor(node_below) for node_below in below), default=0)

    levels = {node: floor(node) for node in graph}
    return [
        sorted(node for node, level in levels.items() if level == height)
        for height in range(1, max(levels.values()) + 1)
    ]


def floors_in_words() -> str:
    """The rooms, highest floor first, as the page on the architecture shows them."""
    return "\n".join(
        f"{n:2}  {'  '.join(room)}"
        for n, room in reversed([*enumerate(nodes_by_floor(imports_by_room()), 1)])
    )


if __name__ == "__main__":
    print(f"circles: {import_circles(imports_by_room())}\n\n{floors_in_words()}")
