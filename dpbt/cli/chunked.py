"""Learning from a folder of chunks, for `fit`."""

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dpbt import storage
from dpbt.cli import inputs
from dpbt.cli import options as kinds
from dpbt.cli.errors import InputError, of_input
from dpbt.data.domains import Domain, Label
from dpbt.release.scoring import BLOCK_ROWS
from dpbt.storage import write_whole

if TYPE_CHECKING:
    from dpbt.base import Array, Recipe
    from dpbt.data.blocks import BlockTable
    from dpbt.privacy.filter import Filter
    from dpbt.release.model import Model
    from dpbt.training.blocks import Progress
    from dpbt.training.checkpoint import Checkpoint


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of a folder of chunks."""
    words = "of a folder of chunks: a folder that keeps what was released so far; run the same "
    words += "command again to go on after a stop. FOLDER.key beside it holds the keys until the "
    words += "model is written"
    parser.add_argument("--checkpoint", metavar="FOLDER", help=words)
    words = "of a folder of chunks: how much memory the process may take (4096)"
    parser.add_argument("--memory-mb", type=kinds.whole(1), metavar="N", help=words)


def is_chunked(options: argparse.Namespace) -> bool:
    """Whether the rows are in a folder of chunks.

    Raises:
        InputError: for another folder, and for options that go with chunks alone.
    """
    if Path(options.file).is_dir():
        if options.recipe == inputs.TUNED:
            raise InputError(f"--recipe {inputs.TUNED} learns from no chunks; auto does")
        return True
    for name in ("checkpoint", "memory_mb"):
        if getattr(options, name) is not None:
            words = name.replace("_", "-")
            raise InputError(f"--{words} needs a folder of chunks, which `convert` writes")
    return False


def model_of(
    options: argparse.Namespace,
    domain: Domain,
    label: Label,
    recipe: "Recipe",
    budget: "Filter | None",
) -> "Model":
    """Learn from the folder; a filter pays once, also if the run was stopped and goes on.

    Raises:
        InputError: for a folder that is not of the domain, and for what a fit refuses.
    """
    import jax

    from dpbt.privacy import keys
    from dpbt.training import blocks as in_blocks

    with of_input():
        table = inputs.opened(options.file, domain, label)
        if table.capacity > options.rows:
            raise InputError(
                f"{options.file}: has room for {table.capacity} rows, more than --rows "
                f"{options.rows}, the stated bound on their number"
            )
    with of_input():
        known, public_key = keys.pair(jax.random.key(0))  # before a key is made
        in_blocks.Run(known, table, recipe, public_key, _memory(options))
    with contextlib.ExitStack() as stack:
        kept = None
        if options.checkpoint is None:
            pair = _new_pair(options)
            with of_input():
                noise = _noise_key(pair, table)
        else:
            folder = Path(options.checkpoint)
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with of_input():
                stack.enter_context(storage.held(folder))
                begun = _has_run(folder)
                pair = _kept_pair(options, recipe, table, begun)
                noise = _noise_key(pair, table)
                run = in_blocks.Run(noise, table, recipe, pair.public_key, _memory(options))
                kept = run.checkpoint(folder)
                if options.seed is None:
                    _mark_begun(_key_path(options))

        if options.seed is not None:
            words = "--seed makes the noise, and whoever knows it can subtract it; release private"
            print(f"warning: research key: {words} rows without it", file=sys.stderr)
        try:
            pay = None if budget is None else budget.paying(recipe, pair.key)
            return _learned(options, noise, table, recipe, pair.public_key, kept, pay)
        except InputError:
            if kept is not None and kept.given_up:
                forget(options)  # of a refused payment, whose folder is left to another run
            raise


def _learned(
    options: argparse.Namespace,
    key: "Array",
    table: "BlockTable",
    recipe: "Recipe",
    public_key: "Array",
    kept: "Checkpoint | None",
    pay: Callable[[str | None], None] | None,
) -> "Model":
    """Learn, and show how far it is on a terminal.

    Raises:
        InputError: for what a fit refuses, and for what the filter cannot pay.
    """
    from dpbt.training import fit

    shown = sys.stderr.isatty()

    def progress(state: "Progress") -> None:
        if shown:
            words = f"\r\033[K{state.stage}: {state.done} of {state.all}"
            print(words, end="", file=sys.stderr, flush=True)

    try:
        with of_input():
            return fit.learn(
                key,
                table,
                recipe,
                public_key,
                memory=_memory(options),
                checkpoint=kept,
                progress=progress,
                pay=pay,
            )
    finally:
        if shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _noise_key(pair: "Pair", table: "BlockTable") -> "Array":
    """The key of the noise, which follows from the rows too."""
    from dpbt.privacy import keys

    blocks = (block._replace(cells=block.cells.T) for block in table.pieces(BLOCK_ROWS))
    return keys.noise_key(pair.key, blocks)


def _memory(options: argparse.Namespace) -> int:
    """How many bytes the process may take."""
    return (4096 if options.memory_mb is None else options.memory_mb) * 2**20


def goes_on(options: argparse.Namespace) -> bool:
    """Whether the checkpoint has a run that was stopped, which a filter may have paid for."""
    if options.checkpoint is None:
        return False
    return _has_run(Path(options.checkpoint)) or _key_path(options).exists()


def _has_run(folder: Path) -> bool:
    """Whether a checkpoint names a run, or has releases of one."""
    from dpbt.training.checkpoint import RELEASES, RUN

    return any((folder / name).exists() for name in (RUN, RELEASES))


def forget(options: argparse.Namespace) -> None:
    """Delete the key of a checkpoint, once the model is written, and what a kill left of it.

    A run of a seed has no such key, and one that is there is of another run.
    """
    if options.checkpoint is not None and options.seed is None:
        path = _key_path(options)
        path.unlink(missing_ok=True)
        storage.remove_left(path)


def left_words(options: argparse.Namespace) -> str:
    """What `--force` does besides, if the key of a run that was stopped is still there."""
    seeded = options.seed is not None
    if options.checkpoint is None or seeded or not _key_path(options).exists():
        return ""
    return f", goes on with the run that was stopped, and deletes its key, {_key_path(options)}"


def _key_path(options: argparse.Namespace) -> Path:
    """The file of the key: beside the checkpoint, which may be published, and never in it.

    Raises:
        InputError: for the root of the file system.
    """
    folder = Path(options.checkpoint).resolve()
    if not folder.name:
        raise InputError(f"{options.checkpoint}: no folder beside which a key could be")
    return folder.with_name(f"{folder.name}.key")


_FORMAT, _VERSION = "dpbt keys of a run", 1


class Pair(NamedTuple):
    """The keys of a run.

    Attributes:
        key: of its noise, a secret.
        public_key: of its public structure; no secret.
    """

    key: "Array"
    public_key: "Array"


def _new_pair(options: argparse.Namespace) -> Pair:
    from dpbt.privacy import keys

    return Pair(*keys.noise_and_public(options.seed))


def _run_of(pair: Pair, recipe: "Recipe", table: "BlockTable") -> str:
    """A hash under the key that names the public key, the recipe and the table of a run."""
    from dpbt.training.checkpoint import public_words, recipe_words, under_key

    public = public_words(pair.public_key, "")
    return under_key(pair.key, public, recipe_words(recipe), table.identity)


def _kept_pair(
    options: argparse.Namespace, recipe: "Recipe", table: "BlockTable", begun: bool
) -> Pair:
    """The keys of a run that was stopped, or new ones, which are kept for a later run.

    They are kept with a hash, under the key, of the public key, the recipe and the table, so that
    the key makes noise for nothing else. The file says whether its folder was begun, and then makes
    noise for no other folder.

    Raises:
        InputError: for a run without its key, and for a key that is of another run, that is
            damaged, that others may read or have written, or whose folder is gone.
    """
    path = _key_path(options)
    if options.seed is not None:
        return _new_pair(options)
    if path.exists() or path.is_symlink():
        pair, run, marked = _read_pair(path)
        if run != _run_of(pair, recipe, table):
            raise InputError(
                f"{path}: the key of a run with another recipe or table; give the same ones, or "
                "another --checkpoint"
            )
        if marked and not begun:
            raise InputError(
                f"{path}: the key of a run whose folder {options.checkpoint} is gone or empty; "
                "bring it back, or give another --checkpoint, for a run of its own, which a filter "
                "pays for"
            )
        return pair
    if begun:
        raise InputError(
            f"{options.checkpoint}: a run that is finished, or whose key is gone; give another "
            "--checkpoint"
        )

    pair = _new_pair(options)
    _write_pair(path, pair, _run_of(pair, recipe, table), begun=False)
    return pair


def _write_pair(path: Path, pair: Pair, run: str, begun: bool) -> None:
    """Write the file of the keys of a run, and put it on the disk."""
    import jax
    import numpy as np

    words, public = (np.asarray(jax.random.key_data(key)).tolist() for key in pair)
    content = {
        "format": _FORMAT,
        "format_version": _VERSION,
        "words": words,
        "public_words": public,
        "run": run,
        "begun": begun,
    }
    text = json.dumps(content).encode()
    write_whole(path, lambda part: part.write_bytes(text), mode=0o600, durable=True)


def _mark_begun(path: Path) -> None:
    """Note in the file of a key that its folder was begun, before anything is released."""
    pair, run, begun = _read_pair(path)
    if not begun:
        _write_pair(path, pair, run, begun=True)


def _read_pair(path: Path) -> tuple[Pair, str, bool]:
    """The keys of a file that only its owner may read or write, what for, and if it was begun.

    Raises:
        InputError: for any other file.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    with open(handle, "rb") as file:
        found = os.fstat(handle)
        if os.name == "posix" and (found.st_uid != os.geteuid() or found.st_mode & 0o077):
            raise InputError(f"{path}: a key that others may read, or that is not yours")
        text = file.read()
    try:
        content: Any = json.loads(text)
        known = (content["format"], content["format_version"]) == (_FORMAT, _VERSION)
        kept = _pair_of(content) if known else None
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise InputError(
            f"{path}: no key, or cut off, and its run cannot go on without it; give another "
            "--checkpoint, for a run of its own, which a filter pays for"
        ) from None
    if kept is None:
        raise InputError(
            f"{path}: no key that this dpbt reads; go on with the dpbt that the run began with"
        )
    return kept


def _pair_of(content: dict[str, Any]) -> tuple[Pair, str, bool]:
    """What `_write_pair` wrote; any error of its types for other content."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from dpbt.privacy.keys import CHACHA20

    words = np.array([content["words"], content["public_words"]], np.uint32)
    if words.shape != (2, 8):
        raise ValueError
    found = jax.random.wrap_key_data(jnp.asarray(words), impl=CHACHA20)
    return Pair(found[0], found[1]), str(content["run"]), bool(content["begun"])
