"""How much of a table comes back from what a private forest releases.

The attack is re-created from the description of Gorgé, Ferry, Gambs & Vidal (arXiv 2502.05307,
SaTML 2026). Who has the structure of the trees, the noisy counts of their leaves and the law of the
noise looks for the most likely table of N binary rows. The paper solves a constraint program. Here
the same objective is annealed: a row is taken out, and one of all rows of the domain comes in, with
a chance that grows with the likelihood.

It works on all that a recipe of dpbt draws from sums over rows, boosted trees included. Given the
release, the weight of each possible row in each round is known, so every released number is a known
linear function of the table, with known noise. The attacker also knows N and the domain, and has
the whole transcript. Both are more than a model in use shows.
"""

import argparse
import functools
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import dpbt
from dpbt import recipes
from dpbt.data.domains import Boolean
from dpbt.data.splits import table_of_splits
from dpbt.privacy import boundary, pricing
from dpbt.privacy.keys import pair
from dpbt.training import boosting, step
from dpbt.types import Recipe, Transcript
from experiments.common import commands, data, pages, peers, results, tables
from experiments.common.results import Line, distinct, where

ROWS, SEEDS, SWEEPS = 100, 5, 30
EPSILONS = (0.1, 1.0, 5.0, 10.0, 30.0, 100.0, np.inf)
TREES, DEPTH = 10, 5
"""The defaults of diffprivlib's forest, which dpbt's forest is given as well."""

HEAT = (2.0, 0.1)
"""The first and the last temperature, in units of what a row moves the log likelihood by."""

DIFFPRIVLIB = "diffprivlib-forest"

YES: dict[str, Mapping[str, Any]] = {
    "adult": {
        "age": 40, "workclass": "Private", "education-num": 10, "marital-status":
        "Married-civ-spouse", "relationship": "Husband", "race": "White", "sex": "Male",
        "capital-gain": 1, "hours-per-week": 41, "native-country": "United-States",
    },
    "creditcard": {
        "LIMIT_BAL": 150_000, "SEX": "2", "EDUCATION": "1", "MARRIAGE": "1", "AGE": 35, "PAY_0": 1,
        "PAY_2": 1, "PAY_3": 1, "BILL_AMT1": 20_000, "PAY_AMT1": 2000,
    },
    "voting": dict.fromkeys(
        ("handicapped-infants", "water-project-cost-sharing", "adoption-of-the-budget-resolution",
         "physician-fee-freeze", "el-salvador-aid", "religious-groups-in-schools",
         "anti-satellite-test-ban", "aid-to-nicaraguan-contras", "mx-missile", "immigration"),
        "y",
    ),
}  # fmt: skip
"""Data set -> column -> where its bit is 1: at this word, or at this number and above."""


