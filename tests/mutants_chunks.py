"""Mutants of learning from chunks, of its checkpoints, and of several processes."""

from mutation import Mutant


def chunks(name: str) -> str:
    return f"tests/test_chunks.py::test_{name}"


CHUNKS = [
    Mutant(
        "a checkpoint that goes on under another key",
        "dpbt/checkpoints.py",
        "            if run.get(name) != words:",
        "            if name != 'key' and run.get(name) != words:",
        (chunks("a_checkpoint_is_of_one_run"),),
    ),
    Mutant(
        "a checkpoint that goes on with another table",
        "dpbt/checkpoints.py",
        "            if run.get(name) != words:",
        "            if name != 'table' and run.get(name) != words:",
        (chunks("a_checkpoint_is_of_one_run"),),
    ),
    Mutant(
        "sums of chunks in 32 bits",
        "dpbt/privacy/totals.py",
        "np.asarray(part).astype(np.int64) for site",
        "np.asarray(part).astype(np.int32).astype(np.int64) % 2**31 for site",
        (chunks("sums_over_parts_add_up_to_those_of_the_table"),),
    ),
    Mutant(
        "large totals without noise",
        "dpbt/privacy/totals.py",
        "high, low, ask.scale)",
        "high, low, 0 * ask.scale)",
        (chunks("large_totals_have_the_noise_of_small_ones"), chunks("sums_go_beyond_int32")),
    ),
    Mutant(
        "all rows of chunks count",
        "dpbt/passes.py",
        "            if not counted:",
        "            if False:",
        (chunks("the_first_present_rows_count"),),
    ),
    Mutant(
        "rows of every process count from the first",
        "dpbt/passes.py",
        "list(_blocks(table, int(recipe.rows), room.block, before))",
        "list(_blocks(table, int(recipe.rows), room.block))",
        ("tests/test_processes.py::test_a_pass_counts_rows_after_those_of_earlier_processes",),
    ),
    Mutant(
        "a process that draws from its own rows",
        "dpbt/processes.py",
        "    together = gathered(np.concatenate([totals[site].reshape(-1) for site in sites]))"
        ".sum(axis=0)",
        "    together = np.concatenate([totals[site].reshape(-1) for site in sites])",
        ("tests/test_processes.py::test_sums_of_64_bits_travel_as_words",),
    ),
]
