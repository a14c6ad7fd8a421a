"""Mutants: each takes one protection away on a copy of the repository, and a test must see it.

Run by `make mutants`, outside the suite. It prints a line for each mutant and exits with status 1
if one survives, or if the text that a mutant changes is not found exactly once.
"""

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from mutants_saved import SAVED

ROOT = Path(__file__).resolve().parent.parent
WORKERS, LIMIT = 2, 300  # test runs at once, and the seconds that each may take


class Mutant(NamedTuple):
    """One change and the tests of which at least one must fail.

    Attributes:
        name: what is taken away.
        path: the file.
        old: text that is in it exactly once.
        new: what takes its place.
        tests: nodes to run.
    """

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]


def attack(file: str, test: str) -> str:
    return f"tests/redteam/test_{file}.py::test_{test}"


def epilogue(test: str) -> str:
    return f"tests/test_epilogue.py::test_{test}"


def oblivious(test: str) -> str:
    return f"tests/test_oblivious.py::test_{test}"


MUTANTS = [
    *map(Mutant._make, SAVED),
    Mutant(
        "own_key without the budget",
        "dpbt/boosting.py",
        "jnp.concatenate([jnp.asarray(tag), *budget])",
        "jnp.asarray(tag)",
        (attack("keys", "one_key_with_two_settings_gives_no_counts"),),
    ),
    Mutant(
        "own_key without the tag",
        "dpbt/boosting.py",
        "jnp.concatenate([jnp.asarray(tag), *budget])",
        "jnp.concatenate(budget)",
        (attack("keys", "two_learners_of_one_budget_do_not_share_noise"),),
    ),
    Mutant(
        "own_key without the re-weighter",
        "dpbt/boosting.py",
        "[recipe.learner.tag, recipe.reweighter.tag, ",
        "[recipe.learner.tag, ",
        (attack("keys", "two_reweighters_of_one_budget_do_not_share_noise"),),
    ),
    Mutant(
        "public draws from the noise key",
        "dpbt/privacy/boundary.py",
        "root = public_key if mechanism.public else key",
        "own = key",
        (attack("keys", "public_structure_and_noise_have_nothing_in_common"),),
    ),
    Mutant(
        "noise from the public key",
        "dpbt/privacy/boundary.py",
        "root = public_key if mechanism.public else key",
        "own = key if public_key is None else public_key",
        (attack("keys", "a_search_for_the_seed_finds_the_public_key_alone"),),
    ),
    Mutant(
        "one key for noise and structure is taken",
        "dpbt/checks.py",
        "    if same_kind and np.array_equal(",
        "    if False and np.array_equal(",
        (attack("keys", "a_public_key_is_needed_and_must_be_another"),),
    ),
    Mutant(
        "all present rows are admitted",
        "dpbt/boosting.py",
        "    return present & (rank <= jnp.asarray(recipe.rows).astype(jnp.int32))",
        "    return present",
        (attack("bounds", "a_table_far_beyond_its_bound_costs_at_most_twice_its_ledger"),),
    ),
    Mutant(
        "a refusal shows the number of rows",
        "dpbt/checks.py",
        "rows={rows}, the table has more rows present",
        "rows={rows}, the table has {present} rows present",
        (attack("bounds", "a_fit_beyond_the_bound_is_refused_and_the_private_number_is_not_said"),),
    ),
    Mutant(
        "weights of rows are ignored",
        "dpbt/checks.py",
        "    if sample_weight is not None:",
        "    if False:",
        (attack("files", "weights_of_rows_are_refused_by_name"),),
    ),
    Mutant(
        "the part of each row is left in the model",
        "dpbt/boosting.py",
        "{site: array for site, array in release.items() if site not in learner.withheld}",
        "dict(release)",
        ("tests/test_leaving.py::test_no_array_of_a_model_is_as_long_as_the_table",),
    ),
    Mutant(
        "a prologue that no line pays for",
        "dpbt/privacy/pricing.py",
        'for part in ("prologue", "epilogue"):',
        'for part in ("epilogue",):',
        ("tests/test_prologue.py::test_the_prologue_is_paid_for_once_and_the_rounds_t_times",),
    ),
    Mutant(
        "an epilogue that no line pays for",
        "dpbt/privacy/pricing.py",
        'for part in ("prologue", "epilogue"):',
        'for part in ("prologue",):',
        (epilogue("the_epilogue_is_paid_for_once"),),
    ),
    Mutant(
        "epilogues that differ share their noise",
        "dpbt/boosting.py",
        "for part in (learner.prologue, learner.epilogue) if part is not None]",
        "for part in (learner.prologue,) if part is not None]",
        (epilogue("learners_that_differ_in_their_epilogue_alone_do_not_share_noise"),),
    ),
    Mutant(
        "scores by class at the price of one row under replace-one",
        "dpbt/learners/score_line.py",
        "    moved = sensitivity.moved_rows(relation)\n    return",
        "    moved = 1\n    return",
        (oblivious("no_neighbour_moves_a_draw_beyond_its_sensitivity"),),
    ),
    Mutant(
        "absent rows are among the scores by class",
        "dpbt/learners/score_line.py",
        "    one = rows.present.astype(jnp.int32)",
        "    one = jnp.ones_like(rows.target, jnp.int32)",
        (oblivious("without_noise_all_draws_are_those_of_plain_loops"),),
    ),
    Mutant(
        "the noise of the prologue is that of a round",
        "dpbt/boosting.py",
        "jax.random.fold_in(own_key(key, recipe), number), public",
        "jax.random.fold_in(own_key(key, recipe), np.uint32(0)), public",
        ("tests/test_prologue.py::test_noise_of_the_prologue_is_not_that_of_a_round",),
    ),
    Mutant(
        "a site of the prologue and of a round",
        "dpbt/privacy/boundary.py",
        "        if common := sorted(set(sites) & set(others)):\n",
        "        if False:\n            common = []\n",
        (attack("custom", "a_prologue_and_a_round_may_not_share_a_site"),),
    ),
    Mutant(
        "noise of the public key",
        "dpbt/privacy/boundary.py",
        "    if mechanism.public and mechanism.price.reads_rows:",
        "    if False:",
        (attack("custom", "noise_of_the_public_key_is_refused"),),
    ),
    Mutant(
        "weights of a re-weighter as they come",
        "dpbt/boosting.py",
        "    return jnp.round(jnp.clip(number, 0, GRID))",
        "    return number",
        (attack("custom", "weights_of_a_re_weighter_are_integers_in_their_range"),),
    ),
    Mutant(
        "rows that padding adds are present",
        "dpbt/shapes.py",
        "present=pad(table.present)",
        "present=jnp.ones(rows + more, bool)",
        ("tests/test_shapes.py::test_padding_leaves_a_full_table_as_it_is",),
    ),
    Mutant(
        "a selection at half its price",
        "dpbt/privacy/mechanisms/prices.py",
        "    return Cost(shift, shift**2 / 8, gdp_of_pure(shift))",
        "    return Cost(shift / 2, shift**2 / 8, gdp_of_pure(shift))",
        ("tests/test_mechanisms.py", "tests/test_recipes.py"),
    ),
    Mutant(
        "noise set for half of what a row moves",
        "dpbt/privacy/mechanism.py",
        "        return quotient_up(sensitivity, self.price.shift(allowance))",
        "        return quotient_up(np.asarray(sensitivity) / 2, self.price.shift(allowance))",
        ("tests/test_recipes.py",),
    ),
    Mutant(
        "rounded Gaussian from normals in single precision",
        "dpbt/privacy/mechanisms/additive.py",
        "variates.normals(bits, shape)",
        "variates.double(jax.random.normal(key, shape, jnp.float32))",
        (attack("reachability", "sixty_fits_name_no_neighbour[bdpe, delta]"),),
    ),
    Mutant(
        "an exponential variable of 24 bits",
        "dpbt/privacy/variates.py",
        "distance = (distance + unit_interval(bits[1], bits[2], bits[3])) * np.float64(2.0**-31)",
        "distance = (jnp.floor(distance / 128) + 0.5) * np.float64(2.0**-24)",
        (attack("samplers", "one_digit_of_laplace_noise_is_within_its_gap"),),
    ),
    Mutant(
        "an exponential variable without fine ends",
        "dpbt/privacy/variates.py",
        "jnp.where(from_one, log1p(-distance), jnp.log(distance))",
        "jnp.where(from_one, log1p(-distance), jnp.log(jnp.maximum(distance, 2.0**-32)))",
        (attack("samplers", "words_at_their_ends_give_finite_noise"),),
    ),
    Mutant(
        "the sign is the bit of the size",
        "dpbt/privacy/variates.py",
        "return (bits[0] >> np.uint32(30)) & np.uint32(1) == 1",
        "return (bits[0] >> np.uint32(31)) & np.uint32(1) == 1",
        (attack("samplers", "many_draws_have_their_law"),),
    ),
    Mutant(
        "wide Laplace noise without its lower digit",
        "dpbt/privacy/mechanisms/additive.py",
        "digits = jnp.where(zero, np.float64(0), 1 + step * high + low)",
        "digits = jnp.where(zero, np.float64(0), 1 + step * high)",
        (attack("reachability", "every_laplace_output_comes_from_both_neighbours"),),
    ),
    Mutant(
        "no floor in the sampler of selections",
        "dpbt/privacy/mechanisms/selection.py",
        "        logits = _behind(variates.double(scores), variates.double(scale))\n",
        "        exactly, unit = variates.double(scores), positive(variates.double(scale))\n"
        "        logits = (exactly - jnp.max(exactly, -1, keepdims=True)) / unit\n",
        (attack("samplers", "a_race_of_two_is_within_its_gap"),),
    ),
    Mutant(
        "names of mechanisms are not compared",
        "dpbt/privacy/accounting/events.py",
        "    if drawn is not event.mechanism:",
        "    if False:",
        (attack("ledgers", "lines_that_lie_are_refused"),),
    ),
    Mutant(
        "a mechanism of one's own has a known name",
        "dpbt/privacy/accounting/events.py",
        "    if library is not None and library is not drawn:",
        "    if False:",
        (attack("ledgers", "lines_that_lie_are_refused"),),
    ),
    Mutant(
        "scales are not compared",
        "dpbt/privacy/accounting/events.py",
        "    if not least >= priced * _ROUNDED:",
        "    if False:",
        (attack("ledgers", "lines_that_lie_are_refused"),),
    ),
    Mutant(
        "scales of the first round alone are compared",
        "dpbt/privacy/pricing.py",
        "    for bound in (0.0, _FAR_BOUND):",
        "    for bound in (0.0,):",
        (attack("ledgers", "lines_that_lie_are_refused"),),
    ),
    Mutant(
        "learner and re-weighter are not compared",
        "dpbt/base.py",
        "    if reweighter.coupled and not learner.coupled:",
        "    if False:",
        (attack("ledgers", "recipes_that_are_tampered_with_are_refused"),),
    ),
    Mutant(
        "counts of lines are not checked",
        "dpbt/privacy/accounting/events.py",
        "        for name, value in counts.items():",
        "        for name, value in {}.items():",
        (attack("ledgers", "lines_that_mean_nothing_are_refused"),),
    ),
    Mutant(
        "numbers of lines are not checked",
        "dpbt/privacy/accounting/events.py",
        "            if not np.all(value >= 0):",
        "            if False:",
        (attack("ledgers", "lines_that_mean_nothing_are_refused"),),
    ),
    Mutant(
        "public draws may have a sensitivity",
        "dpbt/privacy/accounting/events.py",
        "if not self.mechanism.price.reads_rows and np.any(np.asarray(self.sensitivity) > 0):",
        "if False:",
        (attack("ledgers", "lines_that_mean_nothing_are_refused"),),
    ),
    Mutant(
        "rounds are not checked in a ledger",
        "dpbt/privacy/pricing.py",
        '    if rounds.dtype.kind not in "iu" or not 1 <= rounds <= recipe.capacity:',
        "    if False:",
        (attack("ledgers", "recipes_that_are_tampered_with_are_refused"),),
    ),
    Mutant(
        "sites of one key are taken",
        "dpbt/privacy/boundary.py",
        "if _site_word(earlier) == _site_word(site)]",
        "if False]",
        (attack("ledgers", "two_sites_of_one_key_are_refused"),),
    ),
    Mutant(
        "infinite losses are given to the accountants",
        "dpbt/privacy/accounting/ledger.py",
        "        if left <= 0 or math.isinf(self.rho):",
        "        if left <= 0:",
        (attack("ledgers", "no_noise_has_an_infinite_epsilon_by_every_accountant"),),
    ),
    Mutant(
        "published leaves without the step of their grid",
        "dpbt/learners/published_greedy_tree.py",
        "leaf_step, np.float64)) + 1",
        "leaf_step, np.float64))",
        (attack("ledgers", "the_grid_of_published_leaves_is_in_their_sensitivity"),),
    ),
    Mutant(
        "finite bits are not paid for",
        "dpbt/recipes/building.py",
        "    remaining = after_samplers(request, parts.learner, *first)",
        "    remaining = request",
        (attack("ledgers", "no_ledger_is_above_its_request"),),
    ),
    Mutant(
        "an exponential variable on a lattice of 2**-95",
        "dpbt/privacy/variates.py",
        "unit_interval(bits[1], bits[2], bits[3])",
        "unit_interval(bits[1], bits[2])",
        (attack("samplers", "one_digit_of_laplace_noise_is_within_its_gap"),),
    ),
    Mutant(
        "the library's own log1p",
        "dpbt/privacy/variates.py",
        "return jnp.where(moved == 0, x, x * jnp.log(shifted) / jnp.where(moved == 0, 1.0, moved))",
        "return jnp.log1p(x)",
        ("tests/test_variates.py::test_elementary_functions_are_right_relatively",),
    ),
    Mutant(
        "a total weight is not asked for",
        "dpbt/base.py",
        "    if learner.total and not reweighter.coupled:",
        "    if False:",
        (attack("ledgers", "a_smooth_learner_with_weights_of_another_total_is_refused_or_priced"),),
    ),
    Mutant(
        "criteria are not checked",
        "dpbt/losses.py",
        "        if failed:\n",
        "        if False:\n",
        (attack("criteria", "criteria_without_a_sensitivity_are_refused"),),
    ),
    Mutant(
        "a column's type decides how its cells are read",
        "dpbt/data/columns.py",
        "    return np.array(_each(cells, code), np.int8)",
        '    array = np.asarray(cells)\n    if array.dtype.kind in "biuf":\n'
        "        return (array != 0).astype(np.int8)\n"
        "    return np.array([int(str(cell) == true) for cell in array.tolist()], np.int8)",
        (attack("files", "the_loss_of_one_true_cell_is_that_of_one_row_by_an_own_likelihood"),),
    ),
    Mutant(
        "what is not true is false",
        "dpbt/data/columns.py",
        "        return -1 if value is None else int(value)",
        "        return int(bool(found))",
        (attack("files", "labels_of_neither_class_are_absent_and_raise_nothing"),),
    ),
    Mutant(
        "a model reads rows of any width",
        "dpbt/checks.py",
        "    if cells.shape[1] != model.features:",
        "    if cells.shape[1] < 0:",
        ("tests/test_questions.py::test_a_model_of_cells_refuses_all_other_rows",),
    ),
    Mutant(
        "a cell that no question knows satisfies a threshold",
        "dpbt/data/questions.py",
        "    return (low <= cell) & (cell <= high)",
        "    return low <= cell",
        ("tests/test_questions.py::test_values_that_no_question_knows_satisfy_nothing",),
    ),
    Mutant(
        "a label of neither class is an error",
        "dpbt/data/tables.py",
        "    if len(classes) != len(rows):",
        "    if len(classes) != len(rows) or (classes == -1).any():",
        (attack("files", "labels_of_neither_class_are_absent_and_raise_nothing"),),
    ),
    Mutant(
        "lines are read together",
        "dpbt/data/files.py",
        "next(csv.reader([text], strict=True, skipinitialspace=True), None)",
        "next(csv.reader([text], strict=False, skipinitialspace=True), None)",
        ("tests/test_files.py",),
    ),
    Mutant(
        "fingerprints without a key",
        "dpbt/sweeps/fingerprints.py",
        'digest = hmac.new(secret, digestmod="sha256")',
        'digest = hmac.new(bytes(32), digestmod="sha256")',
        ("tests/test_fingerprints.py",),
    ),
    Mutant(
        "no heading on private results",
        "experiments/demo.py",
        "    status = PRIVATE if options.data else PUBLIC",
        "    status = PUBLIC",
        (
            "tests/test_leaving.py::test_the_demo_says_what_it_is_and_shows_no_cell_and_no_number_of_rows",
        ),
    ),
    Mutant(
        "fresh keys of 64 bits",
        "dpbt/privacy/keys.py",
        "secrets.token_bytes(4 * _KEY_WORDS)",
        "secrets.token_bytes(8) * 4",
        ("tests/test_keys.py::test_fresh_keys_differ_in_256_bits",),
    ),
    Mutant(
        "ChaCha of 8 rounds",
        "dpbt/privacy/keys.py",
        "_ROUNDS = 20",
        "_ROUNDS = 8",
        ("tests/test_keys.py::test_block_gives_the_test_vectors_of_rfc_8439",),
    ),
    Mutant(
        "weights are not clipped",
        "dpbt/reweighting.py",
        "cap = jnp.minimum(inverse_link(bound), public.reweighting.clip)",
        "cap = inverse_link(bound)",
        (oblivious("no_weight_is_above_the_clip"),),
    ),
    Mutant(
        "leaf sums under replace-one at the price of one row",
        "dpbt/learners/oblivious_tree.py",
        "    moved = GRID * sensitivity.moved_rows(kind.relation)",
        "    moved = GRID",
        (oblivious("no_neighbour_moves_a_draw_beyond_its_sensitivity"),),
    ),
    Mutant(
        "histograms under replace-one at the price of one row",
        "dpbt/learners/oblivious_tree.py",
        "    moved = len(kind.attributes) * sensitivity.moved_rows(kind.relation)",
        "    moved = len(kind.attributes)",
        (oblivious("no_neighbour_moves_a_draw_beyond_its_sensitivity"),),
    ),
    Mutant(
        "histograms in L2 norm for every mechanism",
        "dpbt/learners/oblivious_tree.py",
        "Sensitivity(moved, math.sqrt(moved))",
        "Sensitivity(math.sqrt(moved), math.sqrt(moved))",
        (oblivious("histograms_are_priced_in_the_norm_of_the_mechanism"),),
    ),
    Mutant(
        "columns of a table are not counted",
        "dpbt/learners/oblivious_tree.py",
        "    if table.cells.shape[1] != len(attributes):",
        "    if False:",
        (oblivious("tables_of_another_number_of_columns_are_refused_everywhere"),),
    ),
    Mutant(
        "domains of table and recipe are not compared",
        "dpbt/learners/oblivious_tree.py",
        "        if not cells <= attribute.cells <= cells + 1:",
        "        if False:",
        (oblivious("tables_of_another_domain_are_refused"),),
    ),
    Mutant(
        "features of a run are not counted",
        "dpbt/learners/oblivious_tree.py",
        "    if rows.cells.shape[0] < features:",
        "    if False:",
        (oblivious("tables_of_another_number_of_columns_are_refused_everywhere"),),
    ),
    Mutant(
        "absent rows are in the histograms",
        "dpbt/learners/oblivious_tree.py",
        "    one = (weights > 0).astype(jnp.int32)",
        "    one = jnp.ones_like(target, jnp.int32)",
        (oblivious("without_noise_all_draws_are_those_of_plain_loops"),),
    ),
    Mutant(
        "tags have six digits of the smoothing",
        "dpbt/learners/oblivious_tree.py",
        "{self.smoothing!r}",
        "{self.smoothing:g}",
        (oblivious("static_parts_and_seeds_have_noise_of_their_own"),),
    ),
    Mutant(
        "all draws are composed as Gaussian ones",
        "dpbt/recipes/building.py",
        "    return all(price.gaussian or not price.reads_rows for price in prices)",
        "    return True",
        (attack("ledgers", "no_ledger_is_above_its_request"),),
    ),
    Mutant(
        "published noise is set by GDP",
        "dpbt/recipes/building.py",
        "    if request.approximate and request.tight and all_gaussian(",
        "    if request.approximate and all_gaussian(",
        (oblivious("published_halfspaces_have_the_noise_of_zcdp"),),
    ),
    Mutant(
        "the delta of a small mu is a difference of close numbers",
        "dpbt/privacy/accounting/conversions.py",
        "        mu < _SMALL_MU, ",
        "        mu < 0, ",
        (oblivious("gdp_conversions_are_exact"),),
    ),
]


