"""Mutants of several classes, numbers and weights of rows."""

from mutation import Mutant


def responses(test: str) -> str:
    return f"tests/test_responses.py::test_{test}"


RESPONSES = [
    Mutant(
        "residuals longer than the grid count",
        "dpbt/learners/oblivious_tree.py",
        "    return jnp.where(within[None], whole, 0)",
        "    return whole",
        (responses("residuals_attain_their_sensitivity_and_exceed_it_nowhere"),),
    ),
    Mutant(
        "weights above max_weight",
        "dpbt/data/targets.py",
        "clipped = np.clip(np.nan_to_num(given, nan=0.0), 0.0, self.weight.most)",
        "clipped = np.nan_to_num(given, nan=0.0)",
        (responses("weights_are_read_by_row_and_bounded"),),
    ),
    Mutant(
        "two ranges share noise",
        "dpbt/training/boosting.py",
        "[learner.tag, recipe.weight_update.tag, *once, *target]",
        "[learner.tag, recipe.weight_update.tag, *once]",
        (responses("targets_have_noise_of_their_own"),),
    ),
    Mutant(
        "the bits of one class are paid for",
        "dpbt/learners/oblivious_tree.py",
        "moves=moved_rows(config.relation) * _sums_of_a_row(config),",
        "moves=moved_rows(config.relation),",
        (responses("finite_bits_are_paid_for_each_sum_that_a_row_moves"),),
    ),
    Mutant(
        "constraints of one direction",
        "dpbt/learners/oblivious_tree.py",
        "        lowest = _running(lowest.reshape(shape), -direction[level], jnp.minimum).reshape(-1)",
        "        lowest = _running(lowest.reshape(shape), direction[level], jnp.minimum).reshape(-1)",
        (responses("leaves_are_made_monotone_and_monotone_ones_stay"),),
    ),
    Mutant(
        "smooth boosting takes weights of rows",
        "dpbt/training/checks.py",
        "    if recipe.weight_update.coupled:",
        "    if False:",
        (responses("a_table_and_a_recipe_of_another_target_are_refused_everywhere"),),
    ),
]
