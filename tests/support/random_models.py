"""Models of random hypotheses, and a domain so small that every row can be listed."""

import itertools

import jax.numpy as jnp
import numpy as np

import dpbt
from dpbt import recipes
from dpbt.data import domains
from dpbt.data.column_types import response_of_target
from dpbt.data.domains import Boolean, Nominal, Numeric
from dpbt.learners.additive.model import ShapeFunctions
from dpbt.learners.forests.model import tree_group_without_padding
from dpbt.learners.halfspaces.model import Halfspace
from dpbt.learners.oblivious.model import ObliviousTree
from dpbt.public_types import Tree

DOMAIN = {
    "age": Numeric(0, 100, cuts=(20, 25.5, 60), missing=True),
    "job": Nominal(("clerk", "smith", "cook")),
    "rank": Nominal(("low", "mid", "top"), other="top", ordered=True),
    "member": Boolean("yes", "no", missing=True),
}
ROWS = 60
COMMON = {"epsilon": 5.0, "rows": ROWS, "rounds": 3}
RECIPE_MAKERS = {
    "bdpe": lambda: recipes.bdpe(**COMMON, depth=3, criterion="gini"),
    "oblivious": lambda: recipes.oblivious_boost(**COMMON, domain=DOMAIN, depth=3),
    "forest": lambda: recipes.random_forest(**COMMON, depth=4),
    "rules": lambda: recipes.lazybb_rules(**COMMON, density=0.5),
    "trees": lambda: recipes.lazybb_trees(**COMMON, density=0.5, depth=2, splits=2),
    "halfspace": lambda: recipes.halfspace_boost(**COMMON, delta=1e-4),
}
TREES = tuple(name for name in RECIPE_MAKERS if name != "halfspace")
VOTES = {"rules", "trees", "halfspace"}
"""Models whose scores define no probability."""

N_BINS = [column.n_bins for column in DOMAIN.values()]
EVERY_ROW = np.array(list(itertools.product(*map(range, N_BINS))), np.uint8)


def columns_with_odd_cells(seed):
    rng = np.random.default_rng(seed)
    return {
        "age": np.where(rng.random(ROWS) < 0.2, np.nan, rng.uniform(0, 100, ROWS)),
        "job": rng.choice(["clerk", "smith", "cook", "zebra"], ROWS),
        "rank": rng.choice(["low", "mid", "top"], ROWS),
        "member": rng.choice(["yes", "no", ""], ROWS),
    }


def random_model(recipe, depth, domain, exact=False):
    """A model of a recipe with random hypotheses; no row is read and no program compiled."""
    rng, rounds = np.random.default_rng(0), int(recipe.rounds)
    splits = domains.splits(domain)
    inner, leaves = 2**depth - 1, 2**depth
    axes = response_of_target(recipe.target).score_axes
    match recipe.learner.kind.name:
        case "trees":
            split = rng.integers(0, len(splits.feature), (rounds, inner), np.int32)
            hypotheses = Tree(split, rng.normal(0, 0.5, (rounds, leaves)))
        case "oblivious trees":
            orders = [rng.permutation(len(domain))[:depth] for _ in range(rounds)]
            feature = np.stack(orders).astype(np.int32)
            columns = list(domain.values())
            ends = np.array([[columns[index].n_bins for index in tree] for tree in feature])
            low, bin = rng.integers(1, ends)[..., None], np.arange(256)
            right = (low <= bin) & (bin < ends[..., None])
            leaf = rng.normal(0, 0.1, (rounds, *axes, leaves))
            smoothing = np.full(rounds, 0.1)
            hypotheses = ObliviousTree(feature, right, leaf, np.abs(leaf) / 9, smoothing)
        case "shapes":
            bins = max(column.n_bins for column in domain.values())
            score = rng.normal(0, 0.5, (1, *axes, len(domain) + 1, bins))
            parts = rng.integers(0, bins // 2, (1, 1, 2, 256), np.uint8)
            hypotheses = ShapeFunctions(score, rng.random(1), np.array([[[0, 2]]], np.int32), parts)
        case "tree_groups":
            attribute = rng.integers(0, len(splits.attribute), (rounds, 1, inner), np.int32)
            threshold = rng.random((rounds, 1, inner), np.float32)
            hypotheses = tree_group_without_padding(
                attribute, threshold, rng.random((rounds, 1, leaves))
            )
        case _:
            hypotheses = Halfspace(rng.normal(0, 1, (rounds, len(splits.attribute))))
    float32_arrays = (
        array.astype(np.float32) if array.dtype == float else array for array in hypotheses
    )
    hypotheses = type(hypotheses)(*map(jnp.asarray, float32_arrays))
    start = jnp.asarray(rng.random(axes, np.float32) * (recipe.target is not None), jnp.float32)
    reads = (None, len(splits.attribute), "float32") if exact else (splits, len(domain), "uint8")
    return dpbt.Model(hypotheses, start, None, recipe, *reads, key_purpose="release")


DEPTHS = {"bdpe": 3, "oblivious": 3, "forest": 4, "rules": 1, "trees": 2, "halfspace": 0}


class Models(dict):
    """Models by name, each made when it is first used."""

    def __missing__(self, name):
        self[name] = random_model(RECIPE_MAKERS[name](), DEPTHS[name], DOMAIN)
        return self[name]


MODELS = Models()
"""The models that any test of this process has used."""


class SavedModels(dict):
    """Models by name, each saved to a file and read from it."""

    def __init__(self, folder):
        self.folder = folder

    def __missing__(self, name):
        dpbt.save(MODELS[name], self.path(name), domain=DOMAIN)
        self[name] = dpbt.load(self.path(name))
        return self[name]

    def path(self, name):
        return self.folder / f"{name}.json"
