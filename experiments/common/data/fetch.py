"""Downloads: streamed, hashed on the way, unpacked, and renamed into place only when all is
well.
"""

import contextlib
import hashlib
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote, unquote
from urllib.request import Request, urlopen

from tqdm import tqdm

from dpbt.sweeps.storage import write_whole
from experiments.common.data.entry import Entry, File
from experiments.common.data.reading import read
from experiments.common.data.registry import find, places

Accept = Callable[[Path, str, str], None]  # (file, its sha256, address) -> None, or a ValueError

CHUNK = 1 << 16
TIMEOUT = 30  # seconds without a byte


def sha256(path: Path) -> str:
    """Of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch(
    entry: Entry, folder: str | Path | None = None, mirror: str | None = None
) -> list[tuple[Path, bool]]:
    """Download what is not there yet of a data set, into the first of `registry.places`.

    Args:
        entry: of the registry.
        folder: the first place, if given.
        mirror: address of a folder with the layout of ours, MIRROR/<folder>/<file>, instead of the
            source.

    Returns:
        The path of each file, and whether it was downloaded.

    Raises:
        ValueError: if the data set cannot be downloaded from its source, or a file is not the one
            that the registry knows, or cannot be unpacked.
        OSError: if the connection fails or is cut, naming the address. Nothing of such a file is
            left behind.
    """
    done = []
    for file in entry.files:
        path = find(entry, file, folder)
        if path is not None and (not file.exact or sha256(path) == file.hashes[path.name]):
            done.append((path, False))
            continue
        target = places(folder)[0] / entry.folder
        if mirror is not None:
            done.append(
                (_from_mirror(file, target, f"{mirror.rstrip('/')}/{quote(entry.folder)}"), True)
            )
        elif file.url:
            done.append((_from_source(entry, file, target), True))
        else:
            raise ValueError(f"{entry.name}: {entry.unavailable} ({entry.page})")
    return done


def _from_mirror(file: File, target: Path, address: str) -> Path:
    """The first of the file's forms that the mirror has; a mirror's bytes must be the ones we
    know.
    """
    *others, last = file.hashes.items()
    for name, expected in others:
        try:
            return _download(f"{address}/{quote(name)}", target / name, _expect(expected))
        except FileNotFoundError:
            continue
    return _download(f"{address}/{quote(last[0])}", target / last[0], _expect(last[1]))


def _from_source(entry: Entry, file: File, target: Path) -> Path:
    """The source's file, unpacked if need be; a download by hand that lies in the folder is taken
    instead.
    """
    path = target / file.name
    accept = _expect(file.sha256) if file.exact else partial(_accept_table, entry, file)
    if file.unpack is None:
        return _download(file.url, path, accept)
    unpack, name = file.unpack, unquote(file.url.rpartition("/")[2])

    def write(part: Path) -> None:
        unpack(packed, part)
        accept(part, sha256(part), file.url)

    with tempfile.TemporaryDirectory() as scratch:
        packed = target / name
        if not packed.is_file():
            packed = _download(file.url, Path(scratch) / name, _expect(file.download_sha256))
        return _place(path, write)


def _expect(expected: str) -> Accept:
    """Only these bytes will do (any, if "")."""

    def accept(part: Path, found: str, url: str) -> None:
        if expected not in ("", found):
            raise ValueError(
                f"{url}: its sha256 is {found}, the registry has {expected}; nothing was kept"
            )

    return accept


def _accept_table(entry: Entry, file: File, part: Path, found: str, url: str) -> None:
    """Where our bytes may not be the source's, others will do if they can be read; a page that says
    sorry cannot.
    """
    if found == file.sha256:
        return
    try:
        read(part, entry.layout, entry.domain(2))
    except ValueError as error:
        raise ValueError(
            f"{url}: {str(error).replace(str(part), file.name)}; nothing was kept"
        ) from None
    words = (
        f"its sha256 is {found}, that of the copy behind the registry "
        f"{file.sha256 or 'is not known'}"
    )
    print(f"note: {url}: {words}; it can be read, and was kept", file=sys.stderr)


def _download(url: str, path: Path, accept: Accept) -> Path:
    """Stream an address to a file that appears only when it is complete and accepted.

    Raises:
        FileNotFoundError: if the server does not have it; OSError if it cannot be reached or the
            connection is cut.
        ValueError: if it is not accepted.
    """
    return _place(path, lambda part: accept(part, _stream(url, part, path.name), url))


def _place(path: Path, write: Callable[[Path], object]) -> Path:
    """`write_whole`, without leaving empty folders behind if it fails."""
    made = [folder for folder in path.parents if not folder.exists()]
    try:
        write_whole(path, write)
    except BaseException:
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise
    return path


def _stream(url: str, part: Path, name: str) -> str:
    """Write what the address holds; the sha256."""
    digest = hashlib.sha256()
    try:
        with (
            urlopen(Request(url, headers={"User-Agent": "dpbt"}), timeout=TIMEOUT) as response,
            open(part, "wb") as out,
        ):
            length = response.headers.get("Content-Length")
            size = int(length) if length else None
            received = 0
            with tqdm(
                total=size, unit="B", unit_scale=True, desc=name, file=sys.stderr, leave=False
            ) as progress:
                while chunk := response.read(CHUNK):
                    out.write(chunk)
                    digest.update(chunk)
                    received += len(chunk)
                    progress.update(len(chunk))
    except HTTPError as error:
        kind: Callable[[str], OSError] = FileNotFoundError if error.code == 404 else OSError
        raise kind(f"{url}: {error.code} {error.reason}") from None
    except (OSError, HTTPException) as error:
        raise OSError(f"{url}: {getattr(error, 'reason', error)}") from None
    if size is not None and received != size:
        raise OSError(f"{url}: the connection was cut after {received} of {size} bytes")
    return digest.hexdigest()
