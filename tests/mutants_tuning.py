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
        "a fixed number of runs",
        "dpbt/tuning/choosing.py",
        "    return k\n",
        "    return 5\n",
        (runs("the_number_follows_the_key_alone_and_varies"),),
    ),
    Mutant(
        "every candidate once, whatever number was drawn",
        "dpbt/tuning/choosing.py",
        "    chosen = _candidates(candidate_key, number, len(roomy))\n",
        "    chosen = [number * 0 + place for place in range(len(roomy))]\n",
        (choosing("the_best_is_of_as_many_runs_as_were_drawn"),),
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
        "dpbt/tuning/scores.py",
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
        "the dearer of fit and score on the same rows",
        "dpbt/tuning/selections.py",
        "return self.held_out is not None and relation is ADD_REMOVE",
        "return relation is ADD_REMOVE",
        (tuning("a_choice_whose_score_is_not_paid_for_is_caught"),),
    ),
    Mutant(
        "held-out rows are learned from",
        "dpbt/tuning/choosing.py",
        "taught, held = table.present & ~scored, table.present & scored",
        "taught, held = table.present, table.present & scored",
        (tuning("fits_and_scores_read_disjoint_rows"),),
    ),
    Mutant(
        "a part that depends on a row's place",
        "dpbt/tuning/choosing.py",
        "np.full(target.shape, seed, np.uint64)",
        "np.arange(seed, seed + len(target), dtype=np.uint64)",
        (tuning("a_row_is_held_out_by_itself"),),
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
        "dpbt/privacy/accounting/runs.py",
        "epsilon if count.gamma == 1 else (2 + count.eta) * epsilon",
        "epsilon if count.gamma == 1 else (1 + count.eta) * epsilon",
        (runs("the_pure_bound_holds_and_is_attained_nearly"),),
    ),
    Mutant(
        "a Gaussian choice without its ratio of events",
        "dpbt/privacy/accounting/runs.py",
        "+ (1 + count.eta) * log_ratio(mu, count.gamma)",
        "+ 0 * log_ratio(mu, count.gamma)",
        (runs("the_gaussian_bound_holds_and_renyi_is_never_better"),),
    ),
    Mutant(
        "a sum composes the lines of one run of a choice",
        "dpbt/privacy/accounting/ledger.py",
        '"""False: the lines are of one run, and the total is of the best of several."""\n'
        "        return False",
        '"""False: the lines are of one run, and the total is of the best of several."""\n'
        "        return True",
        (
            "tests/test_composition.py::test_pure_choices_add_up",
            "tests/test_composition.py::"
            "test_choices_at_a_delta_add_to_the_joint_total_of_the_others",
        ),
    ),
    Mutant(
        "weights of rows that no score reads",
        "dpbt/tuning/choosing.py",
        "    if table.weight is not None:",
        "    if False:",
        (tuning("targets_and_weights_that_scores_do_not_take_are_refused"),),
    ),
    Mutant(
        "the worst run",
        "dpbt/tuning/choosing.py",
        "return max(runs, key=lambda run: run.value)",
        "return min(runs, key=lambda run: run.value)",
        (choosing("the_best_is_of_as_many_runs_as_were_drawn"),),
    ),
    Mutant(
        "one key for all runs",
        "dpbt/tuning/choosing.py",
        "run_keys = _folded(key, np.asarray(filled, np.uint32))",
        "run_keys = _folded(key, 0 * np.asarray(filled, np.uint32))",
        (choosing("every_run_has_a_key_of_its_own"),),
    ),
    Mutant(
        "a choice is exact if its released candidate is",
        "dpbt/privacy/accounting/choices.py",
        "        return self.choice.exact and super().exact",
        "        return super().exact",
        (tuning("a_choice_is_float_if_any_candidate_is"),),
    ),
    Mutant(
        "two choices under one key share noise",
        "dpbt/tuning/choosing.py",
        'return f"{selection!r} | {made.line.mechanism.name} {noise} | {digest.hexdigest()}"',
        'return f"{made.line.mechanism.name}"',
        (tuning("one_key_gives_one_choice_and_other_numbers_another"),),
    ),
]
