"""One interface of prediction, and models in words, for all hypotheses."""

import dataclasses
import itertools
import re
from typing import NamedTuple

import jax
import numpy as np
import pytest

import dpbt
from dpbt import recipes
from dpbt.data import domains
from dpbt.data.domains import Boolean, Nominal, Numeric
from dpbt.data.splits import table_of_splits
from dpbt.learners.trees.model import TREES
from dpbt.models import model as prediction
from tests.support.random_models import random_model

DOMAIN = {"age": Numeric(0, 100, bins=10), "job": Nominal(("a", "b")), "member": Boolean()}
ROWS = 120


@pytest.fixture(scope="module")
def columns():
    rng = np.random.default_rng(0)
    return {
        "age": rng.uniform(0, 100, ROWS),
        "job": rng.choice(["a", "b"], ROWS),
        "member": rng.random(ROWS) < 0.5,
    }


@pytest.fixture(scope="module")
def table(columns):
    return dpbt.table(DOMAIN, columns, columns["age"] > 55, negative="0", positive="1")


MAKERS = {
    "bdpe": lambda: recipes.bdpe(epsilon=np.inf, rows=ROWS, rounds=3, depth=2),
    "rules": lambda: recipes.lazybb_rules(epsilon=np.inf, rows=ROWS, rounds=3),
    "halfspace": lambda: recipes.halfspace_boost(epsilon=np.inf, rows=ROWS, rounds=3),
    "forest": lambda: recipes.random_forest(epsilon=np.inf, rows=ROWS, rounds=9, depth=4),
}


DEPTHS = {"bdpe": 2, "rules": 1, "halfspace": 0, "forest": 4}


@pytest.fixture(scope="module", params=MAKERS)
def model(request):
    return random_model(MAKERS[request.param](), DEPTHS[request.param], DOMAIN)


