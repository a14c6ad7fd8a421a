"""Count the levels of `auto` whose split is answered by those above.

The splits follow from a public seed and a public domain, so no row is read. Thresholds are those
of a table whose histograms are not released, which are spread evenly over the cells.
"""

import argparse
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.common.types import ADD_REMOVE, MAX_BINS
from dpbt.data.domains import Domain
from dpbt.learners import oblivious_splits
from dpbt.privacy import mechanisms
from dpbt.recipes.oblivious import attributes_of, rule
from experiments.common.data import registry
from experiments.comparisons.study import BINS
from experiments.comparisons.task import FRONTIER

DEPTH, TREES = 6, 1024


class Wasted(NamedTuple):
    """What trees ask for nothing.

    Attributes:
        trees: the share of trees with at least one wasted level.
        levels: the share of levels that are wasted. Their answer follows from earlier levels for
            every row, as where one split is asked twice.
        leaves: the share of leaves that no row reaches, as where x > 5 is asked after x > 7.
    """

    trees: float
    levels: float
    leaves: float


def wasted(domain: Domain, trees: int = TREES, seed: int = 0, depth: int = DEPTH) -> Wasted:
    """What the first trees of `auto` ask for nothing."""
    attributes = attributes_of(domain)
    cells = np.array([attribute.n_bins for attribute in attributes])
    mass = (np.arange(MAX_BINS) < cells[:, None]) / cells[:, None]

    attributes_per_tree = rule(np.inf, 1, len(domain)).attributes_per_tree
    more = False, False, 0.0, ADD_REMOVE, mechanisms.discrete_laplace
    config = oblivious_splits.Config(attributes, depth, attributes_per_tree, *more)

    @jax.jit
    def asked(tree: jax.Array) -> oblivious_splits.ObliviousTree:
        even = jnp.asarray(mass[:, : config.known.shape[1]], jnp.float32)
        return oblivious_splits.draw(config, jnp.uint32(seed), tree, even)[0]

    drawn = [asked(jnp.int32(tree)) for tree in range(trees)]
    found = [of_tree(np.asarray(each.feature), np.asarray(each.right), cells) for each in drawn]
    levels = np.array([level for level, _ in found])
    leaves = np.mean([reached for _, reached in found]) / 2**depth
    return Wasted(float(np.mean(levels > 0)), float(np.mean(levels) / depth), 1 - float(leaves))


def of_tree(feature: np.ndarray, right: np.ndarray, cells: np.ndarray) -> tuple[int, int]:
    """(how many levels of a tree are wasted, how many of its leaves a row can reach).

    Args:
        feature: i32[D], what each level asks about.
        right: bool[D, C], the cells that go right.
        cells: i64[F], how many cells each feature has.
    """
    levels, leaves = 0, 1
    for asked in np.unique(feature):
        answers = right[feature == asked, : cells[asked]]
        told = [len(np.unique(answers[:count], axis=1).T) for count in range(1, len(answers) + 1)]
        levels += sum(now == before for now, before in zip(told, [1, *told], strict=False))
        leaves *= told[-1]
    return levels, leaves


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--dataset", nargs="+", default=FRONTIER.usual["dataset"], help="of the registry"
    )
    parser.add_argument("--bins", type=int, default=BINS, help="intervals of every number")


def run(options: argparse.Namespace) -> None:
    """Print a table, a line for each data set."""
    print("| data set | columns | trees | levels | leaves |\n|---|---|---|---|---|")
    for name in options.dataset:
        domain = registry.entry(name).domain(options.bins)
        shares = " | ".join(f"{100 * share:.1f} %" for share in wasted(domain))
        print(f"| {name} | {len(domain)} | {shares} |", flush=True)
