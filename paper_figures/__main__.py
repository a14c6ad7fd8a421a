"""Draw the papers' figures, PDF and PNG of each.

A NAME is a figure, such as nock_henecka_2020/fig1, or a paper's folder; without one, all figures
whose results have been saved are drawn.
"""

import importlib
import sys
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from dpbt.sweeps.storage import write_whole
from experiments.common.cache import use_compilation_cache
from experiments.common.commands import Parser

NAMES = (
    "privacy_audit",
    "nock_henecka_2020/fig1",
    "nock_henecka_2020/fig5",
    "nock_henecka_2020/table1",
    "asadi_2022/table2",
    "asadi_2022/fig2",
    "asadi_2022/sparsity",
    "bun_2020/halfspaces",
    "bojarski_2014/series",
)


def main(arguments: list[str] | None = None) -> int:
    """Draw the named figures, or all whose results have been saved."""
    there = "".join(f"\n  {name}" for name in NAMES)
    parser = Parser(prog="python -m paper_figures", description=f"{__doc__}\nfigures:{there}")
    parser.add_argument("names", nargs="*", metavar="NAME", help="figures or folders (all)")
    words = "the folder to write to (%(default)s)"
    parser.add_argument("--out", metavar="FOLDER", default="figures", help=words)

    use_compilation_cache()
    matplotlib.use("Agg")
    try:
        options = parser.parse_args(arguments)
        chosen = [name for given in options.names for name in _figures_of(given)]
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2

    for name in chosen or NAMES:
        try:
            figures = draw(name)
        except ValueError as error:
            print(f"{'error' if chosen else 'left out'}: {name}: {error}", file=sys.stderr)
            if chosen:
                return 2
            continue
        for title, figure in figures.items():
            save(figure, Path(options.out) / title)
    return 0


def _figures_of(given: str) -> list[str]:
    """The figure of that name, or those of that folder.

    Raises:
        ValueError: if there is none.
    """
    found = [name for name in NAMES if given in (name, name.split("/")[0])]
    if not found:
        raise ValueError(f"no figure {given!r}; there are {', '.join(NAMES)}")
    return found


def draw(name: str) -> dict[str, Figure]:
    """The figures of a module, by the names under which they are saved.

    Raises:
        ValueError: if the results that it reads have not been saved.
    """
    drawn = importlib.import_module(f"paper_figures.{name.replace('/', '.')}").draw()
    if isinstance(drawn, Figure):
        return {name: drawn}
    return {f"{name}_{part}": figure for part, figure in drawn.items()}


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PATH.pdf and PATH.png, print their names, and close it."""
    for suffix in ("pdf", "png"):
        whole = path.parent / f"{path.name}.{suffix}"
        write_whole(whole, lambda part: figure.savefig(part, dpi=150))
        print(whole)
    plt.close(figure)


if __name__ == "__main__":
    sys.exit(main())
