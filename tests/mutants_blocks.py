"""Mutants of learning from blocks, of checkpoints, and of several processes."""

from mutation import Mutant


def fits(name: str) -> str:
    return f"tests/test_block_fits.py::test_{name}"


def sums(name: str) -> str:
    return f"tests/test_block_sums.py::test_{name}"


def kept(name: str) -> str:
    return f"tests/test_checkpoints.py::test_{name}"


def level(name: str) -> str:
    return f"tests/test_trees.py::test_{name}"


def together(name: str) -> str:
    return f"tests/test_processes.py::test_{name}"


BLOCKS = [
    Mutant(
        "slices whose places do not move on",
        "dpbt/training/passes.py",
        "number, place = number + 1, place + count",
        "number = number + 1",
        (together("rows_have_places_after_those_of_earlier_processes"),),
    ),
    Mutant(
        "rows of every process have the places of the first",
        "dpbt/training/passes.py",
        "_slices(table, plan.block, place))",
        "_slices(table, plan.block, 0))",
        (together("rows_have_places_after_those_of_earlier_processes"),),
    ),
    Mutant(
        "places that count the present rows of earlier processes",
        "dpbt/training/processes.py",
        "int(before[:, 1].sum()))",
        "int(before[:, 0].sum()))",
        (together("the_place_of_a_process_follows_the_room_of_those_before"),),
    ),
    Mutant(
        "places beyond 2^32 that are those before",
        "dpbt/privacy/mechanisms/structure.py",
        "data = jnp.where(low < first, beyond, here)",
        "data = here",
        (sums("a_place_has_its_part_in_every_block"),),
    ),
    Mutant(
        "trees of one pass with one noise",
        "dpbt/training/blocks.py",
        "return own[int(context.number)] if",
        "return own[0] if",
        (fits("releases_are_those_of_a_fit_in_memory[disjoint]"),),
    ),
    Mutant(
        "a checkpoint that goes on with other trees",
        "dpbt/training/checkpoint.py",
        'key_words(public_key, f"public {salt}")',
        'key_words(None, f"public {salt}")',
        (kept("a_run_of_a_forest_goes_on_with_both_keys_and_is_paid_for_once"),),
    ),
    Mutant(
        "sums of chunks in 32 bits",
        "dpbt/privacy/totals.py",
        "lambda part: np.asarray(part).astype(np.int64), dict(second)",
        "lambda part: np.asarray(part).astype(np.int32).astype(np.int64) % 2**31, dict(second)",
        ("tests/test_block_sums.py::test_sums_over_parts_add_up_to_those_of_the_table",),
    ),
    Mutant(
        "large totals without noise",
        "dpbt/privacy/totals.py",
        "limbs, spec.told, spec.scale)",
        "limbs, spec.told, 0 * spec.scale)",
        (sums("large_totals_have_the_noise_of_small_ones"),),
    ),
    Mutant(
        "a process that draws from its own rows",
        "dpbt/training/processes.py",
        "    together = gathered(np.concatenate([leaf.reshape(-1) for leaf in leaves])).sum(axis=0)",
        "    together = np.concatenate([leaf.reshape(-1) for leaf in leaves])",
        ("tests/test_processes.py::test_sums_of_64_bits_travel_as_words",),
    ),
    Mutant(
        "a level that adds the last hypothesis again",
        "dpbt/training/blocks.py",
        "            pending = None  # the scores have it now",
        "            pass",
        (fits("releases_are_those_of_a_fit_in_memory[objective]"),),
    ),
    Mutant(
        "sums of a later stage without the splits above",
        "dpbt/training/blocks.py",
        "_on_host([totals.read(release) for release in released])",
        "_on_host([{k: 0 * v for k, v in totals.read(each).items()} for each in released])",
        (fits("releases_are_those_of_a_fit_in_memory[objective]"),),
    ),
    Mutant(
        "a bin that is counted below its own split",
        "dpbt/learners/trees.py",
        "bins.high.astype(jnp.int32) + 1",
        "bins.high.astype(jnp.int32)",
        (level("sums_by_bin_are_the_products"),),
    ),
    Mutant(
        "a sum that follows from a draw of its own stage",
        "dpbt/privacy/pricing.py",
        "if not order or total & set(order[-1]):",
        "if not order:",
        (sums("stages_follow_from_what_sums_read"),),
    ),
    Mutant(
        "what a draw is told follows from rows",
        "dpbt/privacy/pricing.py",
        "if ROWS in told or (public",
        "if (public",
        (sums("programs_that_need_all_rows_at_once_are_refused"),),
    ),
    Mutant(
        "a release of a checkpoint that another part draws",
        "dpbt/training/blocks.py",
        "if not alike or not 0",
        "if not 0",
        ("tests/test_hostile_files.py::test_a_release_that_was_changed_and_packed_is_refused",),
    ),
    Mutant(
        "a checkpoint of any run",
        "dpbt/training/checkpoint.py",
        "            if names.get(name) != words:",
        "            if False:",
        (kept("a_run_of_a_forest_goes_on_with_both_keys_and_is_paid_for_once"),),
    ),
    Mutant(
        "a round that is released twice",
        "dpbt/training/checkpoint.py",
        "            if _packed(*known) != packed:",
        "            if False:",
        (kept("one_round_is_released_once"),),
    ),
    Mutant(
        "keys that stay in a checkpoint",
        "dpbt/training/checkpoint.py",
        "secure_delete = ON",
        "secure_delete = OFF",
        (kept("the_keys_are_in_the_file_until_the_run_is_finished"),),
    ),
    Mutant(
        "a checkpoint that others may read",
        "dpbt/training/checkpoint.py",
        "or found.st_mode & 0o077)",
        ")",
        (kept("a_file_that_is_none_or_damaged_is_refused_by_name"),),
    ),
    Mutant(
        "a refused payment that leaves a checkpoint",
        "dpbt/training/blocks.py",
        "                kept.give_up()",
        "                pass",
        (kept("what_is_refused_is_not_paid_for_and_leaves_nothing"),),
    ),
]
