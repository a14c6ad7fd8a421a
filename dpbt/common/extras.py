"""Packages that extras of dpbt install; each is imported where it is first needed."""

from importlib import import_module, metadata
from types import ModuleType


def import_extra(package: str, *, extra: str, purpose: str) -> ModuleType:
    """Import a package that an extra of dpbt installs.

    Args:
        package: its name.
        extra: the name of the extra.
        purpose: what needs the package, in a few words for errors.

    Raises:
        ImportError: naming the extra, if the package is not installed. It is no
            ModuleNotFoundError, so that commands show it as one line.
    """
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:  # the package is there, and lacks one of its own
            raise ImportError(
                f"{purpose} needs {package}, which cannot be imported: {error}"
            ) from error
        raise ImportError(
            f"{purpose} needs {package}, which the extra `{extra}` installs: "
            f"pip install 'dpbt[{extra}]'"
        ) from error


def package_version(package: str) -> str:
    """The version of an installed package.

    It is there also where the package's metadata is missing, as in a bundle.
    """
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return import_module(package).__version__
