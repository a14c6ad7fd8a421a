"""Boosted trees as a plain loop over rows, nodes and splits, in float64; written from the paper,
not from dpbt.

It is fed the same noise as the library (`noise(round_key, site, shape)`), so both must choose the
same splits."""

import math

import numpy as np

GRID = 127
FLOOR = 32.0


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


def boost(splits, label, present, setting, noise):
    """(splits by tree in heap order, leaves by tree), for a dictionary of plain settings."""
    rows = [i for i in range(len(label)) if present[i]]
    score, bound = [0.0] * len(label), 0.0
    ensemble = []
    for t in range(setting["rounds"]):
        tree = boost_one_tree(splits, label, rows, score, bound, t, setting, noise)
        ensemble.append(tree)
        for i in range(len(label)):
            score[i] += tree[1][leaf_of_row(tree[0], splits[i], setting["depth"])]
        bound += max(abs(value) for value in tree[1])
    return ensemble


def leaf_of_row(heap, row, depth):
    node = 0
    for _ in range(depth):
        went_right = heap[node] >= 0 and bool(row[heap[node]])
        node = 2 * node + (2 if went_right else 1)
    return node - (2**depth - 1)


def boost_one_tree(splits, label, rows, score, bound, t, setting, noise):
    name, depth, tight = setting["loss"], setting["depth"], setting["tight"]
    link_alpha = setting["link_alpha"]
    unit = inverse_link(name, link_alpha, bound) if tight else 1.0
    level_of = {}
    for i in rows:
        weight = inverse_link(name, link_alpha, -score[i] if label[i] else score[i])
        level_of[i] = grid_level(weight, unit)

    members, heap, errors, alpha = [list(rows)], [], [], 1.0
    for level in range(depth):
        errors.append(sum(min(class_levels(node, label, level_of)) for node in members))
        if setting["alpha"] != "objective":
            alpha = setting["alpha"]
        elif tight:
            if depth > 1:
                errors[-1] += int(noise(t, f"error_{level}", (), setting["error_scale"]))
            ratio = min(max(errors[-1] / max(errors[0], 1), 0.0), 1.0)
            alpha = 1.0 if level == 0 else min(alpha, ratio)
        else:
            alpha = 1.0 if level == 0 else errors[-1] / max(errors[0], 1)
        sensitivity = perspective(name, alpha, 1.0, float(setting["rows"]))
        sensitivity = (
            sensitivity + setting["rows"] / 2**18 if tight else 2 * max(3.0, 1 + sensitivity)
        )
        rate = setting["split_epsilon"][level] / sensitivity
        across, within = noise(t, f"split_{level}", (len(members), splits.shape[1]), None)
        children = []
        for k, node in enumerate(members):
            scores = []
            for s in range(splits.shape[1]):
                sides = [[i for i in node if bool(splits[i, s]) == side] for side in (False, True)]
                value = -sum(
                    perspective(name, alpha, w1 / GRID, w0 / GRID)
                    for w0, w1 in (class_levels(side, label, level_of) for side in sides)
                )
                scores.append(rate * value)
            best = select_candidate(scores, across[k], within[k])
            heap.append(best)
            children += [
                [i for i in node if not splits[i, best]],
                [i for i in node if splits[i, best]],
            ]
        members = children

    counts = np.array([class_levels(node, label, level_of) for node in members], dtype=np.int64)
    if tight:
        counts = counts + noise(t, "leaf", counts.shape, setting["leaf_scale"])
    in_rows = counts * (unit / GRID)
    prior = max(setting["smoothing"] * setting["leaf_scale"] * unit / GRID, 1e-6) if tight else 1e-6
    values = []
    for share in leaf_shares(np.maximum(in_rows, 0), prior):
        value = link(name, link_alpha, min(max(share, setting["zeta"]), 1 - setting["zeta"]))
        values.append(min(max(value, -setting["clip"]), setting["clip"]))
    edge = sum((c1 - c0) * value for (c0, c1), value in zip(in_rows, values, strict=True))
    bound = max(setting["step_clip"], *map(abs, values))
    step = setting["step"] * (setting["clip"] / bound) ** 2
    if tight:
        largest = unit * bound
        beta = step * min(max(edge / setting["rows"], -largest), largest)
        return heap, [beta * value for value in values]
    beta = step * edge / max(len(rows), 1)
    widest, grid = setting["step"] * setting["clip"] ** 2, setting["leaf_step"]
    steps = np.round(np.clip(beta * np.array(values), -widest, widest) / grid)
    noisy = grid * (steps + noise(t, "leaf", (len(values),), setting["leaf_scale"] / grid))
    return heap, [min(max(value, -widest), widest) for value in noisy]


def select_candidate(scores, across, within):
    """A group of consecutive candidates by its log-sum-exp and noise, then a candidate in it by its
    own noise.

    None counts as further behind the best one than the library says.
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
