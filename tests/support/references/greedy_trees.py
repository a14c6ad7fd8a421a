"""Boosted trees as a plain loop over rows, nodes and splits, in float64.

It is written from the paper and not from dpbt. Its caller passes the noise that the library draws,
as `noise(round, site, shape, scale)`, so both must choose the same splits.
"""

import math
from typing import NamedTuple

import numpy as np

GRID = 127
FLOOR = 32.0


class PlainTree(NamedTuple):
    """A tree of one round.

    Attributes:
        heap: the split of each inner node, in heap order.
        leaves: the value of each leaf.
    """

    heap: list[int]
    leaves: list[float]


def perspective(name, alpha, w1, w0):
    total = w1 + w0
    if total == 0:
        return 0.0
    u = w1 / total
    if name == "m_alpha":
        return total * (alpha * 2 * math.sqrt(u * (1 - u)) + (1 - alpha) * 2 * min(u, 1 - u))
    if name == "square":
        return total * 4 * u * (1 - u)
    if name == "log":
        return total * -sum(p * math.log2(p) for p in (u, 1 - u) if p > 0)
    raise ValueError(name)


def link(name, alpha, u):
    if name == "m_alpha":
        flat = 0.0 if u == 0.5 else math.copysign(2 * (1 - alpha), u - 0.5)
        return alpha * (2 * u - 1) / math.sqrt(u * (1 - u)) + flat
    return 8 * u - 4 if name == "square" else math.log2(u / (1 - u))


def inverse_link(name, alpha, z):
    if name == "m_alpha":
        excess = max(abs(z) / 2 - (1 - alpha), 0.0)
        return (
            0.5 if excess == 0 else 0.5 * (1 + math.copysign(excess / math.hypot(alpha, excess), z))
        )
    return min(max((z + 4) / 8, 0.0), 1.0) if name == "square" else 1 / (1 + 2.0**-z)


def grid_level(weight, unit):
    return min(max(round(weight / unit * GRID), 1), GRID)


