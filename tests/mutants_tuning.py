"""Mutants of tuning; `mutants` runs them."""

from mutation import Mutant


def runs(test: str) -> str:
    return f"tests/test_runs.py::test_{test}"


def tuning(test: str) -> str:
    return f"tests/test_tuning.py::test_{test}"


def choosing(test: str) -> str:
    return f"tests/test_choosing.py::test_{test}"


TUNING = [
    Mutant(
        "a number of runs that is cut",
        "dpbt/tuning/choosing.py",
        "    return k\n",
        "    return min(k, 16)\n",
        (runs("the_number_that_is_drawn_has_its_law_and_no_bound"),),
    ),
    Mutant(
        "the best of full batches",
        "dpbt/tuning/choosing.py",
        "    number = drawn_count(count_key, made.choice.count)\n",
        "    number = -(-drawn_count(count_key, made.choice.count) // 4) * 4\n",
        (choosing("the_best_is_of_as_many_runs_as_were_drawn"),),
    ),
    Mutant(
        "a score without noise",
        "dpbt/tuning/selections.py",
        "            sensitivity=score.sensitivity(relation, noise),",
        "            sensitivity=0.0,",
        (tuning("an_exact_audit_of_a_choice_on_all_neighbours"),),
    ),
    Mutant(
        "the dearer of fit and score under replace-one",
        "dpbt/tuning/selections.py",
        "return self.held_out is not None and relation is ADD_REMOVE",
        "return self.held_out is not None",
        (tuning("candidates_cost_what_was_asked_for"),),
    ),
    Mutant(
        "held-out rows are learned from",
        "dpbt/tuning/choosing.py",
        "taught, held = table.present & ~scored, table.present & scored",
        "taught, held = table.present, table.present & scored",
        (tuning("fits_and_scores_read_disjoint_rows"),),
    ),
    Mutant(
        "a tuned model with the ledger of one run",
        "dpbt/release/model.py",
        "    if model.choice is not None:",
        "    if False:",
        (tuning("a_tuned_model_carries_the_ledger_of_its_choice"),),
    ),
    Mutant(
        "a pure choice at 1 + eta",
        "dpbt/privacy/accounting/conversions.py",
        "epsilon if count.gamma == 1 else (2 + count.eta) * epsilon",
        "epsilon if count.gamma == 1 else (1 + count.eta) * epsilon",
        (runs("the_pure_bound_holds_and_is_attained_nearly"),),
    ),
    Mutant(
        "a Gaussian choice without its ratio of events",
        "dpbt/privacy/accounting/conversions.py",
        "+ (1 + count.eta) * log_ratio(mu, count.gamma)",
        "+ 0 * log_ratio(mu, count.gamma)",
        (runs("the_gaussian_bound_holds_and_renyi_is_never_better"),),
    ),
    Mutant(
        "a sum composes the lines of one run of a choice",
        "dpbt/privacy/accounting/ledger.py",
        "    if any(part.choice is not None for part in parts):",
        "    if False:",
        ("tests/test_composition.py::test_a_choice_adds_up_with_nothing_and_is_refused_in_words",),
    ),
    Mutant(
        "one key for all runs",
        "dpbt/tuning/choosing.py",
        "_folded(runs_key, run)",
        "_folded(runs_key, 0)",
        (choosing("every_run_has_a_key_of_its_own"),),
    ),
    Mutant(
        "a choice is exact if its released candidate is",
        "dpbt/privacy/accounting/ledger.py",
        "        chosen = self.choice is None or self.choice.exact",
        "        chosen = True",
        (tuning("a_choice_is_float_if_any_candidate_is"),),
    ),
    Mutant(
        "two choices under one key share noise",
        "dpbt/tuning/choosing.py",
        'return f"{selection!r} | {made.line.mechanism} {noise} | {digest.hexdigest()}"',
        'return f"{made.line.mechanism}"',
        (tuning("one_key_gives_one_choice_and_other_numbers_another"),),
    ),
]
