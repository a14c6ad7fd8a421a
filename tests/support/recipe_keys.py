"""Keys that recipes derive, for comparing them."""

import jax

from dpbt.training import run_keys


def key_data_of_recipe(recipe):
    """The words of the key that a recipe derives from one fixed key."""
    key = run_keys.derive_recipe_key(jax.random.key(0), recipe)
    return tuple(jax.random.key_data(key).tolist())