def leaf_shares(counts, prior):
    """Shares of class 1, each shrunk towards its parent's, from the root (1/2) down."""
    depth = int(math.log2(len(counts)))
    shares = []
    for leaf in range(len(counts)):
        share = 0.5
        for level in range(depth + 1):
            width = 2 ** (depth - level)
            first = (leaf // width) * width
            c0 = sum(counts[i][0] for i in range(first, first + width))
            c1 = sum(counts[i][1] for i in range(first, first + width))
            share = (c1 + prior * share) / (c0 + c1 + prior)
        shares.append(share)
    return shares


def boost(splits, label, present, settings, noise):
    """The trees of all rounds, for a dictionary of plain settings."""
    rows = [i for i in range(len(label)) if present[i]]
    score, bound = [0.0] * len(label), 0.0
    ensemble = []
    for t in range(settings["rounds"]):

        def noise_of_round(site, shape, scale, t=t):
            return noise(t, site, shape, scale)

        unit = weight_unit(bound, settings)
        level_of = grid_levels(label, rows, score, unit=unit, settings=settings)
        heap, members = grow_splits(
            splits, label, rows=rows, level_of=level_of, settings=settings, noise=noise_of_round
        )
        counts = np.array([class_levels(node, label, level_of) for node in members], np.int64)
        leaves = leaf_values(
            counts, unit=unit, num_rows=len(rows), settings=settings, noise=noise_of_round
        )
        ensemble.append(PlainTree(heap, leaves))
        for i in range(len(label)):
            score[i] += leaves[leaf_of_row(heap, splits[i], settings["depth"])]
        bound += max(abs(value) for value in leaves)
    return ensemble


def leaf_of_row(heap, row, depth):
    node = 0
    for _ in range(depth):
        went_right = heap[node] >= 0 and bool(row[heap[node]])
        node = 2 * node + (2 if went_right else 1)
    return node - (2**depth - 1)


def weight_unit(bound, settings):
    """The largest weight of a row whose score is within a bound; 1 as published."""
    if not settings["tight"]:
        return 1.0
    return inverse_link(settings["loss"], settings["link_alpha"], bound)


def grid_levels(label, rows, score, *, unit, settings):
    """The weight of each row in grid units, by the row's index."""
    name, link_alpha = settings["loss"], settings["link_alpha"]
    level_of = {}
    for i in rows:
        weight = inverse_link(name, link_alpha, -score[i] if label[i] else score[i])
        level_of[i] = grid_level(weight, unit)
    return level_of


class GrownSplits(NamedTuple):
    """The splits of a tree, and the rows in each of its leaves.

    Attributes:
        heap: the split of each inner node, in heap order.
        members: the indices of the rows in each leaf.
    """

    heap: list[int]
    members: list[list[int]]


def grow_splits(splits, label, *, rows, level_of, settings, noise):
    """The splits that noisy selections choose, level by level."""
    members, heap, errors, alpha = [list(rows)], [], [], 1.0
    for level in range(settings["depth"]):
        errors.append(sum(min(class_levels(node, label, level_of)) for node in members))
        if settings["tight"] and settings["alpha"] == "objective" and settings["depth"] > 1:
            errors[-1] += int(noise(f"error_{level}", (), settings["error_scale"]))
        alpha = alpha_of_level(level, errors=errors, alpha_above=alpha, settings=settings)
        rate = settings["split_epsilon"][level] / split_sensitivity(alpha, settings)
        across, within = noise(f"split_{level}", (len(members), splits.shape[1]), None)
        children = []
        for k, node in enumerate(members):
            scores = [
                rate
                * split_score(
                    splits[:, s],
                    label,
                    node=node,
                    level_of=level_of,
                    alpha=alpha,
                    name=settings["loss"],
                )
                for s in range(splits.shape[1])
            ]
            best = select_candidate(scores, across[k], within[k])
            heap.append(best)
            children += [
                [i for i in node if not splits[i, best]],
                [i for i in node if splits[i, best]],
            ]
        members = children
    return GrownSplits(heap, members)


def alpha_of_level(level, errors, alpha_above, settings):
    """The alpha of a level from the errors of the levels so far and the alpha of the one above."""
    if settings["alpha"] != "objective":
        return settings["alpha"]
    if level == 0:
        return 1.0
    ratio = errors[-1] / max(errors[0], 1)
    return min(alpha_above, min(max(ratio, 0.0), 1.0)) if settings["tight"] else ratio


def split_sensitivity(alpha, settings):
    sensitivity = perspective(settings["loss"], alpha, 1.0, float(settings["rows"]))
    if settings["tight"]:
        return sensitivity + settings["rows"] / 2**18
    return 2 * max(3.0, 1 + sensitivity)


def split_score(satisfied, label, *, node, level_of, alpha, name):
    """Minus the criterion of the two sides of a split."""
    sides = [[i for i in node if bool(satisfied[i]) == side] for side in (False, True)]
    return -sum(
        perspective(name, alpha, w1 / GRID, w0 / GRID)
        for w0, w1 in (class_levels(side, label, level_of) for side in sides)
    )


def leaf_values(counts, *, unit, num_rows, settings, noise):
    """The values of the leaves from the class weights in them, times the step of the round."""
    tight = settings["tight"]
    prior = 1e-6
    if tight:
        counts = counts + noise("leaf", counts.shape, settings["leaf_scale"])
        prior = max(settings["smoothing"] * settings["leaf_scale"] * unit / GRID, prior)
    in_rows = counts * (unit / GRID)
    values = []
    for share in leaf_shares(np.maximum(in_rows, 0), prior):
        clipped_share = min(max(share, settings["zeta"]), 1 - settings["zeta"])
        value = link(settings["loss"], settings["link_alpha"], clipped_share)
        values.append(min(max(value, -settings["clip"]), settings["clip"]))
    edge = sum((c1 - c0) * value for (c0, c1), value in zip(in_rows, values, strict=True))
    bound = max(settings["step_clip"], *map(abs, values))
    step = settings["step"] * (settings["clip"] / bound) ** 2
    if tight:
        max_edge = unit * bound
        beta = step * min(max(edge / settings["rows"], -max_edge), max_edge)
        return [beta * value for value in values]
    beta = step * edge / max(num_rows, 1)
    max_value, grid = settings["step"] * settings["clip"] ** 2, settings["leaf_step"]
    steps = np.round(np.clip(beta * np.array(values), -max_value, max_value) / grid)
    noisy = grid * (steps + noise("leaf", (len(values),), settings["leaf_scale"] / grid))
    return [min(max(value, -max_value), max_value) for value in noisy]


def select_candidate(scores, across, within):
    """A group of consecutive candidates is selected, and then a candidate of that group.

    The group has the largest log-sum-exp plus noise, and the candidate the largest score plus
    noise. No candidate counts as further behind the best one than FLOOR.
    """
    scores = [max(score - max(scores), -FLOOR) for score in scores]
    size = len(within)
    groups = [scores[first : first + size] for first in range(0, len(scores), size)]
    mass = [
        max(group) + math.log(sum(math.exp(score - max(group)) for score in group))
        for group in groups
    ]
    winner = max(range(len(groups)), key=lambda g: mass[g] + across[g])
    return winner * size + max(
        range(len(groups[winner])), key=lambda i: groups[winner][i] + within[i]
    )


def class_levels(node, label, level_of):
    """(negative, positive) summed levels of some rows."""
    w0 = sum(level_of[i] for i in node if not label[i])
    w1 = sum(level_of[i] for i in node if label[i])
    return w0, w1