def copied(folder: Path) -> Path:
    """The tracked files of the working tree, in a folder."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    return folder


def tested(folder: Path, tests: tuple[str, ...]) -> int:
    """The status of pytest in a folder."""
    # Bytecode is not kept: two sources of one size within a second would be taken for one.
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    # All copies keep their compiled programs in one place.
    environment.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".cache" / "jax"))
    command = [sys.executable, "-m", "pytest", "-n", "0", "-x", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, timeout=LIMIT, check=False
    )
    return done.returncode


def judged(mutant: Mutant) -> tuple[str, float]:
    """(verdict, seconds) of one mutant: "caught", "SURVIVED", or what is wrong with it."""
    start = time.perf_counter()
    text = (ROOT / mutant.path).read_text()
    if text.count(mutant.old) != 1:
        return f"NOT FOUND ONCE ({text.count(mutant.old)} times)", 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = copied(Path(name))
        (folder / mutant.path).write_text(text.replace(mutant.old, mutant.new))
        try:
            status = tested(folder, mutant.tests)
        except subprocess.TimeoutExpired:
            status = None
    words = {0: "SURVIVED", 1: "caught", None: "TOO LONG"}
    return words.get(status, f"NOT RUN (pytest {status})"), time.perf_counter() - start


def unchanged() -> bool:
    """Whether all tests pass on a copy that nothing was changed in."""
    nodes = sorted({test for mutant in MUTANTS for test in mutant.tests})
    with tempfile.TemporaryDirectory() as name:
        return tested(copied(Path(name)), tuple(nodes)) == 0


def main(words: list[str]) -> int:
    """Judge the mutants whose names hold one of the words; all of them without words."""
    chosen = [m for m in MUTANTS if not words or any(word in m.name for word in words)]
    if not words:
        passing = unchanged()
        print("unchanged: " + ("all tests pass" if passing else "TESTS FAIL"), flush=True)
        if not passing:
            return 1
    bad = 0
    with ThreadPoolExecutor(WORKERS) as pool:
        found = pool.map(judged, chosen)
        for mutant, (verdict, seconds) in zip(chosen, found, strict=True):
            bad += verdict != "caught"
            print(f"{verdict:10} {seconds:6.1f} s  {mutant.name}", flush=True)
    print(f"{len(chosen) - bad} of {len(chosen)} caught")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
