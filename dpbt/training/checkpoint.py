"""Checkpoints: what a run has released so far, so that a run that was stopped can go on.

A folder has `run.json`, which names the run, and `releases.jsonl`, a line for each release. All of
it may be published, as it left through mechanisms or is public randomness. The key is not in it.
Its hash is, salted, so that a run goes on under the same key alone: another key would be a second
release. So is the hash of the public key, as other structure would be the same noise on other sums.
The tables of all processes are named by a hash under the key, so whoever guesses rows cannot
compare. Another table under one key would be the same noise on two sums.
"""

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

import dpbt
from dpbt.base import Array, Recipe, relation_name
from dpbt.storage import naming, remove_left, without_twins, write_whole

FORMAT, VERSION = "dpbt checkpoint", 4

RUN, RELEASES = "run.json", "releases.jsonl"

AGAIN = (
    "its run cannot go on; begin one with a new key and another folder as checkpoint; pay for it"
)
"""What to do about a damaged folder.

The old key must not draw again: other versions, another processor or other rows would put the same
noise on other sums.
"""

Releases = dict[str, np.ndarray]
"""Site -> int32[...] or int64[...]: one release."""


def recipe_words(recipe: Recipe) -> str:
    """A hash of a recipe: of its parts, its target and the bits of all its numbers."""
    learner = recipe.learner
    parts = [learner.tag, recipe.weight_update.tag, recipe.name, relation_name(recipe.relation)]
    parts += [part.tag for part in (learner.prologue, learner.epilogue) if part is not None]
    parts += [repr(recipe.target), str(recipe.max_rows_per_user)]
    digest = hashlib.sha256(json.dumps(parts).encode())
    for leaf in jax.tree.leaves(recipe):
        array = np.ascontiguousarray(leaf)
        digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def _words(key: Array) -> bytes:
    return np.asarray(jax.random.key_data(key)).astype("<u4").tobytes()


def key_words(key: Array, salt: str) -> str:
    """A salted hash of a key. It tells nothing of a release key, which has 256 bits."""
    return hashlib.sha256(b"dpbt checkpoint " + salt.encode() + _words(key)).hexdigest()


def public_words(public_key: Array | None, salt: str) -> str:
    """A salted hash of a public key, which tells None from every key."""
    return key_words(public_key, f"public {salt}") if public_key is not None else "0" * 64


def under_key(key: Array, *texts: str) -> str:
    """A hash of texts that only holders of the key can compute."""
    content = json.dumps(["dpbt run", *texts]).encode()
    return hmac.new(_words(key), content, hashlib.sha256).hexdigest()


