"""Packages that extras of dpbt install; each is imported where it is first needed."""

from importlib import import_module
from types import ModuleType


def import_extra(package: str, extra: str, what: str) -> ModuleType:
    """A package of an extra.

    Args:
        package: its name.
        extra: the extra that installs it.
        what: what needs it, in a few words.

    Raises:
        ImportError: naming the extra, if the package is not installed. It is no
            ModuleNotFoundError, so that commands show it as one line.
    """
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:  # the package is there, and lacks one of its own
            raise ImportError(
                f"{what} needs {package}, which cannot be imported: {error}"
            ) from error
        raise ImportError(
            f"{what} needs {package}, which the extra `{extra}` installs: "
            f"pip install 'dpbt[{extra}]'"
        ) from error
