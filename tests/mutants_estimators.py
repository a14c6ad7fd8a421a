"""Mutants of the estimators; `mutants` runs them."""

from mutation import Mutant


def estimator(test: str) -> str:
    return f"tests/test_sklearn.py::test_{test}"


def target(test: str) -> str:
    return f"tests/test_sklearn_targets.py::test_{test}"


ESTIMATORS = [
    Mutant(
        "rows of a list in one array",
        "dpbt/data/frames.py",
        "        return _of_list(list(data), width)\n",
        "        return rows_of(np.asarray(data))\n",
        (
            "tests/test_odd.py::test_estimators_read_odd_cells_as_missing",
            estimator("a_row_of_another_width_has_no_values"),
        ),
    ),
    Mutant(
        "an estimator's table without room",
        "dpbt/sklearn/inputs.py",
        "capacity=None if recipe.relation is REPLACE_ONE else bound,",
        "capacity=None,",
        (estimator("no_shape_shows_the_number_of_rows"),),
    ),
    Mutant(
        "an estimator's classes without a declaration",
        "dpbt/data/declarations.py",
        'if given is None and kind == "b":',
        "if given is None:",
        (estimator("classes_are_declared_and_never_read_off_the_labels"),),
    ),
    Mutant(
        "an estimator with a key of a number",
        "dpbt/sklearn/inputs.py",
        "return keys.noise_and_public(None if random_state is None else int(random_state))",
        "return keys.noise_and_public(0)",
        (estimator("a_second_fit_is_a_model_of_its_own"),),
    ),
    Mutant(
        "one noise on two tables under one seed",
        "dpbt/sklearn/base.py",
        "key = keys.noise_key(key, [private])",
        "pass",
        (
            "tests/test_seeds.py::test_one_seed_has_other_noise_on_other_rows_and_the_same_structure",
        ),
    ),
    Mutant(
        "a pickle with the owner's counts",
        "dpbt/sklearn/base.py",
        'state.pop("owner_report_", None)',
        "pass",
        (estimator("a_pickle_holds_no_key_and_nothing_of_a_rows_length"),),
    ),
    Mutant(
        "weights without a public bound",
        "dpbt/data/targets.py",
        "if self.weight is None:",
        "if self.weight is None and (read_numbers(cells_of(sample_weight)) > 1).any():",
        (target("weights_need_a_public_bound_whatever_they_are"),),
    ),
    Mutant(
        "an estimator that forgets the weights of rows",
        "dpbt/sklearn/base.py",
        'return {**options, "sample_weight": own}',
        "return options",
        (target("what_weighs_nothing_is_absent"),),
    ),
    Mutant(
        "classes in the order in which they are stated",
        "dpbt/data/declarations.py",
        "return np.array(sorted(listed))",
        "return np.array(listed)",
        (target("words_of_classes_are_sorted_and_a_label_beyond_them_is_absent"),),
    ),
    Mutant(
        "an estimator that forgets how many rows a person has",
        "dpbt/sklearn/inputs.py",
        '            raise ValueError(f"the recipe {shown(asked)} {words}")\n        options[name] = value\n',
        '            raise ValueError(f"the recipe {shown(asked)} {words}")\n',
        (target("rows_of_a_person"),),
    ),
]
