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
from dpbt.privacy import program_interpreters
from dpbt.privacy.keys import pair
from dpbt.training import scan, table_preparation
from dpbt.training.phases import PhaseValues
from dpbt.training.scan import InterpretedPhase
from dpbt.types import Phase, Recipe, Transcript
from experiments.common import commands, data, pages, peers, results, tables
from experiments.common.results import Line, distinct, where

ROWS = 100
"""How many rows a learner reads."""

SEEDS, SWEEPS = 5, 30
"""How often each budget is attacked, and how often an attack replaces each row."""

EPSILONS = (0.1, 1.0, 5.0, 10.0, 30.0, 100.0, np.inf)
TREES, DEPTH = 10, 5
"""The defaults of diffprivlib's forest; dpbt's forest has them as well."""

TEMPERATURES = (2.0, 0.1)
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


class BinaryRows(NamedTuple):
    """Rows of bits.

    Attributes:
        bits: bool[M, A].
        labels: bool[M].
    """

    bits: np.ndarray
    labels: np.ndarray


def load_binary_rows(name: str, folder: str | None = None) -> BinaryRows:
    """The rows of a data set, with the columns of `YES` as bits."""
    dataset = data.load(name, folder=folder)
    bits = []
    for column, value in YES[name].items():
        cells = dataset.columns[column]
        bits.append(cells == value if isinstance(value, str) else cells >= value)
    return BinaryRows(np.stack(bits, axis=1), np.asarray(dataset.label))


def all_rows_of_domain(attributes: int) -> BinaryRows:
    """The P = 2^(A + 1) rows of all bits, with both labels."""
    rows = np.array([*itertools.product((False, True), repeat=attributes + 1)])
    return BinaryRows(rows[:, :-1], rows[:, -1])


# What a release says of a table.


LogDensity = Callable[[Any, Any, Any], Any]
"""(sums, released numbers, scale) -> the log density of each, but for a constant."""


def laplace_log_density(sums: Any, released: Any, scale: Any) -> Any:
    """The log density of integer or real Laplace noise."""
    return -abs(sums - released) / scale


def label_log_probability(sums: Any, released: Any, scale: Any) -> Any:
    """That of permute-and-flip between two labels; sums are positive rows less negative ones."""
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


class AddedStatistics(NamedTuple):
    """What each row adds to the numbers of one site.

    Attributes:
        cell: i32[P, E], the places of the numbers.
        amount: f32[P, E], what a row adds to them.
        scale: f32[P, ...], of the noise.
    """

    cell: Any
    amount: Any
    scale: Any


