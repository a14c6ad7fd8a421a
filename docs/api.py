"""Write the API reference as HTML, from the docstrings: `make docs`.

No network is needed, to write it or to read it.
"""

import importlib
import pkgutil
import sys
import warnings
from pathlib import Path

import jax
import pdoc
import pdoc.render
from numpy.typing import ArrayLike

import dpbt

ALIASED = ("dpbt.common.types", "dpbt.privacy.mechanism", "dpbt.privacy.keys")
"""Modules that give jax.Array a name of their own."""


def modules() -> list[str]:
    """The names of all modules of dpbt, the package first."""
    return ["dpbt", *(module.name for module in pkgutil.walk_packages(dpbt.__path__, "dpbt."))]


def name_aliases() -> None:
    """Show types of other libraries by their names, and not by what they are made of."""
    arrays = type("ArrayLike", (), {"__module__": "numpy.typing"})
    for module in [importlib.import_module(name) for name in modules()]:
        for name, value in list(vars(module).items()):
            if value is ArrayLike:
                setattr(module, name, arrays)
            elif value is jax.Array and module.__name__ in ALIASED:
                setattr(module, name, "jax.Array")


def main(folder: Path) -> None:
    """Render every module into `folder`, which is created."""
    # dpbt imports its names on first use, and pdoc reads those that are there.
    for name in dpbt.__all__:
        setattr(dpbt, name, getattr(dpbt, name))

    name_aliases()
    pdoc.render.configure(docformat="google", footer_text=f"dpbt {dpbt.__version__}")
    with warnings.catch_warnings():
        # A package names its modules again, and types that only a checker imports stay text.
        warnings.filterwarnings("ignore", message="The module specification")
        warnings.filterwarnings("ignore", message="Error parsing type annotation")
        pdoc.pdoc(*modules(), output_directory=folder)
    print(f"wrote {folder / 'dpbt.html'} and {len(modules()) - 1} pages below it")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/docs"))