def load_bits_and_labels(name: str, folder: str | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(bool[M, A], bool[M]): the rows of a data set and their labels."""
    rows = data.load(name, folder=folder)
    bits = [
        rows.columns[column] == at if isinstance(at, str) else rows.columns[column] >= at
        for column, at in YES[name].items()
    ]
    return np.stack(bits, axis=1), np.asarray(rows.label)


def every_row(attributes: int) -> tuple[np.ndarray, np.ndarray]:
    """(bool[P, A], bool[P]): all rows of the domain, with both labels."""
    every = np.array([*itertools.product((False, True), repeat=attributes + 1)])
    return every[:, :-1], every[:, -1]


# What a release says of a table.


Law = Callable[[Any, Any, Any], Any]
"""(sums, what was released, scale) -> the log density of each, but for a constant."""


def laplace_log_density(sums: Any, released: Any, scale: Any) -> Any:
    """The law of integer or real Laplace noise."""
    return -abs(sums - released) / scale


def label(sums: Any, released: Any, scale: Any) -> Any:
    """The law of permute-and-flip between two labels, of the positive rows less the negative."""
    lead = jnp.where(released > 0, sums, -sums) / scale
    lie = -abs(lead) - jnp.log(2.0)
    return jnp.where(lead > 0, jnp.log1p(-jnp.exp(lie)), lie)


class Release(NamedTuple):
    """Released numbers, each of which follows from a sum over the rows of a table.

    Attributes:
        cell: i32[P, E], the numbers that a row of the domain adds to.
        amount: f32[P, E], what it adds.
        released: f32[Q].
        scale: f32[Q], of their noise.
        reads: bool[N, E], whether row n of the table was read; all of dpbt's are.
        right: the share of other rows whose label the model predicts.
    """

    cell: np.ndarray
    amount: np.ndarray
    released: np.ndarray
    scale: np.ndarray
    reads: np.ndarray
    right: float


def release_of(recipe: Recipe, bits: np.ndarray, labels: np.ndarray, seed: int) -> Release:
    """What a recipe releases of the first `recipe.rows` rows; the others are absent."""
    count, attributes = int(recipe.rows), bits.shape[1]
    table = table_of_splits(bits, labels, np.arange(len(bits)) < count)
    noise, public = pair(jax.random.key(seed))
    ran = jax.jit(dpbt.boost)(noise, table, recipe, public)
    every = table_of_splits(*every_row(attributes), np.ones(2 ** (attributes + 1), bool))
    one = every._replace(**{name: getattr(every, name)[:, None] for name in every._fields[:3]})
    added = jax.tree.map(np.asarray, _added_statistics(ran.transcript, one, recipe))

    parts, start = [], 0
    for sites, outputs in zip(added, ran.transcript.parts, strict=True):
        for site, (cell, amount, scale) in sites.items():
            released = np.ravel(outputs[site])
            spread = np.repeat(scale[0], released.size // scale[0].size)
            used = np.any(amount != 0, axis=0)
            parts.append((cell[:, used] + start, amount[:, used], released, spread))
            start += released.size
    cells, amounts, released, scales = zip(*parts, strict=True)
    cell, amount = np.concatenate(cells, axis=1), np.concatenate(amounts, axis=1)
    scale = np.concatenate(scales)
    reads = np.ones((count, cell.shape[1]), bool)
    right = float(np.mean((np.asarray(ran.scores) > 0)[count:] == labels[count:]))
    return Release(
        cell, amount, np.concatenate(released), np.where(scale > 0, scale, 1.0), reads, right
    )


@jax.jit
def _added_statistics(transcript: Transcript, rows: Any, recipe: Recipe) -> Any:
    """Part -> site -> (cell, amount, scale): what each row adds to each released number.

    Args:
        transcript: of the run.
        rows: one row for each entry of the leading axis, as tables.
        recipe: the recipe.
    """

    def answer(part: str, release: Any, views: Sequence[Any]) -> Any:
        program = pricing.program_of_phase(recipe.learner, part)
        asked = boundary.replay_draws(program, release, views[0])
        return release, {
            site: (jnp.ravel(spec.value), spec.scale)
            for site, spec in asked.items()
            if spec.mechanism.price.reads_rows
        }

    def alone(*fields: Any) -> Any:
        table = rows._replace(**dict(zip(rows._fields[:3], fields, strict=True)))
        kept = boosting.run(recipe, [step.prepare_table(table, recipe)], answer, transcript).kept
        return [
            {
                site: _sparse(value, scale, table.bins.shape[1])
                for site, (value, scale) in part.items()
            }
            for part in kept
        ]

    return jax.lax.map(lambda row: alone(*row), rows[:3], batch_size=64)


def _sparse(value: jax.Array, scale: jax.Array, attributes: int) -> Any:
    """The entries that one row moves: one in a round, and one for each attribute of histograms."""
    size = value.shape[-1]
    amount, cell = jax.lax.top_k(abs(value), 1 if value.ndim > 1 else min(attributes, size))
    amount = jnp.take_along_axis(value, cell, axis=-1).astype(jnp.float32)
    if value.ndim > 1:
        cell = cell + size * jnp.arange(len(value))[:, None]
    return jnp.ravel(cell), jnp.ravel(amount), jnp.ravel(scale)


def _random_forest(epsilon: float, *table: Any) -> Release:
    recipe = recipes.random_forest(epsilon=epsilon, rounds=TREES, depth=DEPTH, rows=ROWS)
    return release_of(recipe, *table)


def _auto(epsilon: float, bits: np.ndarray, labels: np.ndarray, seed: int) -> Release:
    domain = {f"x{k}": Boolean() for k in range(bits.shape[1])}
    recipe = recipes.auto(epsilon=epsilon, rows=ROWS, domain=domain, seed=seed)
    return release_of(recipe, bits, labels, seed)


def _diffprivlib(epsilon: float, bits: np.ndarray, labels: np.ndarray, seed: int) -> Release:
    """Each row is in one tree, by its place, and a leaf states a label."""
    count = bits.shape[1]
    numbers, bounds = bits.astype(float), np.tile([0.0, 1.0], (count, 1))
    rows = peers.Rows(numbers, bounds, np.zeros(count, bool), numbers, labels.astype(int))
    train = rows.where(np.arange(ROWS))
    with peers.without_warnings(), peers.on_one_core():
        model = peers.diffprivlib_forest(
            train, trees=TREES, depth=DEPTH, epsilon=epsilon, seed=seed
        )()
        right = float(np.mean(model.predict(numbers[ROWS:]) == labels[ROWS:]))
        every, signs = every_row(count)
        trees = [tree.tree_ for tree in model.estimators_]
        leaves = [tree.apply(every.astype(np.float32)) for tree in trees]
    starts = np.cumsum([0, *(tree.node_count for tree in trees[:-1])])
    cell = np.stack(leaves, axis=1) + starts
    released = np.concatenate([tree.value[:, 0, 1] - tree.value[:, 0, 0] for tree in trees])
    amount = np.repeat(np.where(signs, 1.0, -1.0)[:, None], len(trees), axis=1)
    reads = np.arange(ROWS)[:, None] * TREES // ROWS == np.arange(TREES)
    return Release(cell, amount, released, np.full(len(released), 1 / epsilon), reads, right)


LEARNERS: dict[str, tuple[Callable[..., Release], Law]] = {
    "random_forest": (_random_forest, laplace_log_density),
    DIFFPRIVLIB: (_diffprivlib, label),
    "auto": (_auto, laplace_log_density),
}
"""Learner -> (what it releases, the law of the noise)."""

MOST = {DIFFPRIVLIB: 10.0, "auto": 30.0}
"""The largest epsilon of a learner. From 10 on a leaf of diffprivlib hardly ever lies, so a larger
one tells no more. Above 30 `auto` has very many leaves."""


# The attack.


@functools.partial(jax.jit, static_argnames=("law", "sweeps"))
def anneal_rows(
    key: jax.Array, release: Release, law: Law, prior: Any, coldest: float, sweeps: int = SWEEPS
) -> jax.Array:
    """i32[N], the places in `every_row` of the rows of a table that explains a release.

    Args:
        key: of its choices.
        release: what was released.
        law: of the noise.
        prior: f32[P], the log chance of each row of the domain.
        coldest: the least temperature: 0 for a most likely table, 1 for a draw from the posterior.
        sweeps: how often each row is replaced.
    """
    cell, reads = jnp.asarray(release.cell), jnp.asarray(release.reads)
    numbers = (release.amount, release.released, release.scale)
    amount, released, scale = (jnp.asarray(each, jnp.float32) for each in numbers)
    told, wide = released[cell], scale[cell]
    start, chosen = jax.random.split(key)
    rows = jax.random.randint(start, (len(reads),), 0, len(cell))
    sums = jnp.zeros(released.shape, jnp.float32)
    sums = sums.at[cell[rows]].add(jnp.where(reads, amount[rows], 0))

    def replace(state: Any, now: Any) -> Any:
        (rows, sums), (place, heat, key) = state, now
        own = reads[place].astype(jnp.float32)
        sums = sums.at[cell[rows[place]]].add(-own * amount[rows[place]])
        without = sums[cell]
        gain = (law(without + amount, told, wide) - law(without, told, wide)) @ own + prior
        new = jnp.argmax(gain + heat * jax.random.gumbel(key, gain.shape))
        sums = sums.at[cell[new]].add(own * amount[new])
        return (rows.at[place].set(new), sums), None

    steps = sweeps * len(reads)
    heat = jnp.mean(abs(amount) / wide) * jnp.geomspace(*HEAT, steps)
    places, keys = jnp.arange(steps) % len(reads), jax.random.split(chosen, steps)
    entries = places, jnp.maximum(heat, coldest), keys
    return jax.lax.scan(replace, (rows, sums), entries)[0][0]


def solve_integer_program(release: Release, prior: Any) -> np.ndarray:
    """i64[N], as `anneal_rows`: a likeliest table with exactly these sums, by integer programming.

    The unknowns are how often each row of the domain occurs.
    """
    from scipy import optimize, sparse

    rows, entries = release.cell.shape
    places = release.cell.ravel(), np.repeat(np.arange(rows), entries)
    sums = sparse.csr_array((release.amount.ravel(), places), (len(release.released), rows))
    ours: Any = optimize.LinearConstraint  # its bounds may be arrays
    count = len(release.reads)
    exact = ours(sums, release.released, release.released), ours(np.ones((1, rows)), count, count)
    chances = np.broadcast_to(prior, rows)
    solution = optimize.milp(-chances, integrality=np.ones(rows), constraints=exact)
    return np.repeat(np.arange(rows), np.round(solution.x).astype(int))


def matched_mistakes(guess: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """(share of wrong cells, share of rows without one), of rows that are matched at best.

    Args:
        guess: bool[N, A].
        truth: bool[N, A].
    """
    from scipy.optimize import linear_sum_assignment

    wrong = np.mean(guess[:, None] != truth[None], axis=2)
    cells = wrong[linear_sum_assignment(wrong)]
    return float(np.mean(cells)), float(np.mean(cells == 0))


def attack_line(
    learner: str, epsilon: float, bits: np.ndarray, labels: np.ndarray, seed: int
) -> dict[str, float]:
    """The shares of cells that are wrong after attacks on `ROWS` rows, and after guesses.

    Args:
        learner: of `LEARNERS`.
        epsilon: its budget.
        bits: bool[M, A], of which `ROWS` rows drawn at random are learned from.
        labels: bool[M].
        seed: of everything random.
    """
    # A learner learns. Rows beyond its own are tested on, and then are the known population.
    draw = np.random.default_rng(seed)
    order = draw.permutation(len(bits))
    train, other, fresh = np.split(bits[order[: 3 * ROWS]], 3)
    learn, law = LEARNERS[learner]
    release = learn(epsilon, bits[order[: 3 * ROWS]], labels[order[: 3 * ROWS]], seed)
    every, _ = every_row(bits.shape[1])
    powers = 2 ** np.arange(bits.shape[1] + 1)[::-1]
    multiset = np.column_stack([bits, labels])[order[3 * ROWS :]] @ powers
    prior = np.log(np.bincount(multiset, minlength=len(every)) + 0.01).astype(np.float32)

    # Attacks, and guesses.
    def attack(prior: Any, coldest: float) -> np.ndarray:
        if np.isinf(epsilon) and law is laplace_log_density:
            return every[solve_integer_program(release, prior)]
        return every[anneal_rows(jax.random.key(seed), release, law, prior, coldest)]

    found, informed = attack(np.float32(0), 0.0), attack(prior, 1.0)
    error, whole = matched_mistakes(found, train)
    told, (near, near_whole) = matched_mistakes(informed, train)[0], matched_mistakes(fresh, train)
    return {
        "most likely": error,
        "shuffled": matched_mistakes(draw.permuted(found, axis=0), train)[0],
        "informed": told,
        "memorised": matched_mistakes(found, other)[0] - error,
        "memorised, informed": matched_mistakes(informed, other)[0] - told,
        "whole": whole,
        "right": release.right,
        "uniform": matched_mistakes(draw.random(train.shape) < 0.5, train)[0],
        "population": near,
        "whole, population": near_whole,
    }


# The command, and the tables that it writes into docs/audits.md.


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    ours = [learner for learner in LEARNERS if learner != DIFFPRIVLIB]
    words = f"the learners that are attacked ({' '.join(ours)})"
    parser.add_argument("--learners", nargs="+", choices=LEARNERS, default=ours, help=words)
    out = results.results_folder("audits")
    commands.add_shared(parser, out=out, data=True, doc=True, smoke=True)


def run(options: argparse.Namespace) -> None:
    """Attack the learners, and save it beside saved lines of others; or write a page."""
    path = commands.out_folder(options) / PAGES.file
    if options.doc is not None:
        pages.write_page(PAGES, Path(options.doc), path)
        return
    old = results.read_csv(path, PAGES.command) if path.exists() else []
    lines = [line for line in old if line["learner"] not in options.learners]
    for learner in options.learners:
        if learner == DIFFPRIVLIB:
            peers.check_installed("diffprivlib")
        lines += _lines(learner, options)
        results.write_csv(path, lines, {})
    print(tables.align_lines(lines, COLUMNS[:8]))
    print(f"wrote {path}")


def _lines(learner: str, options: argparse.Namespace) -> Iterator[Line]:
    """A line for each data set and budget: means over seeds, and their standard errors."""
    budgets = [each for each in EPSILONS if each <= MOST.get(learner, np.inf)]
    names, seeds = [*YES], range(SEEDS)
    if options.smoke:
        names, budgets, seeds = names[:1], [10.0], range(2)
    for name, epsilon in itertools.product(names, budgets):
        table, start = load_bits_and_labels(name, options.data), time.process_time()
        runs = [attack_line(learner, epsilon, *table, seed) for seed in seeds]
        seconds = (time.process_time() - start) / len(runs)
        line: Line = dict(zip(_KEYS, (name, learner, epsilon, len(runs), seconds), strict=True))
        for key in (*MEASURES, *GUESSES):
            values = np.array([each[key] for each in runs])
            line[key], line[f"{key} +-"] = values.mean(), values.std(ddof=1) / len(values) ** 0.5
        yield line


MEASURES = {
    "most likely": "wrong cells, most likely table",
    "shuffled": "wrong cells, its columns shuffled",
    "informed": "wrong cells, population known",
    "memorised": "memorised, most likely table",
    "memorised, informed": "memorised, population known",
    "whole": "rows without a wrong cell",
    "right": "right predictions",
}
"""What `attack_line` returns of a learner -> its words in the table."""

GUESSES = ("uniform", "population", "whole, population")
"""What it returns of guesses."""

_KEYS = ("dataset", "learner", "epsilon", "seeds", "seconds")
COLUMNS = (*_KEYS, *(f"{key}{end}" for key in (*MEASURES, *GUESSES) for end in ("", " +-")))


def _mean(lines: Sequence[Line], key: str) -> str:
    """The mean over data sets and its standard error."""
    error = np.sqrt(sum(line[f"{key} +-"] ** 2 for line in lines)) / len(lines)
    return f"{np.mean([line[key] for line in lines]):.3f} ± {error:.3f}"


def _table(lines: Sequence[Line]) -> str:
    budgets, rows = sorted(distinct(lines, "epsilon")), []
    for learner in distinct(lines, "learner"):
        groups = [where(lines, learner=learner, epsilon=epsilon) for epsilon in budgets]
        for key, words in MEASURES.items():
            rows.append((learner, words, *(_mean(each, key) if each else "" for each in groups)))
    return tables.markdown_table(("learner", "share of", *(f"{each:g}" for each in budgets)), rows)


def _guesses(lines: Sequence[Line]) -> str:
    first = where(lines, learner=lines[0]["learner"], epsilon=lines[0]["epsilon"])
    uniform, population, whole = (_mean(first, key) for key in GUESSES)
    words = f"Of uniform rows {uniform} of the cells are wrong. Of other rows of the population "
    return words + f"{population} are, and {whole} of these rows have no wrong cell."


PAGES = pages.Pages(
    "reconstruction",
    {"table": _table, "guesses": _guesses},
    COLUMNS,
    "reconstruction.csv",
    lambda line: ([*LEARNERS].index(line["learner"]), line["dataset"], line["epsilon"]),
)
"""What `--doc` writes."""