def release_of_recipe(recipe: Recipe, rows: BinaryRows, seed: int) -> Release:
    """What a recipe releases of the first `recipe.rows` rows; the others are absent."""
    count, attributes = int(recipe.rows), rows.bits.shape[1]
    table = table_of_splits(*rows, np.arange(len(rows.bits)) < count)
    noise, public = pair(jax.random.key(seed))
    run = jax.jit(dpbt.boost)(noise, table, recipe, public)
    domain_rows = all_rows_of_domain(attributes)
    all_rows = table_of_splits(*domain_rows, np.ones(len(domain_rows.labels), bool))
    one_row_tables = all_rows._replace(
        **{name: getattr(all_rows, name)[:, None] for name in all_rows._fields[:3]}
    )
    added = jax.tree.map(np.asarray, _added_statistics(run.transcript, one_row_tables, recipe))

    cells, amounts, released, scales, start = [], [], [], [], 0
    for sites, outputs in zip(added, run.transcript.releases.values(), strict=True):
        for site, (cell, amount, scale) in sites.items():
            numbers = np.ravel(outputs[site])
            is_added_to = np.any(amount != 0, axis=0)
            cells.append(cell[:, is_added_to] + start)
            amounts.append(amount[:, is_added_to])
            released.append(numbers)
            scales.append(np.repeat(scale[0], numbers.size // scale[0].size))
            start += numbers.size
    scale = np.concatenate(scales)
    predicted = np.asarray(run.scores) > 0
    return Release(
        cell=np.concatenate(cells, axis=1),
        amount=np.concatenate(amounts, axis=1),
        released=np.concatenate(released),
        scale=np.where(scale > 0, scale, 1.0),
        reads=np.ones((count, sum(cell.shape[1] for cell in cells)), bool),
        right=float(np.mean(predicted[count:] == rows.labels[count:])),
    )


@jax.jit
def _added_statistics(
    transcript: Transcript, rows: Any, recipe: Recipe
) -> list[dict[str, AddedStatistics]]:
    """For each phase, site -> what each row adds to each released number.

    Args:
        transcript: the transcript of the run.
        rows: one row for each entry of the leading axis, as tables.
        recipe: the recipe.
    """

    def replay_specs(phase: Phase, release: Any, views: Sequence[Any]) -> InterpretedPhase:
        specs = program_interpreters.replay_draws(phase.program, release, views[0])
        statistics = {
            site: (jnp.ravel(spec.statistic), spec.scale)
            for site, spec in specs.items()
            if spec.mechanism.price.reads_rows
        }
        return InterpretedPhase(release=release, record=statistics)

    def statistics_of_row(fields: Any) -> Any:
        table = rows._replace(**dict(zip(rows._fields[:3], fields, strict=True)))
        run_result = scan.run_in_memory(
            recipe,
            [table_preparation.prepare_table(table, recipe)],
            interpret_phase=replay_specs,
            phase_inputs=PhaseValues(**transcript.releases),
        )
        return [
            {
                site: _entries_of_row(value, scale, table.bins.shape[1])
                for site, (value, scale) in specs.items()
            }
            for specs in run_result.records
        ]

    return jax.lax.map(statistics_of_row, rows[:3], batch_size=64)


def _entries_of_row(value: jax.Array, scale: jax.Array, attributes: int) -> AddedStatistics:
    """The entries that one row moves: one in a round, and one for each attribute of histograms."""
    size = value.shape[-1]
    amount, cell = jax.lax.top_k(abs(value), 1 if value.ndim > 1 else min(attributes, size))
    amount = jnp.take_along_axis(value, cell, axis=-1).astype(jnp.float32)
    if value.ndim > 1:
        cell = cell + size * jnp.arange(len(value))[:, None]
    return AddedStatistics(jnp.ravel(cell), jnp.ravel(amount), jnp.ravel(scale))


def _release_random_forest(rows: BinaryRows, epsilon: float, seed: int) -> Release:
    recipe = recipes.random_forest(epsilon=epsilon, rounds=TREES, depth=DEPTH, rows=ROWS)
    return release_of_recipe(recipe, rows, seed)


def _release_auto(rows: BinaryRows, epsilon: float, seed: int) -> Release:
    domain = {f"x{k}": Boolean() for k in range(rows.bits.shape[1])}
    recipe = recipes.auto(epsilon=epsilon, rows=ROWS, domain=domain, seed=seed)
    return release_of_recipe(recipe, rows, seed)


def _release_diffprivlib(rows: BinaryRows, epsilon: float, seed: int) -> Release:
    """Each row is in one tree, by its place, and a leaf states a label."""
    peer_rows = peers.rows_of_unit_numbers(rows.bits.astype(float), rows.labels.astype(int))
    train = peer_rows.where(np.arange(ROWS))
    with peers.without_warnings(), peers.on_one_core():
        model = peers.diffprivlib_forest(
            train, trees=TREES, depth=DEPTH, epsilon=epsilon, seed=seed
        )()
        predicted = model.predict(peer_rows.numbers[ROWS:])
        all_bits, all_labels = all_rows_of_domain(rows.bits.shape[1])
        trees = [tree.tree_ for tree in model.estimators_]
        leaves = [tree.apply(all_bits.astype(np.float32)) for tree in trees]
    starts = np.cumsum([0, *(tree.node_count for tree in trees[:-1])])
    released = np.concatenate([tree.value[:, 0, 1] - tree.value[:, 0, 0] for tree in trees])
    return Release(
        cell=np.stack(leaves, axis=1) + starts,
        amount=np.repeat(np.where(all_labels, 1.0, -1.0)[:, None], len(trees), axis=1),
        released=released,
        scale=np.full(len(released), 1 / epsilon),
        reads=np.arange(ROWS)[:, None] * TREES // ROWS == np.arange(TREES),
        right=float(np.mean(predicted == rows.labels[ROWS:])),
    )


class Learner(NamedTuple):
    """A learner that is attacked.

    Attributes:
        release: (rows, epsilon, seed) -> what it releases.
        log_density: the log density of its noise.
        max_epsilon: the largest epsilon that is attacked.
    """

    release: Callable[[BinaryRows, float, int], Release]
    log_density: LogDensity
    max_epsilon: float = np.inf


LEARNERS = {
    "random_forest": Learner(_release_random_forest, laplace_log_density),
    # From 10 on a leaf of diffprivlib hardly ever lies, so a larger epsilon tells no more.
    DIFFPRIVLIB: Learner(_release_diffprivlib, label_log_probability, max_epsilon=10.0),
    # Above 30 `auto` has very many leaves.
    "auto": Learner(_release_auto, laplace_log_density, max_epsilon=30.0),
}


# The attack.


@functools.partial(jax.jit, static_argnames=("log_density", "sweeps"))
def anneal_rows(
    key: jax.Array,
    release: Release,
    *,
    log_density: LogDensity,
    prior: Any,
    min_temperature: float,
    sweeps: int = SWEEPS,
) -> jax.Array:
    """i32[N], the places in `all_rows_of_domain` of the rows of a table that explains a release.

    Args:
        key: the key of its choices.
        release: what was released.
        log_density: the log density of the noise.
        prior: f32[P], the log chance of each row of the domain.
        min_temperature: 0 for a most likely table, 1 for a draw from the posterior.
        sweeps: how often each row is replaced.
    """
    cell, reads = jnp.asarray(release.cell), jnp.asarray(release.reads)
    amount = jnp.asarray(release.amount, jnp.float32)
    released = jnp.asarray(release.released, jnp.float32)
    scale = jnp.asarray(release.scale, jnp.float32)
    released_of_cell, scale_of_cell = released[cell], scale[cell]
    start_key, steps_key = jax.random.split(key)
    rows = jax.random.randint(start_key, (len(reads),), 0, len(cell))
    sums = jnp.zeros(released.shape, jnp.float32)
    sums = sums.at[cell[rows]].add(jnp.where(reads, amount[rows], 0))

    def log_likelihood(sums_of_cell: jax.Array) -> jax.Array:
        return log_density(sums_of_cell, released_of_cell, scale_of_cell)

    def replace_row(state: Any, inputs: Any) -> Any:
        (rows, sums), (place, temperature, key) = state, inputs
        is_read = reads[place].astype(jnp.float32)
        sums = sums.at[cell[rows[place]]].add(-is_read * amount[rows[place]])
        without = sums[cell]
        gain = (log_likelihood(without + amount) - log_likelihood(without)) @ is_read + prior
        new_row = jnp.argmax(gain + temperature * jax.random.gumbel(key, gain.shape))
        sums = sums.at[cell[new_row]].add(is_read * amount[new_row])
        return (rows.at[place].set(new_row), sums), None

    steps = sweeps * len(reads)
    temperatures = jnp.mean(abs(amount) / scale_of_cell) * jnp.geomspace(*TEMPERATURES, steps)
    places, keys = jnp.arange(steps) % len(reads), jax.random.split(steps_key, steps)
    inputs = places, jnp.maximum(temperatures, min_temperature), keys
    (rows, _), _ = jax.lax.scan(replace_row, (rows, sums), inputs)
    return rows


def solve_integer_program(release: Release, prior: Any) -> np.ndarray:
    """i64[N], as `anneal_rows`: a likeliest table with exactly these sums, by integer programming.

    The unknowns are how often each row of the domain occurs.
    """
    from scipy import optimize, sparse

    rows, entries = release.cell.shape
    places = release.cell.ravel(), np.repeat(np.arange(rows), entries)
    sums = sparse.csr_array((release.amount.ravel(), places), (len(release.released), rows))
    equals: Any = lambda matrix, value: optimize.LinearConstraint(matrix, value, value)  # noqa: E731
    constraints = (
        equals(sums, release.released),
        equals(np.ones((1, rows)), len(release.reads)),
    )
    chances = np.broadcast_to(prior, rows)
    solution = optimize.milp(-chances, integrality=np.ones(rows), constraints=constraints)
    return np.repeat(np.arange(rows), np.round(solution.x).astype(int))


class Mistakes(NamedTuple):
    """The share of wrong cells, and the share of rows without a wrong one."""

    cells: float
    whole_rows: float


def matched_mistakes(guess: np.ndarray, truth: np.ndarray) -> Mistakes:
    """The mistakes of guessed rows that are matched to the true ones at best.

    Args:
        guess: bool[N, A].
        truth: bool[N, A].
    """
    from scipy.optimize import linear_sum_assignment

    wrong = np.mean(guess[:, None] != truth[None], axis=2)
    cells = wrong[linear_sum_assignment(wrong)]
    return Mistakes(float(np.mean(cells)), float(np.mean(cells == 0)))


def attack_line(learner: str, *, epsilon: float, rows: BinaryRows, seed: int) -> dict[str, float]:
    """The shares of cells that are wrong after attacks on `ROWS` rows, and after guesses.

    Args:
        learner: a name of `LEARNERS`.
        epsilon: its budget.
        rows: the rows, of which `ROWS` are drawn at random and learned from.
        seed: the seed of everything random.
    """
    # The rows that train, as many to test on, as many fresh ones; the rest is the population.
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(rows.bits))
    used, population = order[: 3 * ROWS], order[3 * ROWS :]
    train, other, fresh = np.split(rows.bits[used], 3)
    used_rows = BinaryRows(rows.bits[used], rows.labels[used])
    release = LEARNERS[learner].release(used_rows, epsilon, seed)
    all_bits, _ = all_rows_of_domain(rows.bits.shape[1])
    powers = 2 ** np.arange(rows.bits.shape[1] + 1)[::-1]
    places = np.column_stack(rows)[population] @ powers
    prior = np.log(np.bincount(places, minlength=len(all_bits)) + 0.01).astype(np.float32)

    # Attacks, and guesses.
    log_density = LEARNERS[learner].log_density

    def attack(prior: Any, min_temperature: float) -> np.ndarray:
        if np.isinf(epsilon) and log_density is laplace_log_density:
            return all_bits[solve_integer_program(release, prior)]
        key = jax.random.key(seed)
        places = anneal_rows(
            key, release, log_density=log_density, prior=prior, min_temperature=min_temperature
        )
        return all_bits[places]

    most_likely, informed = attack(np.float32(0), 0.0), attack(prior, 1.0)
    mistakes = matched_mistakes(most_likely, train)
    informed_error = matched_mistakes(informed, train).cells
    population_mistakes = matched_mistakes(fresh, train)
    return {
        "most likely": mistakes.cells,
        "shuffled": matched_mistakes(rng.permuted(most_likely, axis=0), train).cells,
        "informed": informed_error,
        "memorised": matched_mistakes(most_likely, other).cells - mistakes.cells,
        "memorised, informed": matched_mistakes(informed, other).cells - informed_error,
        "whole": mistakes.whole_rows,
        "right": release.right,
        "uniform": matched_mistakes(rng.random(train.shape) < 0.5, train).cells,
        "population": population_mistakes.cells,
        "whole, population": population_mistakes.whole_rows,
    }


# The command, and the tables that it writes into docs/audits.md.


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    default = [learner for learner in LEARNERS if learner != DIFFPRIVLIB]
    words = f"the learners that are attacked ({' '.join(default)})"
    parser.add_argument("--learners", nargs="+", choices=LEARNERS, default=default, help=words)
    out = results.results_folder("audits")
    commands.add_shared(parser, out=out, data=True, doc=True, smoke=True)


def run_command(options: argparse.Namespace) -> None:
    """Attack the learners, and save lines beside those of other learners; or write a page."""
    path = commands.out_folder(options) / PAGES.file
    if options.doc is not None:
        pages.write_page(PAGES, Path(options.doc), path)
        return
    old = results.read_csv(path, PAGES.command) if path.exists() else []
    lines = [line for line in old if line["learner"] not in options.learners]
    for learner in options.learners:
        if learner == DIFFPRIVLIB:
            peers.check_installed("diffprivlib")
        lines += _lines_of_learner(learner, options)
        results.write_csv(path, lines, {})
    print(tables.align_lines(lines, COLUMNS[:8]))
    print(f"wrote {path}")


def _lines_of_learner(learner: str, options: argparse.Namespace) -> Iterator[Line]:
    """A line for each data set and budget: means over seeds, and their standard errors."""
    budgets = [epsilon for epsilon in EPSILONS if epsilon <= LEARNERS[learner].max_epsilon]
    names, seeds = [*YES], range(SEEDS)
    if options.smoke:
        names, budgets, seeds = names[:1], [10.0], range(2)
    for name, epsilon in itertools.product(names, budgets):
        rows, start = load_binary_rows(name, options.data), time.process_time()
        runs = [attack_line(learner, epsilon=epsilon, rows=rows, seed=seed) for seed in seeds]
        seconds = (time.process_time() - start) / len(runs)
        line: Line = dict(zip(_KEYS, (name, learner, epsilon, len(runs), seconds), strict=True))
        for key in (*MEASURES, *GUESSES):
            values = np.array([line_of_run[key] for line_of_run in runs])
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


def _format_mean(lines: Sequence[Line], key: str) -> str:
    """The mean over data sets and its standard error."""
    error = np.sqrt(sum(line[f"{key} +-"] ** 2 for line in lines)) / len(lines)
    return f"{np.mean([line[key] for line in lines]):.3f} ± {error:.3f}"


def _measure_table(lines: Sequence[Line]) -> str:
    budgets, rows = sorted(distinct(lines, "epsilon")), []
    for learner in distinct(lines, "learner"):
        groups = [where(lines, learner=learner, epsilon=epsilon) for epsilon in budgets]
        for key, words in MEASURES.items():
            cells = (_format_mean(group, key) if group else "" for group in groups)
            rows.append((learner, words, *cells))
    head = ("learner", "share of", *(f"{epsilon:g}" for epsilon in budgets))
    return tables.markdown_table(head, rows)


def _guesses_in_words(lines: Sequence[Line]) -> str:
    first = where(lines, learner=lines[0]["learner"], epsilon=lines[0]["epsilon"])
    uniform, population, whole_rows = (_format_mean(first, key) for key in GUESSES)
    words = f"Of uniform rows {uniform} of the cells are wrong. Of other rows of the population "
    return words + f"{population} are, and {whole_rows} of these rows have no wrong cell."


PAGES = pages.Pages(
    "reconstruction",
    {"table": _measure_table, "guesses": _guesses_in_words},
    summary=COLUMNS,
    file="reconstruction.csv",
    order=lambda line: ([*LEARNERS].index(line["learner"]), line["dataset"], line["epsilon"]),
)
"""What `--doc` writes."""
