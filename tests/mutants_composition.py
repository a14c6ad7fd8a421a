"""Mutants of sums of ledgers and of purses."""

from mutation import Mutant


def composition(test: str) -> str:
    return f"tests/test_composition.py::test_{test}"


def purse(test: str) -> str:
    return f"tests/test_purse.py::test_{test}"


def purse_file(test: str) -> str:
    return f"tests/test_purse_files.py::test_{test}"


COMPOSITION = [
    Mutant(
        "a sum with the largest delta",
        "dpbt/privacy/accounting/ledger.py",
        "return math.fsum(part.delta or part.sampler_delta for part in parts)",
        "return max(part.delta for part in parts)",
        (composition("a_sum_has_all_lines_with_their_release_and_the_sum_of_the_deltas"),),
    ),
    Mutant(
        "a sum of two relations",
        "dpbt/privacy/accounting/ledger.py",
        "if part.relation is not first.relation:",
        "if False:",
        (composition("relations_people_and_deltas_must_fit"),),
    ),
    Mutant(
        "a sum that hides a research key",
        "dpbt/privacy/accounting/ledger.py",
        'if "research" in kinds:',
        'if kinds == {"research"}:',
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
        "dpbt/privacy/mechanisms/prices.py",
        "dp_event.DiscreteLaplaceDpEvent(1 / scale, math.ceil(sensitivity))",
        "dp_event.LaplaceDpEvent(2 * scale / sensitivity)",
        (composition("the_accountants_of_dp_accounting_agree"),),
    ),
    Mutant(
        "a purse that forgets what it paid for",
        "dpbt/purse.py",
        "            self._spent = now",
        "            pass",
        (purse("a_budget_of_epsilon_is_spent_exactly"),),
    ),
    Mutant(
        "a purse that pays after the fit",
        "dpbt/purse.py",
        "        self.take(recipe, key)\n        return _fit_of(recipe)("
        "key, table, recipe, public_key, keep_withheld=keep_withheld)",
        "        model = _fit_of(recipe)(key, table, recipe, public_key)\n"
        "        self.take(recipe, key)\n        return model",
        (purse("a_fit_that_fails_stays_paid_for"),),
    ),
    Mutant(
        "a purse that rounds costs to the nearest float",
        "dpbt/privacy/filters.py",
        "return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)",
        "return nearest",
        (purse("costs_are_rounded_up"),),
    ),
    Mutant(
        "a purse that adds up floats",
        "dpbt/privacy/filters.py",
        "sum((Fraction(each.cost) for each in charges), Fraction(0)),",
        "Fraction(sum(each.cost for each in charges)),",
        (purse("the_boundary_is_exact"),),
    ),
    Mutant(
        "a purse of epsilon that pays for no bits",
        "dpbt/privacy/filters.py",
        "        cost += 2 * gap",
        "        pass",
        (purse("finite_bits_are_paid_for"),),
    ),
    Mutant(
        "a purse of rho that pays for no bits",
        "dpbt/privacy/filters.py",
        "        cost += gap * (2 * order - 1) / (order * (order - 1))",
        "        pass",
        (purse("finite_bits_are_paid_for"),),
    ),
    Mutant(
        "a purse that lets finite bits cost what they may",
        "dpbt/purse.py",
        "if gap > self._limits.gap or tail > self._limits.tail:",
        "if False:",
        (purse("finite_bits_are_paid_for"),),
    ),
    Mutant(
        "a purse whose rho forgets the order of its bound",
        "dpbt/privacy/filters.py",
        "    rho = (epsilon - offset) / alpha",
        "    rho = epsilon - offset",
        (purse("the_limits_give_the_epsilon_of_the_purse"),),
    ),
    Mutant(
        "a purse of mu that takes what is not Gaussian",
        "dpbt/privacy/filters.py",
        'if measure == "mu" and not book.gaussian:',
        "if False:",
        (purse("recipes_that_no_sum_covers_are_refused_in_words_and_cost_nothing"),),
    ),
    Mutant(
        "a purse that takes a paper's claim",
        "dpbt/privacy/filters.py",
        "    if book.unprotected:",
        "    if False:",
        (purse("recipes_that_no_sum_covers_are_refused_in_words_and_cost_nothing"),),
    ),
    Mutant(
        "a purse that takes real noise",
        "dpbt/privacy/filters.py",
        "    if not book.exact:",
        "    if False:",
        (purse("float_noise_is_refused"),),
    ),
    Mutant(
        "a purse that takes another relation",
        "dpbt/purse.py",
        "if book.relation is not self.relation:",
        "if False:",
        (purse("recipes_that_no_sum_covers_are_refused_in_words_and_cost_nothing"),),
    ),
    Mutant(
        "a purse that takes a recipe for other people",
        "dpbt/purse.py",
        "if book.rows_per_person != self.rows_per_person:",
        "if False:",
        (purse("recipes_that_no_sum_covers_are_refused_in_words_and_cost_nothing"),),
    ),
    Mutant(
        "a purse that takes a recipe for another number of rows",
        "dpbt/purse.py",
        "if book.rows != self.rows:",
        "if False:",
        (purse("free_refusals_do_not_tell_how_many_rows_there_are"),),
    ),
    Mutant(
        "a purse that pays twice for one key",
        "dpbt/purse.py",
        "if release.mark is not None and release.mark in {each.mark for each in spent}:",
        "if False:",
        (purse("a_key_pays_for_one_fit"), purse_file("a_file_knows_the_keys_of_its_releases")),
    ),
    Mutant(
        "a purse that pays for the scale of the event",
        "dpbt/privacy/accounting/events.py",
        "scale = self.scale if self.drawn is None else min(self.scale, self.drawn)",
        "scale = self.scale",
        (purse("a_smaller_scale_than_the_event_has_is_paid_for"),),
    ),
    Mutant(
        "a ledger that does not read the scale that is drawn",
        "dpbt/privacy/accounting/events.py",
        "    return min(surely, _least(draw) * unit)",
        "    return scale",
        (purse("a_line_costs_what_the_scale_that_is_drawn_costs"),),
    ),
    Mutant(
        "a purse that replaces a link",
        "dpbt/privacy/pursefiles.py",
        "        return path.resolve()",
        "        return path.absolute()",
        (purse_file("links_to_a_file_lead_to_one_budget"),),
    ),
    Mutant(
        "a purse under two names",
        "dpbt/privacy/pursefiles.py",
        "if os.fstat(file.fileno()).st_nlink > 1:",
        "if False:",
        (purse_file("a_file_with_a_second_name_is_refused"),),
    ),
    Mutant(
        "a purse that everybody may read",
        "dpbt/privacy/pursefiles.py",
        "mode=0o600, durable=True",
        "durable=True",
        (purse_file("a_file_keeps_its_permissions_and_one_that_is_not_to_be_written_is_not"),),
    ),
    Mutant(
        "a purse that a crash may undo",
        "dpbt/privacy/pursefiles.py",
        "mode=0o600, durable=True",
        "mode=0o600",
        (purse_file("a_charge_is_on_the_disk_before_it_counts"),),
    ),
    Mutant(
        "a purse that replaces a file which may not be written",
        "dpbt/privacy/pursefiles.py",
        "if not path.stat().st_mode & 0o222 or not os.access(path, os.W_OK):",
        "if False:",
        (purse_file("a_file_keeps_its_permissions_and_one_that_is_not_to_be_written_is_not"),),
    ),
    Mutant(
        "a lock of a file that is gone",
        "dpbt/storage.py",
        "            if _is_at(file.fileno(), lock):",
        "            if True:",
        (purse_file("a_lock_whose_file_was_removed_is_taken_again"),),
    ),
    Mutant(
        "a purse without a lock",
        "dpbt/storage.py",
        "            fcntl.flock(file, mode)",
        "            pass",
        (purse_file("two_purses_of_one_file_in_two_threads_share_a_budget"),),
    ),
    Mutant(
        "a purse that spends before it reads its file",
        "dpbt/purse.py",
        "spent = self._read(self._path)",
        "spent = self._spent",
        (purse_file("purses_of_one_file_share_a_budget"),),
    ),
    Mutant(
        "a purse that is not written",
        "dpbt/purse.py",
        "                pursefiles.write(self._path, self._identity, self._terms, now)",
        "                pass",
        (purse_file("purses_of_one_file_share_a_budget"),),
    ),
    Mutant(
        "an old copy of a purse's file",
        "dpbt/purse.py",
        "if spent[:known] != self._spent:",
        "if False:",
        (purse_file("an_old_copy_and_another_purse_are_noticed"),),
    ),
    Mutant(
        "a purse that is saved over another",
        "dpbt/purse.py",
        "    if path.exists():",
        "    if False:",
        (purse_file("files_are_never_overwritten_and_never_doubled"),),
    ),
    Mutant(
        "a purse that a forked process spends again",
        "dpbt/purse.py",
        "if os.getpid() != self._process:",
        "if False:",
        (purse_file("a_purse_without_a_file_is_of_one_process"),),
    ),
]