def test_answers_are_signs_of_scores_or_votes(model, table):
    score = np.asarray(dpbt.decision_function(model, table))
    answers = np.asarray(dpbt.predict(model, table))
    np.testing.assert_array_equal(answers, score > 0)
    if model.recipe.name != "random_forest":
        with pytest.raises(ValueError, match="no shares"):
            dpbt.predict(model, table, "majority")
        return
    np.testing.assert_array_equal(dpbt.predict(model, table, "majority"), answers)
    stated = np.asarray(prediction.shares(model, table))
    assert stated.shape == (9, ROWS)
    shares = np.asarray(dpbt.predict_proba(model, table))
    np.testing.assert_allclose(shares[:, 1], stated.mean(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(shares[:, 0], 1 - shares[:, 1])
    by_mean = np.asarray(dpbt.predict(model, table, "threshold"))
    np.testing.assert_array_equal(by_mean, shares[:, 1] > 0.5)


def score_by_words(lines, row):
    """What the words of one tree say of a row: they are read as a person would."""
    indent = len(lines[0]) - len(lines[0].lstrip())
    first = lines[0].strip()
    if not first.startswith("if "):
        return float(first.split()[-1])
    depth = " " * indent
    otherwise = lines.index(f"{depth}else:")
    return score_by_words(
        lines[1:otherwise] if is_true_of_row(first[3:-1], row) else lines[otherwise + 1 :], row
    )


def is_true_of_row(predicate, row):
    if " > " in predicate:
        column, threshold = predicate.split(" > ")
        return row[column] > float(threshold)
    if " = " in predicate:
        column, value = predicate.split(" = ")
        return row[column] == value
    return bool(row[predicate])


class TextOfTrees(NamedTuple):
    """The lines of each tree, and how many trees are left out and what these add up to."""

    trees: list[list[str]]
    num_left_out: int
    sum_of_left_out: float


def parse_trees(text):
    """Parse what `explain` says of a model of trees."""
    text, _, rest = text.partition("\nleft out: ")
    blocks = [block.splitlines() for block in re.split(r"(?:^|\n)tree \d+\n", text)[1:]]
    if not rest:
        return TextOfTrees(blocks, num_left_out=0, sum_of_left_out=0.0)
    numbers = re.findall(r"[+-]?\d\.\d{4}", rest)
    return TextOfTrees(
        blocks, num_left_out=int(rest.split(" of ")[0]), sum_of_left_out=sum(map(float, numbers))
    )


def test_branches_and_trees_that_say_the_same_are_shown_once():
    """The trees have a repeated split, an unsplit node, equal leaves, and equal trees."""
    split = np.array([[4, 4, 2], [4, -1, 9], [0, 1, 2]], np.int32)
    leaf = np.array([[1, 9, 2, 2], [3, 8, 3, 3], [1, -1, 1, -1]], np.float32)
    table_splits = dpbt.domains.splits(DOMAIN)
    assert TREES.describe(
        dpbt.Tree(split, leaf), table_splits, DOMAIN, None, None
    ).splitlines() == [
        "score of a row: the sum of what the trees add; positive above 0",
        "tree 1",
        "  if age > 50:",
        "    add +2.0000",
        "  else:",
        "    add +1.0000",
        "tree 2",
        "  add +3.0000",
        "tree 3",
        "  if age > 10:",
        "    if age > 30:",
        "      add -1.0000",
        "    else:",
        "      add +1.0000",
        "  else:",
        "    add +1.0000",
    ]


def test_the_words_of_a_model_are_what_it_computes(model, table, columns):
    """Each tree's words, read row by row, give its scores, or the shares that it states."""
    text = dpbt.explain(model, DOMAIN)
    if model.recipe.name == "halfspace_boost":
        assert text.startswith("score of a row: the sum of weight times position")
        weights = text.split("weight   attribute\n")[1].splitlines()
        assert len(weights) == 1 + 2 + 1
        return
    parsed = parse_trees(text)
    assert len(parsed.trees) + parsed.num_left_out == int(model.recipe.rounds)
    score_by_text = np.full(ROWS, parsed.sum_of_left_out)
    for row_index in range(ROWS):
        row = {name: bins[row_index] for name, bins in columns.items()}
        score_by_text[row_index] += sum(score_by_words(lines, row) for lines in parsed.trees)
    if model.recipe.name == "random_forest":
        expected = np.asarray(prediction.shares(model, table)).sum(axis=0)
    else:
        expected = np.asarray(dpbt.decision_function(model, table))
    np.testing.assert_allclose(score_by_text, expected, atol=1e-3)


def test_words_are_refused_for_another_domain_and_for_exact_numbers():
    model = random_model(MAKERS["bdpe"](), 2, DOMAIN)
    model_of_exact_numbers = dataclasses.replace(model, splits=None)
    for explained, domain, message in (
        (model, {**DOMAIN, "age": Numeric(0, 100, bins=11)}, "other splits"),
        (model_of_exact_numbers, DOMAIN, "exact numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            dpbt.explain(explained, domain)


def test_arguments_in_each_others_place_are_refused_by_name(table, columns):
    model = random_model(MAKERS["forest"](), 2, DOMAIN)
    recipe, key = model.recipe, jax.random.key(0)
    fits = ((dpbt.fit, key, recipe, recipe), (dpbt.boost, key, {"bins": table.bins}, recipe))
    for message, (function, *arguments) in (
        *((r"expected a table, as", fit) for fit in fits),
        (r"expected a recipe of dpbt.recipes", (dpbt.fit, key, table, recipes.bdpe)),
        (r"expected a transcript", (dpbt.replay, table, table, recipe)),
        (r"needs a recipe or a model, got", (dpbt.ledger, table)),
        (r"expected a model.*the model comes first", (dpbt.predict, table, model)),
        (r"expected a model.*the model comes first", (prediction.shares, None, model)),
        (r"encode raw columns by dpbt.domains.encode\(domain", (dpbt.predict, model, columns)),
        (r"rows must be an array.*got .*domains.encode\(", (dpbt.predict, model, [[30, "smith"]])),
    ):
        with pytest.raises(ValueError, match=message):
            function(*arguments)
    with pytest.raises(ValueError, match="key must be a typed key, got int"):
        dpbt.predict(model, table, "probabilistic", 5)


def test_raw_columns_in_place_of_bins_are_refused(tmp_path):
    """A column of ages of the dtype of bins would be read as bins, and predicted wrongly."""
    model = random_model(MAKERS["bdpe"](), 2, DOMAIN)
    dpbt.save(model, tmp_path / "model.json", domain=DOMAIN)
    loaded = dpbt.load(tmp_path / "model.json")
    fitted = dataclasses.replace(model, domain=domains.as_declared_domain(DOMAIN))
    n_bins = [kind.n_bins for kind in DOMAIN.values()]
    largest = np.array([n_bins], np.uint8) - np.uint8(1)
    predictors = [dpbt.predict, dpbt.predict_proba, dpbt.decision_function]
    predictors += [lambda model, rows: model.predict_all(rows)]
    for any_model, predict in itertools.product((loaded, fitted), predictors):
        predict(any_model, largest)  # bins that the domain has
        predict(any_model, largest[:0])
        for column, name in enumerate(DOMAIN):
            raw = np.repeat(largest, 3, axis=0)
            raw[1, column] += 1
            for rows in (raw, jax.numpy.asarray(raw), np.asfortranarray(raw)):
                with pytest.raises(ValueError, match=f"column '{name}' has {n_bins[column]} of"):
                    predict(any_model, rows)


def test_numbers_and_splits_that_no_encoder_makes_are_refused():
    model_of_exact_numbers = random_model(MAKERS["forest"](), 4, DOMAIN, exact=True)
    model_of_exact_numbers = dataclasses.replace(
        model_of_exact_numbers, domain=domains.as_declared_domain(DOMAIN)
    )
    positions = domains.encode_positions(
        DOMAIN, {"age": [0, 50], "job": ["a", "b"], "member": [0, 1]}
    )
    dpbt.predict(model_of_exact_numbers, positions)
    for odd_number in (37.0, np.nan, -0.25):
        raw = positions.copy()
        raw[1, 0] = odd_number
        with pytest.raises(ValueError, match="no positions in"):
            dpbt.predict(model_of_exact_numbers, raw)

    rows = np.eye(3, dtype=bool)
    table = table_of_splits(rows, rows[0], rows.any(axis=1))
    recipe = MAKERS["rules"]()
    model_of_splits = dataclasses.replace(random_model(recipe, 1, DOMAIN), features=3)
    feature = np.zeros_like(np.asarray(model_of_splits.hypotheses.split))
    hypotheses = model_of_splits.hypotheses._replace(split=feature)
    model_of_splits = dataclasses.replace(
        model_of_splits, splits=table.splits, hypotheses=hypotheses
    )
    expected = dpbt.predict(model_of_splits, rows)
    np.testing.assert_array_equal(dpbt.predict(model_of_splits, rows.astype(np.uint8)), expected)
    with pytest.raises(ValueError, match="column of Boolean splits has 2 of"):
        dpbt.predict(model_of_splits, rows.astype(np.uint8) * 3)


def test_a_table_is_predicted_whatever_its_bins_are(table):
    """Its rows may be private, and a table that a caller put together is no raw column."""
    model = random_model(MAKERS["bdpe"](), 2, DOMAIN)
    odd = table._replace(bins=jax.numpy.full_like(table.bins, 255), domain=None)
    assert dpbt.predict(model, odd).shape == (ROWS,)
