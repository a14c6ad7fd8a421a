"""Learning from a folder of chunks, for `fit`."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbt.commands import inputs
from dpbt.commands import options as kinds
from dpbt.commands.errors import InputError, of_input
from dpbt.data.domains import Domain, Label
from dpbt.storage import write_whole

if TYPE_CHECKING:
    from dpbt.base import Array, Model, Recipe
    from dpbt.chunked import Progress
    from dpbt.purse import Purse

KEY = "key.json"
"""The file of a checkpoint that holds the key until the model is written."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of a folder of chunks."""
    words = "of a folder of chunks: a folder that keeps what was released so far; run the same "
    words += "command again to go on after a stop. It holds the key until the model is written"
    parser.add_argument("--checkpoint", metavar="FOLDER", help=words)
    words = "of a folder of chunks: how much memory the process may take (4096)"
    parser.add_argument("--memory-mb", type=kinds.whole(1), metavar="N", help=words)


def is_chunked(options: argparse.Namespace) -> bool:
    """Whether the rows are in a folder of chunks.

    Raises:
        InputError: for another folder, and for options that go with chunks alone.
    """
    if Path(options.file).is_dir():
        if options.owner_report:
            raise InputError("--owner-report reads a file of rows, and not a folder of chunks")
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
    purse: "Purse | None",
) -> "Model":
    """Learn from the folder; a purse pays once, also if the run was stopped and goes on.

    Raises:
        InputError: for a folder that is not of the domain, and for what a fit refuses.
    """
    import jax

    from dpbt import chunked
    from dpbt.data import chunks
    from dpbt.privacy import keys

    with of_input():
        table = chunks.open_folder(options.file)
        if dict(table.domain) != dict(domain) or list(table.domain) != list(domain):
            raise InputError(f"{options.file}: converted with another domain than {options.domain}")
        if table.target != label.target or (
            label.target is None and table.classes != label.classes
        ):
            raise InputError(f"{options.file}: converted with another label than {options.domain}")
        if table.capacity > options.rows:
            raise InputError(
                f"{options.file}: has room for {table.capacity} rows, more than --rows "
                f"{options.rows}, the stated bound on their number"
            )
    kept, paid = _kept_key(options)
    if kept is not None:
        key = kept
    elif options.seed is None:
        key = keys.fresh_key()
    else:
        key, _ = keys.pair(jax.random.key(options.seed))
    with of_input():
        chunked.check(key, table, recipe)
        if purse is not None and not paid:
            purse.take(recipe, key)
    if options.checkpoint is not None and options.seed is None:
        _keep_key(options, key, paid or purse is not None)
    if options.seed is not None:
        words = "--seed makes the noise, and whoever knows it can subtract it; release private rows"
        print(f"warning: research key: {words} without it", file=sys.stderr)

    memory = 4096 if options.memory_mb is None else options.memory_mb
    shown = sys.stderr.isatty()

    def progress(state: "Progress") -> None:
        if shown:
            words = f"\r\033[K{state.stage}: {state.done} of {state.all}"
            print(words, end="", file=sys.stderr, flush=True)

    try:
        with of_input():
            return chunked.learn(
                key,
                table,
                recipe,
                memory=memory * 2**20,
                checkpoint=options.checkpoint,
                progress=progress,
            )
    finally:
        if shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def is_paid(options: argparse.Namespace) -> bool:
    """Whether a purse paid for the run that the checkpoint goes on with."""
    return _kept_key(options)[1]


def forget(options: argparse.Namespace) -> None:
    """Delete the key of a checkpoint, once the model is written."""
    if options.checkpoint is not None:
        (Path(options.checkpoint) / KEY).unlink(missing_ok=True)


def _kept_key(options: argparse.Namespace) -> "tuple[Array | None, bool]":
    """(the key of a run that was stopped, whether a purse paid for it)."""
    if options.checkpoint is None or options.seed is not None:
        return None, False
    path = Path(options.checkpoint) / KEY
    if not path.exists():
        return None, False
    import jax
    import jax.numpy as jnp
    import numpy as np

    from dpbt.privacy.keys import CHACHA20

    try:
        content: Any = json.loads(path.read_bytes())
        words = np.array(content["words"], np.uint32)
        if words.shape != (8,):
            raise ValueError
        return jax.random.wrap_key_data(jnp.asarray(words), impl=CHACHA20), bool(content["paid"])
    except (ValueError, KeyError, TypeError, OverflowError):
        raise InputError(f"{path}: no key of a run that was stopped") from None


def _keep_key(options: argparse.Namespace, key: "Array", paid: bool) -> None:
    """Write the key where a later run finds it; only the owner may read it."""
    import jax
    import numpy as np

    folder = Path(options.checkpoint)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    content = {"words": np.asarray(jax.random.key_data(key)).tolist(), "paid": paid}
    text = json.dumps(content).encode()
    write_whole(folder / KEY, lambda part: part.write_bytes(text), mode=0o600, durable=True)
