"""Downloads: a file is streamed, hashed and unpacked, and kept only if it is accepted."""

import contextlib
import hashlib
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.parse import quote, unquote
from urllib.request import Request, urlopen

from dpbt.common.storage import write_atomically
from dpbt.owners.cli.parsing import InputError, as_input_error
from experiments.common.data.entry import Entry, File
from experiments.common.data.reading import read_rows
from experiments.common.data.registry import find_file, search_folders
from experiments.common.progress import progress

Accept = Callable[[Path, str, str], None]
"""(file, its sha256, address) -> None; it raises an error if the file is not accepted."""

CHUNK = 1 << 16
TIMEOUT = 30
"""The most seconds without a byte."""


def sha256(path: Path) -> str:
    """SHA-256 of the file, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class FetchedFile(NamedTuple):
    """The path of a file, and whether it was downloaded now."""

    path: Path
    is_new: bool


def fetch(
    entry: Entry, folder: str | Path | None = None, mirror: str | None = None
) -> list[FetchedFile]:
    """Download the missing files of a data set into the first of `registry.search_folders`.

    Args:
        entry: an entry of the registry.
        folder: searched first; see `registry.search_folders`.
        mirror: the address of a folder to download from instead of the source. Its files are at
            MIRROR/FOLDER/FILE.

    Raises:
        InputError: if the data set cannot be downloaded from its source, if a file is not the one
            that the registry knows, or if it cannot be unpacked.
        OSError: naming the address, if the connection fails or is cut. Nothing of such a file is
            left behind.
    """
    files = []
    for file in entry.files:
        path = find_file(entry, file, folder)
        if path is not None and (not file.exact or sha256(path) == file.hashes[path.name]):
            files.append(FetchedFile(path, is_new=False))
            continue
        target = search_folders(folder)[0] / entry.folder
        if mirror is not None:
            address = f"{mirror.rstrip('/')}/{quote(entry.folder)}"
            path = _download_from_mirror(file, target, address)
        elif file.url:
            path = _download_from_source(entry, file, target)
        else:
            raise InputError(f"{entry.name}: {entry.unavailable} ({entry.page})")
        files.append(FetchedFile(path, is_new=True))
    return files


def _download_from_mirror(file: File, target: Path, address: str) -> Path:
    """Download the first form of the file that the mirror has; its sha256 must be the known one."""
    *preferred, (last_name, last_hash) = file.hashes.items()
    for name, expected in preferred:
        try:
            return _download(f"{address}/{quote(name)}", target / name, _accept_hash(expected))
        except FileNotFoundError:
            continue
    return _download(f"{address}/{quote(last_name)}", target / last_name, _accept_hash(last_hash))


def _download_from_source(entry: Entry, file: File, target: Path) -> Path:
    """Download the source's file, and unpack it if it is packed.

    An archive that is already in the folder, downloaded by hand, is used instead.
    """
    path = target / file.name
    accept = _accept_hash(file.sha256) if file.exact else partial(_accept_table, entry, file)
    if file.unpack is None:
        return _download(file.url, path, accept)
    unpack, name = file.unpack, unquote(file.url.rpartition("/")[2])

    def write(part: Path) -> None:
        unpack(packed, part)
        accept(part, sha256(part), file.url)

    with tempfile.TemporaryDirectory() as scratch:
        packed = target / name
        if not packed.is_file():
            packed = _download(file.url, Path(scratch) / name, _accept_hash(file.download_sha256))
        return _write_or_remove_folders(path, write)


def _accept_hash(expected: str) -> Accept:
    """Accept a file whose sha256 is `expected`; accept any file if that is ""."""

    def accept(part: Path, actual_hash: str, url: str) -> None:
        if expected not in ("", actual_hash):
            raise InputError(
                f"{url}: its sha256 is {actual_hash}, the registry has {expected}; nothing was kept"
            )

    return accept


def _accept_table(entry: Entry, file: File, part: Path, actual_hash: str, url: str) -> None:
    """Accept a file that can be read as the data set, whatever its sha256.

    It is for files whose known copy may not be the source's. A page with an error message cannot be
    read as the data set.
    """
    if actual_hash == file.sha256:
        return
    try:
        read_rows(part, entry.layout, entry.domain(2))
    except ValueError as error:
        raise InputError(
            f"{url}: {str(error).replace(str(part), file.name)}; nothing was kept"
        ) from None
    words = (
        f"its sha256 is {actual_hash}, and the sha256 of the registry's copy is "
        f"{file.sha256 or 'not known'}"
    )
    print(f"note: {url}: {words}; it can be read, and was kept", file=sys.stderr)


def _download(url: str, path: Path, accept: Accept) -> Path:
    """Stream an address to a file, which appears only when it is complete and accepted.

    Raises:
        FileNotFoundError: if the server does not have the file.
        OSError: if the server cannot be reached, or the connection is cut.
        InputError: if the file is not accepted.
    """
    return _write_or_remove_folders(
        path, lambda part: accept(part, _stream_to_file(url, part, path.name), url)
    )


def _write_or_remove_folders(path: Path, write: Callable[[Path], object]) -> Path:
    """Write the file as `write_atomically` does; if that fails, remove the folders that it made."""
    new_folders = [folder for folder in path.parents if not folder.exists()]
    try:
        write_atomically(path, write)
    except BaseException:
        for folder in new_folders:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise
    return path


def _stream_to_file(url: str, part: Path, name: str) -> str:
    """Write what the address holds to `part`, and return its sha256."""
    digest = hashlib.sha256()
    with as_input_error():
        request = Request(url, headers={"User-Agent": "dpbt"})
    try:
        with (
            urlopen(request, timeout=TIMEOUT) as response,
            open(part, "wb") as out,
        ):
            length = response.headers.get("Content-Length")
            size = int(length) if length else None
            received = 0
            with progress(size, "byte", name, unit_scale=True, leave=False) as progress_bar:
                while chunk := response.read(CHUNK):
                    out.write(chunk)
                    digest.update(chunk)
                    received += len(chunk)
                    progress_bar.update(len(chunk))
    except HTTPError as error:
        kind: Callable[[str], OSError] = FileNotFoundError if error.code == 404 else OSError
        raise kind(f"{url}: {error.code} {error.reason}") from None
    except (OSError, HTTPException) as error:
        raise OSError(f"{url}: {getattr(error, 'reason', error)}") from None
    if size is not None and received != size:
        raise OSError(f"{url}: the connection was cut after {received} of {size} bytes")
    return digest.hexdigest()