class Checkpoint:
    """The releases of one run in a folder; a line is on the disk before the run goes on.

    Args:
        folder: it is made if it does not exist. Afterwards `begun` says whether it had the run, and
            `run` names the run in this folder, with a salt of the folder's own. `given_up` says
            whether the folder was left to another run.
        key: of the run.
        recipe: of the run.
        tables: the identity of the table of each process; private.
        process: the number of this process.
        public_key: of the public structure; None if the recipe draws none.

    Raises:
        ValueError: if the folder is of a run with another key, public key, recipe or table, or is
            damaged.
        OSError: if it cannot be read or written.
    """

    def __init__(
        self,
        folder: Path,
        key: Array,
        recipe: Recipe,
        tables: Sequence[str],
        process: int = 0,
        public_key: Array | None = None,
    ):
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / RUN
        remove_left(path)

        # The flag jax_enable_x64 is off in every run (`checks.check_precision`).
        def named(salt: str) -> dict[str, str]:
            return {
                "key": key_words(key, salt),
                "public key": public_words(public_key, salt),
                "recipe": recipe_words(recipe),
                "table": under_key(key, salt, *tables, f"process {process}"),
                "version of dpbt or jax": f"dpbt {dpbt.__version__}, jax {jax.__version__}",
            }

        self.begun, self.given_up = path.exists(), False
        if not self.begun:
            if (folder / RELEASES).exists():
                raise ValueError(f"{folder}: has releases of a run that nothing names; {AGAIN}")
            salt = secrets.token_hex(16)
            run = {"format": FORMAT, "format_version": VERSION, "salt": salt, **named(salt)}
            text = json.dumps(run, indent=1).encode()
            write_whole(path, lambda part: part.write_bytes(text), mode=0o600, durable=True)
        run = _read_run(path)
        for name, words in named(run["salt"]).items():
            if run.get(name) != words:
                raise ValueError(
                    f"{folder}: the checkpoint is of a run with another {name}; a run goes on with "
                    "the same keys, recipe and table, and anything else is a run of its own"
                )
        self.run = json.dumps(run, sort_keys=True)
        self._path = folder / RELEASES
        self._releases, self._caps, whole = _read_releases(self._path)
        if self._path.exists() and whole < self._path.stat().st_size:
            os.truncate(self._path, whole)  # a line that was cut off

    def give_up(self) -> None:
        """Leave the folder to another run, if it had none before and nothing was released."""
        if not self.begun and not self._releases:
            (self.folder / RUN).unlink()
            self.given_up = True

    def get(self, part: str) -> Releases | None:
        """The release of "prologue", of "epilogue", or of a round by its number, if it was made."""
        return self._releases.get(part)

    def cap(self, part: str) -> np.float32:
        """The public bound on the weights of a round that was made."""
        return self._caps[part]

    def add(self, part: str, release: Mapping[str, np.ndarray], cap: float) -> None:
        """Put a release, and the public bound on the weights of its round, on the disk.

        Raises:
            ValueError: if the part was released before with other values.
            OSError: naming the file, if the disk does not take it.
        """
        known = self._releases.get(part)
        if known is not None:
            if not _same(known, release):
                raise ValueError(f"{self._path}: {_TWICE}")
            return
        content = {
            site: {
                "dtype": str(array.dtype),
                "shape": list(array.shape),
                "values": array.reshape(-1).tolist(),
            }
            for site, array in release.items()
        }
        body = json.dumps([part, content, cap])
        with naming(self._path), open(self._path, "ab", opener=_private) as file:
            file.write(f"{_digest(body)} {body}\n".encode())
            file.flush()
            os.fsync(file.fileno())
        self._releases[part] = {site: np.asarray(array) for site, array in release.items()}
        self._caps[part] = np.float32(cap)


_TWICE = "two releases of one round under one key, of different rows; publish neither"


def _same(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(one[site], np.asarray(other[site])) for site in one
    )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def _read_run(path: Path) -> dict[str, Any]:
    """What names a run; ValueError naming the file if it is damaged."""
    try:
        run = json.loads(path.read_bytes(), object_pairs_hook=without_twins)
        known = (run["format"], run["format_version"]) == (FORMAT, VERSION)
        names = ("salt", "key", "public key", "recipe", "table", "version of dpbt or jax")
        found = {name: str(run[name]) for name in names if known}
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"{path}: cut off or damaged; {AGAIN}") from None
    if not known:
        raise ValueError(f"{path}: no checkpoint that this dpbt reads; go on with the one it is of")
    return found


def _read_releases(path: Path) -> tuple[dict[str, Releases], dict[str, np.float32], int]:
    """The releases and the caps of a file, and how many bytes whole lines have.

    Raises:
        ValueError: naming the file, for a damaged line before the last one.
    """
    found: dict[str, Releases] = {}
    caps: dict[str, np.float32] = {}
    if not path.exists():
        return found, caps, 0
    whole = 0
    with open(path, "rb") as file:  # a line at a time, as the line of a deep tree is long
        for number, line in enumerate(iter(file.readline, b""), 1):
            if not line.endswith(b"\n"):
                break
            digest, _, body = line[:-1].decode("ascii", "replace").partition(" ")
            if digest != _digest(body):
                if not file.readline().endswith(b"\n"):
                    break
                body = ""  # which is no release
            try:
                part, content, cap = json.loads(body)
                caps[part] = np.float32(float(cap))
                release = {
                    site: np.array(entry["values"], entry["dtype"]).reshape(entry["shape"])
                    for site, entry in content.items()
                }
            except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError):
                words = f"the line was changed or damaged; {AGAIN}"
                raise ValueError(f"{path}, line {number}: {words}") from None
            if part in found and not _same(found[part], release):
                raise ValueError(f"{path}, line {number}: {_TWICE}")
            found[part] = release
            whole += len(line)
    return found, caps, whole
