"""Fingerprints of private tables, keyed with a secret that stays with the owner of the rows.

A hash without a key lets everybody check guesses: a person who knows all rows but one finds that
row by hashing every value it may have. HMAC-SHA256 under 256 secret bits tells equal content from
other content, to those who have the secret. To everybody else it is as good as random bits
(Bellare, Canetti & Krawczyk, 1996). Everybody can see that equal fingerprints under one secret are
of equal content.
"""

import contextlib
import hmac
import os
import secrets
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

import jax
import numpy as np
from jax.experimental import multihost_utils

from dpbt.base import AnyArray

BYTES = 32
"""Length of a secret: 256 bits."""


def secret_path() -> Path:
    """The file of the secret.

    $DPBT_SECRET names it. By default it is dpbt/fingerprint.key in $XDG_STATE_HOME, or in
    ~/.local/state.
    """
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(os.environ.get("DPBT_SECRET") or Path(state) / "dpbt" / "fingerprint.key")


def local_secret(results: Path) -> bytes:
    """The owner's secret, 32 bytes; it is drawn from the system's entropy if there is none yet.

    The file is readable by its owner alone (mode 0600). It appears whole, so processes that start
    at the same time read the same secret.

    Args:
        results: a folder that may be handed over; the secret must not lie in it.

    Raises:
        ValueError: naming the file, if it lies in `results`, if others than its owner may read it,
            or if it does not hold 32 bytes.
    """
    path = secret_path()
    if path.resolve().is_relative_to(results.resolve()):
        raise ValueError(
            f"the secret {path} lies in the results folder {results}, which may be handed over; "
            "let $DPBT_SECRET name a file elsewhere"
        )
    if not path.exists():
        _create(path)
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise ValueError(f"others may read the secret {path}; run: chmod 600 {path}")
    secret = path.read_bytes()
    if len(secret) != BYTES:
        raise ValueError(f"{path} does not hold {BYTES} bytes; without it, a new one is drawn")
    return secret


def shared_secret(results: Path) -> bytes:
    """`local_secret` of the first process, on all processes of `jax.distributed`.

    It travels as the statistics of the rows do, so the network between the processes must be as
    private as the rows.
    """
    if jax.process_count() == 1:
        return local_secret(results)
    secret = local_secret(results) if jax.process_index() == 0 else bytes(BYTES)
    sent = multihost_utils.broadcast_one_to_all(np.frombuffer(secret, np.uint8).astype(np.int32))
    return np.asarray(sent).astype(np.uint8).tobytes()


def _create(path: Path) -> None:
    """Draw a secret and write it to the file, whole, unless another process is first."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-")  # of mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(BYTES))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
    finally:
        os.unlink(name)


def fingerprint(secret: bytes, text: str, arrays: Iterable[AnyArray]) -> str:
    """64 hexadecimal digits of a text and arrays, with their dtypes and shapes, under a secret.

    Args:
        secret: from `local_secret`.
        text: any text.
        arrays: host or device arrays of numbers or Booleans.
    """
    digest = hmac.new(secret, digestmod="sha256")
    parts = [text.encode()]
    for array in map(np.asarray, arrays):
        parts += [f"{array.dtype} {array.shape}".encode(), array.tobytes()]
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()
