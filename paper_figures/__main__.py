"""Draw the papers' figures, each as PDF and PNG.

NAME is a figure, such as nock_henecka_2020/fig1, or the folder of a paper. Without a name, all
figures are drawn whose results have been saved, and the others are named on standard error. Those
of papers read the aggregated results that are kept with the code. --results reads those of a run of
your own, and writes the figures beside them.

Exit status: 0 if all figures were drawn; 1 if some were left out; 2 for a bad option, and for a
named figure without results.
"""

import argparse
import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from dpbt.common.storage import write_whole
from dpbt.owners.cli.shared import InputError, run_command_line
from experiments.common import aggregated
from experiments.common.cache import use_compilation_cache
from experiments.common.commands import Parser
from paper_figures import gallery, style

PAPERS = {
    "nock_henecka_2020": ("fig1", "fig2", "fig5", "domains", "fig62", "table1", "table4", "auto"),
    "asadi_2022": ("fig1", "fig2", "table2", "sparsity"),
    "bun_2020": ("halfspaces", "theorems", "sizes"),
    "bojarski_2014": ("table1", "fig1", "fig2", "series"),
    "comparisons": ("curves", "ranks", "worth", "classes", "regression"),
    "audits": ("levels", "reconstruction"),
}
"""Module -> its figures, each of which is a function that draws one figure, or figures by name."""

NAMES = ("privacy_audit", *(f"{module}/{name}" for module in PAPERS for name in PAPERS[module]))

DPI = 200
"""Pixels an inch of a PNG."""

FIGURES = "figures"
"""The folder of figures, below the working folder or beside the results of a run."""

LEFT_OUT = 1
"""The exit status if a figure was left out."""


def main(arguments: list[str] | None = None) -> int:
    """Draw the named figures, or all whose results have been saved, and return the exit status."""
    names = "".join(f"\n  {name}" for name in NAMES)
    parser = Parser(prog="python -m paper_figures", description=f"{__doc__}\nFigures:{names}")
    parser.add_argument("names", nargs="*", metavar="NAME", help="figures or folders (all)")
    words = "the folder of aggregated results that figures of papers read (%(default)s)"
    default = str(aggregated.FOLDER)
    parser.add_argument("--results", metavar="FOLDER", default=default, help=words)
    words = f"the folder to write to ({FIGURES}; with --results, a folder of that name in it)"
    parser.add_argument("--out", metavar="FOLDER", help=words)
    words = "also write small pictures of the papers' figures below this folder, and gallery.md; "
    words += "figures that are not named keep theirs"
    parser.add_argument("--gallery", metavar="FOLDER", help=words)
    parser.set_defaults(program=_run)
    return run_command_line(parser, arguments)


def _run(options: argparse.Namespace) -> int:
    chosen = [name for given in options.names for name in _figures_of(given)]
    folder, out = Path(options.results), Path(options.out or FIGURES)
    if folder != aggregated.FOLDER:
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder")
        out = Path(options.out or folder / FIGURES)

    use_compilation_cache()
    matplotlib.use("Agg")
    with aggregated.reading_from(folder):
        return _draw_all(options, chosen, out)


def _draw_all(options: argparse.Namespace, chosen: list[str], out: Path) -> int:
    left_out, shown = 0, []
    for name in chosen or NAMES:
        try:
            figures = draw(name)
        except InputError as error:
            if name in options.names:
                raise InputError(f"{name}: {error}") from error
            print(f"left out: {name}: {error}", file=sys.stderr)
            left_out += 1
            continue
        for title, figure in figures.items():
            _settle(figure)
            if options.gallery and "/" in name:
                shown.append(gallery.add(figure, name, title, Path(options.gallery)))
            save(figure, out / title)
    if options.gallery:
        print(gallery.page(shown, chosen or NAMES, _titles(), Path(options.gallery)))
    if left_out:
        print(f"{left_out} of {len(chosen or NAMES)} figures were left out", file=sys.stderr)
    return LEFT_OUT if left_out else 0


def _figures_of(given: str) -> list[str]:
    """The figure of that name, or the figures of that folder.

    Raises:
        InputError: if there is no such figure and no such folder.
    """
    found = [name for name in NAMES if given in (name, name.split("/")[0])]
    if not found:
        raise InputError(f"no figure {given!r}; there are {', '.join(NAMES)}")
    return found


def function_of(name: str) -> Callable[[], Figure | dict[str, Figure]]:
    """The function that draws a figure."""
    module, _, function = name.partition("/")
    return getattr(importlib.import_module(f"paper_figures.{module}"), function or "draw")


def draw(name: str) -> dict[str, Figure]:
    """The figures of a function, by the names under which they are saved.

    Figures of papers have the sizes of `style.PRINT`.

    Raises:
        InputError: if the results that it reads have not been saved.
    """
    of_a_paper = name.split("/")[0] in gallery.TITLES
    with plt.rc_context(style.PRINT if of_a_paper else None):
        drawn = function_of(name)()
    if isinstance(drawn, Figure):
        return {name: drawn}
    return {f"{name}_{part}": figure for part, figure in drawn.items()}


def _titles() -> dict[str, str]:
    """Figure -> its title in the gallery."""
    return {name: (function_of(name).__doc__ or "").splitlines()[0] for name in NAMES}


def _settle(figure: Figure) -> None:
    """Place the panels once; without this, every file that is written places them again."""
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()
        figure.set_layout_engine("none")


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PATH.pdf and PATH.png, print their names, and close it."""
    for suffix in ("pdf", "png"):
        whole = path.parent / f"{path.name}.{suffix}"
        write_whole(whole, lambda part: figure.savefig(part, dpi=DPI))
        print(whole)
    plt.close(figure)


if __name__ == "__main__":
    sys.exit(main())
