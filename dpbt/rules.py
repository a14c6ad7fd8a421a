"""Models in words."""

import jax
import numpy as np

from dpbt import trees
from dpbt.base import UNSPLIT, Model, Tree
from dpbt.domains import Domain, Predicate, predicates


def explain(model: Model, domain: Domain) -> str:
    """The rules of each tree in words; a row's score is the sum of what its leaves add.

    Branches whose leaves are all equal are shown as one leaf.

    Args:
        model: from `fit`.
        domain: the domain that encoded the table it was fitted on.

    Raises:
        ValueError: if the model splits on something the domain does not have.
    """
    words = predicates(domain)
    largest = int(np.max(np.asarray(model.trees.split)))
    if largest >= len(words):
        raise ValueError(f"the model uses split {largest}, the domain has {len(words)} splits")
    blocks = []
    if model.recipe.learner.prologue is not None:
        blocks.append(f"start at {float(model.intercept):+.4f}")
    for t in range(int(model.recipe.rounds)):
        tree = jax.tree.map(lambda leaf, t=t: np.asarray(leaf[t]), model.trees)
        blocks.append("\n".join([f"tree {t + 1}", *_lines(tree, words, 0, 0, 0, "  ")]))
    return "\n".join(blocks)


def _lines(tree: Tree, words: list[Predicate], node: int, level: int, index: int, indent: str) -> list[str]:
    below = 2 ** (trees.depth(tree) - level)
    leaves = tree.leaf[index * below : (index + 1) * below]
    if np.all(leaves == leaves[0]):
        return [f"{indent}add {float(leaves[0]):+.4f}"]
    split = int(tree.split[node])
    left, right = (2 * node + 1, level + 1, 2 * index), (2 * node + 2, level + 1, 2 * index + 1)
    if split == UNSPLIT:
        return _lines(tree, words, *left, indent)
    deeper = indent + "  "
    return [
        f"{indent}if {words[split].yes}:",
        *_lines(tree, words, *right, deeper),
        f"{indent}else:",
        *_lines(tree, words, *left, deeper),
    ]
