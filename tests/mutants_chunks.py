"""Mutants of learning from chunks, of its checkpoints, and of several processes."""

from mutation import Mutant


def chunks(name: str) -> str:
    return f"tests/test_block_fits.py::test_{name}"


def forests(name: str) -> str:
    return f"tests/test_block_forests.py::test_{name}"


def trees(name: str) -> str:
    return f"tests/test_block_trees.py::test_{name}"


def level(name: str) -> str:
    return f"tests/test_trees.py::test_{name}"


def together(name: str) -> str:
    return f"tests/test_processes.py::test_{name}"


def commands(name: str) -> str:
    return f"tests/test_block_commands.py::test_{name}"


CHUNKS = [
    Mutant(
        "a block that takes its first row for that of its chunk",
        "dpbt/training/passes.py",
        "first, count, place + first, admitted)",
        "first, count, place, admitted)",
        (together("rows_have_places_after_those_of_earlier_processes"),),
    ),
    Mutant(
        "blocks whose places begin anew in each chunk",
        "dpbt/training/passes.py",
        "        place += rows\n",
        "        place += 0\n",
        (forests("releases_are_those_of_a_forest_in_memory[disjoint]"),),
    ),
    Mutant(
        "rows of every process have the places of the first",
        "dpbt/training/passes.py",
        "plan.block, before, first))",
        "plan.block, before, 0))",
        (together("rows_have_places_after_those_of_earlier_processes"),),
    ),
    Mutant(
        "places that count the present rows of earlier processes",
        "dpbt/training/processes.py",
        "return Place(shown, every, most, room)",
        "return Place(shown, every, most, shown)",
        (together("the_place_of_a_process_follows_the_room_of_those_before"),),
    ),
    Mutant(
        "places beyond 2^32 that are those before",
        "dpbt/privacy/mechanisms/structure.py",
        "data = jnp.where(low < first, beyond, here)",
        "data = here",
        (forests("a_place_has_its_part_in_every_block"),),
    ),
    Mutant(
        "all places of one 2^32 have one key",
        "dpbt/privacy/mechanisms/structure.py",
        "return _bits_at(jax.random.wrap_key_data(data, impl=jax.random.key_impl(key)), low)",
        "return _bits_at(jax.random.wrap_key_data(data, impl=jax.random.key_impl(key)), first)",
        (forests("a_place_has_its_part_in_every_block"),),
    ),
    Mutant(
        "trees of one pass with one noise",
        "dpbt/training/blocks.py",
        'return own[int(context.number)] if part == "rounds" else own',
        'return own[0] if part == "rounds" else own',
        (commands("a_folder_gives_the_model_of_the_file[forest]"),),
    ),
    Mutant(
        "blocks of several classes as large as those of two",
        "dpbt/training/memory.py",
        "_MAX_SCORES // classes",
        "_MAX_SCORES",
        ("tests/test_block_fits.py::test_scores_of_several_classes_bound_the_blocks",),
    ),
    Mutant(
        "trees of one pass with the sums of the first",
        "dpbt/training/passes.py",
        "return jax.tree.map(lambda sums: sums[number], self.totals)",
        "return jax.tree.map(lambda sums: sums[0], self.totals)",
        (commands("a_folder_gives_the_model_of_the_file[forest]"),),
    ),
    Mutant(
        "a checkpoint that goes on with other trees",
        "dpbt/training/checkpoint.py",
        '"public key": public_words(public_key, salt),',
        '"public key": public_words(None, salt),',
        (forests("a_run_of_a_forest_goes_on_with_both_keys"),),
    ),
    Mutant(
        "a kept key that goes on with other trees",
        "dpbt/cli/chunked.py",
        'public = public_words(pair.public_key, "")',
        'public = public_words(None, "")',
        (commands("a_key_is_of_one_public_key"),),
    ),
    Mutant(
        "processes that may draw different trees",
        "dpbt/training/blocks.py",
        "public_key=public_words(public_key, recipe.name),",
        "public_key=public_words(None, recipe.name),",
        (forests("processes_with_other_trees_are_refused"),),
    ),
    Mutant(
        "a checkpoint that goes on under another key",
        "dpbt/training/checkpoint.py",
        "            if run.get(name) != words:",
        "            if name != 'key' and run.get(name) != words:",
        (chunks("a_checkpoint_is_of_one_run"),),
    ),
    Mutant(
        "a checkpoint that goes on with another table",
        "dpbt/training/checkpoint.py",
        "            if run.get(name) != words:",
        "            if name != 'table' and run.get(name) != words:",
        (chunks("a_checkpoint_is_of_one_run"),),
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
        "*_limbs(value), asked.scale)",
        "*_limbs(value), 0 * asked.scale)",
        (chunks("large_totals_have_the_noise_of_small_ones"), chunks("sums_go_beyond_int32")),
    ),
    Mutant(
        "all rows of chunks count",
        "dpbt/training/passes.py",
        "            if not counted:",
        "            if False:",
        (chunks("the_first_present_rows_count"),),
    ),
    Mutant(
        "rows of every process count from the first",
        "dpbt/training/passes.py",
        "plan.block, before, first))",
        "plan.block, 0, first))",
        ("tests/test_processes.py::test_a_pass_counts_rows_after_those_of_earlier_processes",),
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
        "            pending, cap = None, found.cap  # the scores have it now",
        "            cap = found.cap",
        (trees("releases_are_those_of_a_fit_in_memory[objective]"),),
    ),
    Mutant(
        "splits of a level that do not see its noisy errors",
        "dpbt/training/blocks.py",
        "known = {**zeros, **totals.read(release)}",
        "known = zeros",
        (trees("releases_are_those_of_a_fit_in_memory[objective]"),),
    ),
    Mutant(
        "sums of a later stage without the splits above",
        "dpbt/training/blocks.py",
        "_on_host([totals.read(release) for release in released])",
        "_on_host([{k: 0 * v for k, v in totals.read(each).items()} for each in released])",
        (trees("releases_are_those_of_a_fit_in_memory[objective]"),),
    ),
    Mutant(
        "selections from the low words of large sums",
        "dpbt/privacy/totals.py",
        "variates.double(high) * np.float64(2**LIMB) + variates.double(low)",
        "variates.double(low)",
        (trees("splits_are_drawn_from_sums_beyond_int32"),),
    ),
    Mutant(
        "functions that are compiled on their own are not looked into",
        "dpbt/privacy/tracing.py",
        'step.primitive.name in ("jit", "pjit")',
        "False",
        (trees("stages_follow_from_what_sums_read"),),
    ),
    Mutant(
        "a cell that is counted below its own split",
        "dpbt/learners/trees.py",
        "cells.high.astype(jnp.int32) + 1",
        "cells.high.astype(jnp.int32)",
        (level("sums_by_cell_are_the_products"),),
    ),
    Mutant(
        "a row by cells that is right of every lower cell",
        "dpbt/learners/hypotheses/trees.py",
        "return (low[:, None] <= cell) & (cell <= high[:, None])",
        "return cell <= high[:, None]",
        (level("rows_by_cells_go_where_their_splits_say"),),
    ),
    Mutant(
        "a sum that follows from a draw of its own stage",
        "dpbt/privacy/tracing.py",
        "if not order or each.total & set(order[-1]):",
        "if not order:",
        (trees("stages_follow_from_what_sums_read"),),
    ),
    Mutant(
        "what a draw is told follows from rows",
        "dpbt/privacy/tracing.py",
        "if ROWS in each.told or (public",
        "if (public",
        (trees("what_is_told_of_a_draw_follows_from_no_row"),),
    ),
    Mutant(
        "a release of a checkpoint that another part draws",
        "dpbt/training/blocks.py",
        "if not alike or not 0",
        "if not 0",
        ("tests/test_hostile_files.py::test_a_release_that_was_changed_and_signed_is_refused",),
    ),
    Mutant(
        "zeros of another type for the part of each place",
        "dpbt/training/blocks.py",
        "noisy = draw.mechanism.price.reads_rows and not",
        "noisy = not",
        (forests("a_large_table_has_leaves_of_64_bits"),),
    ),
]
