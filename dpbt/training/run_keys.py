"""The keys of a run: of its noise and of its public structure, phase by phase."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.privacy import keys
from dpbt.training.author_code import recipe_identity_texts
from dpbt.training.phases import PhaseValues
from dpbt.types import Array, Recipe


def derive_recipe_key(key: Array, recipe: Recipe) -> Array:
    """Derive the key of a recipe's noise from a key and from all that identifies the recipe.

    That is every number of it and its identity. So one key gives independent noise to two recipes
    that differ in any scale, share, learner or declared target. If they shared their noise at two
    scales, their two releases would reveal the private statistic. `rounds` and `max_rounds` are
    left out, because the first T rounds do not depend on how many follow. A step that is a schedule
    has a number for each round, though, and these numbers are in the key. The epilogue does depend
    on the number of rounds, so `derive_phase_keys` folds that number into its key.

    Args:
        key: a typed key.
        recipe: one setting; its budget may be traced.
    """
    target = [] if recipe.target is None else [repr(recipe.target)]
    texts = [*recipe_identity_texts(recipe), *target, *_disambiguating_texts(recipe)]
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


def _disambiguating_texts(recipe: Recipe) -> list[str]:
    """Texts that tell recipes apart where their numbers and identities are equal.

    Most recipes have none.
    """
    return [
        *_undeclared_noise_texts(recipe),
        *_identity_length_texts(recipe),
        *_lone_epilogue_texts(recipe),
        *_field_type_texts(recipe.params),
        *_field_type_texts(recipe.weight_params),
    ]


def _undeclared_noise_texts(recipe: Recipe) -> list[str]:
    """A text with the names of the noise, if they are not those that the learner declares.

    Under other names, which the argument `fractions` may give, equal multipliers would be of other
    draws. A published calibration has its own names.
    """
    names = sorted(getattr(recipe.params, "noise", ()))
    declared = sorted(dict(recipe.learner.fractions))
    if names == declared or recipe.calibration == "published":
        return []
    return [f"noise of {names}"]


def _identity_length_texts(recipe: Recipe) -> list[str]:
    """A text with the lengths of the identities, if one holds the separator that joins them."""
    if not any(" | " in identity for identity in recipe.component_identities):
        return []
    return [f"tags of lengths {[*map(len, recipe.component_identities)]}"]


def _lone_epilogue_texts(recipe: Recipe) -> list[str]:
    """A mark of an author's epilogue without a prologue, as a prologue may have its identity."""
    prologue = recipe.learner.prologue
    epilogue = recipe.learner.epilogue
    if prologue is not None or epilogue is None or _is_defined_in_dpbt_or_python(epilogue.program):
        return []
    return ["an epilogue alone"]


def _field_type_texts(params: Any) -> list[str]:
    """Texts for an author's fields of numbers that are None, not scalar, or not float32.

    Such fields leave no number, or the same bits as numbers of another type or shape.
    """
    if _is_defined_in_dpbt_or_python(type(params)):
        return []
    leaves, _ = jax.tree_util.tree_flatten_with_path(params, is_leaf=lambda field: field is None)
    texts = []
    for path, leaf in leaves:
        array = None if leaf is None else jnp.asarray(leaf)
        if array is None or array.shape or array.dtype != jnp.float32:
            field_type = None if array is None else f"{array.dtype}{list(array.shape)}"
            texts.append(f"{jax.tree_util.keystr(path)} is {field_type}")
    return texts


def _is_defined_in_dpbt_or_python(member: Any) -> bool:
    """Whether a class or a function is defined in dpbt or built into Python."""
    return getattr(member, "__module__", "").split(".")[0] in ("dpbt", "builtins")


_PROLOGUE = np.uint32(2**32 - 1)
"""The number that is folded into the key of a prologue; rounds have others."""

_EPILOGUE = np.uint32(2**32 - 2)
"""The number that is folded into the key of an epilogue; rounds have others."""


def derive_phase_keys(key: Array | None, recipe: Recipe) -> PhaseValues:
    """Derive a key for each phase and each round of a run from one key.

    For no key all of them are None. The keys of the first T rounds do not depend on `max_rounds`.

    Args:
        key: of the noise (`derive_recipe_key`), or of the public structure: the public key.
        recipe: of the run, without an axis of settings.
    """
    if key is None:
        return PhaseValues(prologue=None, rounds=None, epilogue=None)
    round_indices = np.arange(recipe.max_rounds, dtype=np.uint32)
    folded_numbers = jnp.asarray(np.concatenate([round_indices, [_PROLOGUE, _EPILOGUE]]))
    children = jax.vmap(lambda number: jax.random.fold_in(key, number))(folded_numbers)
    epilogue = jax.random.fold_in(children[-1], jnp.asarray(recipe.rounds).astype(jnp.uint32))
    return PhaseValues(
        prologue=children[-2], rounds=children[: recipe.max_rounds], epilogue=epilogue
    )
