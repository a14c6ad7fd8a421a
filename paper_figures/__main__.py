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

from dpbt.common.storage import write_atomically
from dpbt.owners.cli.parsing import InputError, run_command_line
from experiments.common import aggregated
from experiments.common.cache import use_compilation_cache
from experiments.common.commands import Parser
from paper_figures import gallery, style

PAPERS = {
    "nock_henecka_2020": ("fig1", "fig2", "fig5", "domains", "fig62", "table1", "table4", "auto"),
    "asadi_2022": ("fig1", "fig2", "table2", "sparsity"),
    "bun_2020": ("halfspaces", "theorems", "sizes"),
    "bojarski_2014": ("table1", "fig1", "fig2", "series"),
    "comparisons": ("curves", "ranks", "worth", "exchange", "classes", "regression"),
    "audits": ("levels", "reconstruction"),
    "devices": ("division",),
}
"""Module -> its figures, each of which is a function that draws one figure, or figures by name."""

NAMES = ("privacy_audit", *(f"{module}/{name}" for module in PAPERS for name in PAPERS[module]))

DPI = 200
"""Pixels an inch of a PNG."""

FIGURES = "figures"
"""The folder of figures, below the working folder or beside the results of a run."""

LEFT_OUT_STATUS = 1
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
    parser.set_defaults(program=_draw_figures)
    return run_command_line(parser, arguments)


def _draw_figures(options: argparse.Namespace) -> int:
    names = [name for name_or_folder in options.names for name in _expand_name(name_or_folder)]
    folder, out = Path(options.results), Path(options.out or FIGURES)
    if folder != aggregated.FOLDER:
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder")
        out = Path(options.out or folder / FIGURES)

    use_compilation_cache()
    matplotlib.use("Agg")
    with aggregated.reading_from(folder):
        return _draw_named(options, names, out)


def _draw_named(options: argparse.Namespace, names: list[str], out: Path) -> int:
    num_left_out, pictures = 0, []
    for name in names or NAMES:
        try:
            figures = draw(name)
        except InputError as error:
            if name in options.names:
                raise InputError(f"{name}: {error}") from error
            print(f"left out: {name}: {error}", file=sys.stderr)
            num_left_out += 1
            continue
        for title, figure in figures.items():
            _fix_layout(figure)
            if options.gallery and "/" in name:
                pictures.append(gallery.add_picture(figure, name, title, Path(options.gallery)))
            save(figure, out / title)
    if options.gallery:
        print(
            gallery.write_page(pictures, names or NAMES, _gallery_titles(), Path(options.gallery))
        )
    if num_left_out:
        print(f"{num_left_out} of {len(names or NAMES)} figures were left out", file=sys.stderr)
    return LEFT_OUT_STATUS if num_left_out else 0


def _expand_name(name_or_folder: str) -> list[str]:
    """The figure of that name, or the figures of that folder.

    Raises:
        InputError: if there is no such figure and no such folder.
    """
    names = [name for name in NAMES if name_or_folder in (name, name.split("/")[0])]
    if not names:
        raise InputError(f"no figure {name_or_folder!r}; there are {', '.join(NAMES)}")
    return names


def find_function(name: str) -> Callable[[], Figure | dict[str, Figure]]:
    """The function that draws a figure."""
    module, _, function = name.partition("/")
    return getattr(importlib.import_module(f"paper_figures.{module}"), function or "draw")


def draw(name: str) -> dict[str, Figure]:
    """The figures of a function, by the names under which they are saved.

    Figures of papers have the sizes of `style.PRINT`.

    Raises:
        InputError: if the results that it reads have not been saved.
    """
    is_of_paper = name.split("/")[0] in gallery.TITLES
    with plt.rc_context(style.PRINT if is_of_paper else None):
        figures = find_function(name)()
    if isinstance(figures, Figure):
        return {name: figures}
    return {f"{name}_{suffix}": figure for suffix, figure in figures.items()}


def _gallery_titles() -> dict[str, str]:
    """Figure -> its title in the gallery."""
    return {name: (find_function(name).__doc__ or "").splitlines()[0] for name in NAMES}


def _fix_layout(figure: Figure) -> None:
    """Place the panels once; without this, every file that is written places them again."""
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()
        figure.set_layout_engine("none")


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PATH.pdf and PATH.png, print their names, and close it."""
    for suffix in ("pdf", "png"):
        full_path = path.parent / f"{path.name}.{suffix}"
        write_atomically(full_path, lambda partial_path: figure.savefig(partial_path, dpi=DPI))
        print(full_path)
    plt.close(figure)


if __name__ == "__main__":
    sys.exit(main())
