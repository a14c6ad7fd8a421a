"""The keys of a run: of its noise and of its public structure, phase by phase."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.privacy import keys
from dpbt.training.own_code import recipe_identity_texts
from dpbt.training.phases import PhaseValues
from dpbt.types import Array, Recipe


def derive_recipe_key(key: Array, recipe: Recipe) -> Array:
    """The key of a recipe's noise: a function of the key, of every budget number and of the parts.

    So one key gives independent noise to two recipes that differ in any scale, share, learner or
    declared target. If they shared their noise at two scales, their two releases would reveal the
    private statistic. `rounds` and `max_rounds` are left out, because the first T rounds do not
    depend on how many follow. A step that is a schedule has a number for each round, though, and
    these numbers are in the key. The epilogue does depend on the number of rounds, so `phase_keys`
    folds that number into its key.

    Args:
        key: a typed key.
        recipe: one setting; its budget may be traced.
    """
    target = [] if recipe.target is None else [repr(recipe.target)]
    texts = [*recipe_identity_texts(recipe), *target, *_layout_texts(recipe)]
    numbers = jax.tree.leaves((recipe.params, recipe.weight_params, recipe.rows))
    leaves = [jnp.asarray(leaf).reshape(-1) for leaf in numbers]
    for leaf in leaves:
        if leaf.dtype not in (jnp.float32, jnp.int32, jnp.uint32):
            raise ValueError(f"a budget holds numbers of 32 bits, got {leaf.dtype}")
    bits = [
        jax.lax.bitcast_convert_type(jnp.concatenate([*group]), jnp.uint32)
        for _, group in itertools.groupby(leaves, lambda leaf: leaf.dtype)
    ]
    return keys.fold_in_words(key, jnp.concatenate(bits), " | ".join(texts))


def _layout_texts(recipe: Recipe) -> list[str]:
    """Texts that tell recipes apart where their numbers and tags are equal; often empty.

    Such are names of noise other than those that the learner declares, as `fractions` may have
    them. In classes of an author they are the fields that are None, have an axis or are no float32.
    """
    texts, names = [], sorted(getattr(recipe.params, "noise", ()))
    declared = sorted(dict(recipe.learner.fractions))
    if names != declared and recipe.calibration != "published":  # a paper has its own numbers
        texts.append(f"noise of {names}")
    if any(" | " in identity for identity in recipe.component_identities):
        texts.append(f"tags of lengths {[*map(len, recipe.component_identities)]}")
    prologue, epilogue = recipe.learner.prologue, recipe.learner.epilogue
    if prologue is None and epilogue is not None and not _is_class_of_library(epilogue.program):
        texts.append("an epilogue alone")  # a prologue might have its tag
    for numbers in (recipe.params, recipe.weight_params):
        if _is_class_of_library(type(numbers)):
            continue
        leaves, _ = jax.tree_util.tree_flatten_with_path(
            numbers, is_leaf=lambda field: field is None
        )
        for path, leaf in leaves:
            array = None if leaf is None else jnp.asarray(leaf)
            if array is None or array.shape or array.dtype != jnp.float32:
                kind = None if array is None else f"{array.dtype}{list(array.shape)}"
                texts.append(f"{jax.tree_util.keystr(path)} is {kind}")
    return texts


def _is_class_of_library(member: Any) -> bool:
    """Whether a class or a function is one of dpbt or of Python, and no author's."""
    return getattr(member, "__module__", "").split(".")[0] in ("dpbt", "builtins")


_PROLOGUE, _EPILOGUE = np.uint32(2**32 - 1), np.uint32(2**32 - 2)
"""The numbers that are folded into the keys of a prologue and an epilogue; rounds have others."""


def phase_keys(key: Array | None, recipe: Recipe) -> PhaseValues:
    """The keys of all phases of a run; all are None for no key.

    The keys of the first T rounds do not depend on `max_rounds`.

    Args:
        key: of the noise (`derive_recipe_key`), or of the public structure: the public key.
        recipe: of the run, without an axis of settings.
    """
    if key is None:
        return PhaseValues(None, None, None)
    numbers = np.arange(recipe.max_rounds, dtype=np.uint32)
    all_numbers = jnp.asarray(np.concatenate([numbers, [_PROLOGUE, _EPILOGUE]]))
    children = jax.vmap(lambda number: jax.random.fold_in(key, number))(all_numbers)
    epilogue = jax.random.fold_in(children[-1], jnp.asarray(recipe.rounds).astype(jnp.uint32))
    return PhaseValues(children[-2], children[: recipe.max_rounds], epilogue)
