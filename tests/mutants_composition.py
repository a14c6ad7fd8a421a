"""Mutants of sums of ledgers and of filters."""

from mutation import Mutant


def composition(test: str) -> str:
    return f"tests/test_composition.py::test_{test}"


def of_filter(test: str) -> str:
    return f"tests/test_filter.py::test_{test}"


def of_file(test: str) -> str:
    return f"tests/test_filter_files.py::test_{test}"


FILTER = "dpbt/privacy/filter.py"
CHARGES = "dpbt/privacy/charges.py"

COMPOSITION = [
    Mutant(
        "a sum with the largest delta",
        "dpbt/privacy/accounting/ledger.py",
        "return math.fsum(part.delta or part.sampler_delta for part in parts)",
        "return max(part.delta for part in parts)",
        (composition("a_sum_has_all_lines_with_their_release_and_the_sum_of_the_deltas"),),
    ),
    Mutant(
        "a sum that hides a research key",
        "dpbt/privacy/accounting/ledger.py",
        '"research" if "research" in keys else',
        '"research" if keys == {"research"} else',
        (composition("rows_keys_and_what_is_unprotected_show"),),
    ),
    Mutant(
        "a sum above basic composition",
        "dpbt/privacy/accounting/ledger.py",
        "return min(joint, self._basic_epsilon)",
        "return joint",
        (composition("a_small_pure_part_beside_gaussians_costs_no_more_than_itself"),),
    ),
    Mutant(
        "real Laplace noise in place of integers for loss distributions",
        "dpbt/privacy/accounting/ledger.py",
        "dp_event.DiscreteLaplaceDpEvent(1 / line.scale, math.ceil(line.sensitivity))",
        "dp_event.LaplaceDpEvent(2 / line.epsilon)",
        (composition("the_accountants_of_dp_accounting_agree"),),
    ),
    Mutant(
        "a filter that rounds costs to the nearest float",
        CHARGES,
        "return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)",
        "return nearest",
        (of_filter("costs_are_rounded_up"),),
    ),
    Mutant(
        "a filter that lets finite bits cost what they may",
        FILTER,
        "if gap > limits.gap or tail > limits.tail:",
        "if False:",
        (of_filter("finite_bits_are_paid_for"),),
    ),
    Mutant(
        "a filter whose rho forgets the order of its bound",
        "dpbt/privacy/accounting/conversions.py",
        "        return (finite - offset) / alpha",
        "        return finite - offset",
        (of_filter("the_limits_give_the_epsilon_of_the_filter"),),
    ),
    Mutant(
        "a filter that takes draws of no finite and proved cost",
        CHARGES,
        "    for words, bad in refused.items():",
        "    for words, bad in ():",
        (of_filter("recipes_that_no_sum_covers_are_refused_in_words_and_cost_nothing"),),
    ),
    Mutant(
        "a filter that takes another relation, other people or another number of rows",
        CHARGES,
        "            if value != own:",
        "            if False:",
        (of_filter("recipes_that_no_sum_covers_are_refused_in_words_and_cost_nothing"),),
    ),
    Mutant(
        "a filter that pays twice for one key",
        FILTER,
        "if key is not None and release.key_id in {each.key_id for each in spent}:",
        "if False:",
        (
            of_filter("a_key_pays_for_one_fit"),
            of_file("a_file_knows_the_keys_of_its_releases"),
        ),
    ),
    Mutant(
        "a filter that a crash may undo",
        FILTER,
        "PRAGMA synchronous = EXTRA",
        "PRAGMA synchronous = OFF",
        (of_file("only_its_owner_reads_a_new_file_and_a_crash_undoes_no_charge"),),
    ),
    Mutant(
        "a filter that spends before it holds its file",
        FILTER,
        '"BEGIN IMMEDIATE" if write else "BEGIN"',
        '"SELECT 1"',
        (of_file("nobody_pays_between_reading_and_writing"),),
    ),
    Mutant(
        "an old copy of a filter's file",
        FILTER,
        "if self._seen != texts[: len(self._seen)]:",
        "if False:",
        (of_file("an_old_copy_and_another_filter_are_noticed"),),
    ),
    Mutant(
        "a run that is paid for under the name of another",
        FILTER,
        "return any(run is None or each.run_id == self._id(run.encode()) for each in of_key)",
        "return bool(of_key)",
        (of_file("a_run_is_paid_for_once"),),
    ),
    Mutant(
        "an error that shows what a file holds",
        "dpbt/common/formats.py",
        'if not wrong.startswith(("Expected", "Object missing")):',
        "if False:",
        ("tests/test_formats.py::test_errors_name_the_place_and_never_the_value",),
    ),
]
