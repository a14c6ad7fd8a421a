"""Draw the papers' figures: `python -m paper_figures [NAME ...]`, PDF and PNG of each."""

import argparse
import importlib
import sys
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt

from dpbt.storage import write_whole

MODULES = {
    "nock_fig1": "nock_henecka_2020.fig1",
    "nock_fig5": "nock_henecka_2020.fig5",
    "nock_table1": "nock_henecka_2020.table1",
    "privacy_audit": "privacy_audit",
    "asadi_table2": "asadi_2022.table2",
    "asadi_fig2": "asadi_2022.fig2",
    "asadi_sparsity": "asadi_2022.sparsity",
    "bun_halfspaces": "bun_2020.halfspaces",
    "bojarski_series": "bojarski_2014.series",
}
NAMES = tuple(MODULES)


def main(arguments: list[str] | None = None) -> int:
    """Draw the named figures, or all whose results have been saved."""
    parser = argparse.ArgumentParser(prog="python -m paper_figures", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"among {', '.join(NAMES)}; all by default")
    parser.add_argument("--out", default="figures", help="the folder to write to (%(default)s)")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        print(f"error: no figure {unknown[0]!r}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    matplotlib.use("Agg")
    for name in options.names or NAMES:
        try:
            drawn = importlib.import_module(f"paper_figures.{MODULES[name]}").draw()
        except ValueError as error:
            print(f"{'error' if options.names else 'left out'}: {name}: {error}", file=sys.stderr)
            if options.names:
                return 2
            continue
        figures = {f"{name}_{part}": one for part, one in drawn.items()} if isinstance(drawn, dict) else {name: drawn}
        for title, figure in figures.items():
            for suffix in ("pdf", "png"):
                path = Path(options.out) / f"{title}.{suffix}"
                write_whole(path, lambda part, figure=figure: figure.savefig(part, dpi=150))
                print(path)
            plt.close(figure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
