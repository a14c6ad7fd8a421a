"""Domains travel with tables, recipes, models, files and transcripts, and entries compare them."""

import dataclasses
import json
import pickle
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import audit, recipes, sweeps, tuning
from dpbt.__main__ import main
from dpbt.audit import exact_loss
from dpbt.data import domains
from dpbt.data.convert import convert_columns
from dpbt.data.declarations import declared_classes
from dpbt.data.domains import Boolean, DeclaredDomain, Label, Nominal, Numeric
from dpbt.owners import effects, preview
from dpbt.training.fit import num_compiled_programs
from dpbt.training.replay import log_ratios_by_site
from dpbt.types import ADD_REMOVE

ROWS = 120
UNIT = {"x": Numeric(0, 1, bins=8), "on": Boolean()}
OTHERS = {
    "range": ({**UNIT, "x": Numeric(0, 2, bins=8)}, "column 'x' has high 2 in .* and 1 in"),
    "name": ({"z": UNIT["x"], "on": Boolean()}, "column 1 is 'z' in .* and 'x' in"),
    "order": (dict(reversed(UNIT.items())), "column 1 is 'on' in .* and 'x' in"),
}
DIFFERENT = pytest.mark.parametrize(("other", "words"), OTHERS.values(), ids=OTHERS)
KEY = jax.random.key(0)
PURE = {"epsilon": 3.0, "rows": ROWS}


def columns(seed=0):
    rng = np.random.default_rng(seed)
    x, on = rng.random(ROWS), rng.random(ROWS) < 0.5
    return {"x": x, "z": x, "on": on}, x > 0.5


def table_of(domain=UNIT, **options):
    return dpbt.table(domain, *columns(), **options)


def of_domain(domain=UNIT, **options):
    return recipes.oblivious_boost(**PURE, domain=domain, rounds=4, depth=2, **options)


GREEDY = recipes.bdpe(**PURE, criterion="gini", rounds=2, depth=2)


@pytest.fixture(scope="module")
def model():
    return dpbt.fit(KEY, table_of(), of_domain())


# What a domain is, and how two differ.


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (Numeric(0, 1), Numeric(-1, 1), "has low 0 in A and -1 in B"),
        (Numeric(0, 1), Numeric(0, 1, bins=4), "has bins 10 in A and 4 in B"),
        (Numeric(0, 1), Numeric(0, 1, missing=True), "has missing False in A and True in B"),
        (Numeric(0, 1), Numeric(0, 1, scale="log"), "has scale 'linear' in A and 'log' in B"),
        (
            Numeric(0, 1, cuts=(0.2, 0.5)),
            Numeric(0, 1, cuts=(0.2, 0.6)),
            r"has number 2 of its cuts 0.5 in A and 0.6 in B",
        ),
        (Numeric(0, 1, cuts=(0.2,)), Numeric(0, 1, cuts=(0.2, 0.6)), "has 1 cuts in A and 2 in B"),
        (Nominal(("a", "b")), Nominal(("b", "a")), "has number 1 of its values 'a' in A and 'b'"),
        (Nominal(("a", "b")), Nominal(("a", "b"), other="a"), "has other None in A and 'a' in B"),
        (Nominal(("a", "b")), Nominal(("a", "b"), ordered=True), "has ordered False in A and True"),
        (Boolean(), Boolean("yes", "no"), "has true '1' in A and 'yes' in B"),
        (Boolean(), Nominal(("1", "0")), "is Boolean in A and Nominal in B"),
    ],
)
def test_the_first_difference_of_two_kinds_is_named(first, second, words):
    here, there = (
        domains.as_declared_domain({"c": first}),
        domains.as_declared_domain({"c": second}),
    )
    assert here != there
    with pytest.raises(ValueError, match=f"than that of B: column 'c' {words}"):
        domains.check_same_domain(here, there, "A", "B")


def test_a_refusal_names_the_additional_column():
    fewer = {"x": UNIT["x"]}
    assert "there are 1 columns in A and 2 in B; column 'on' is in B alone" in str(
        domains.describe_difference(fewer, UNIT, "A", "B")
    )
    assert "column 'on' is in A alone" in str(domains.describe_difference(UNIT, fewer, "A", "B"))


def test_a_declared_domain_is_a_domain_of_equal_value_and_hash():
    one, two = domains.as_declared_domain(UNIT), domains.as_declared_domain({**UNIT})
    assert one == two == UNIT
    assert one == {**UNIT}
    assert hash(one) == hash(two)
    assert domains.describe_difference(one, UNIT) is None
    assert pickle.loads(pickle.dumps(one)) == one
    assert one != domains.as_declared_domain(dict(reversed(UNIT.items())))
    assert dict(reversed(UNIT.items())) != one
    assert domains.as_declared_domain(one) is one
    assert list(one.items()) == list(UNIT.items())
    assert jax.tree.leaves(one) == []
    np.testing.assert_array_equal(domains.encode(one, columns()[0]), table_of().bins)


def test_equal_declarations_that_are_written_otherwise_are_one():
    """As files and Python write numbers and words."""
    first = {"a": Numeric(0, 1, bins=10), "b": Nominal((1, 2)), "c": Boolean()}
    second = {"a": Numeric(0.0, 1.0), "b": Nominal(("1", "2.0")), "c": Boolean(1, 0)}
    assert domains.as_declared_domain(first) == domains.as_declared_domain(second)


# Every entry.


@DIFFERENT
def test_a_model_refuses_tables_of_another_domain(model, other, words):
    table = table_of(other)
    for act in (dpbt.predict, dpbt.predict_proba, dpbt.decision_function, jax.jit(dpbt.predict)):
        with pytest.raises(ValueError, match=words):
            act(model, table)
    for name in ("predict", "predict_proba", "predict_all", "decision_function"):
        with pytest.raises(ValueError, match=words):
            getattr(model, name)(table)


@DIFFERENT
def test_explain_save_and_effects_refuse_another_domain(model, other, words, tmp_path):
    path = tmp_path / "model.json"
    dpbt.save(model, path)
    for each in (model, dpbt.load(path)):
        for act in (dpbt.explain, effects.attribute_effects, dpbt.plot.attributes):
            with pytest.raises(ValueError, match=words):
                act(each, other)
        with pytest.raises(ValueError, match=words):
            dpbt.save(each, tmp_path / "other.json", domain=other)
        with pytest.raises(ValueError, match=words):
            dpbt.predict(each, table_of(other))
    assert not (tmp_path / "other.json").exists()


@DIFFERENT
def test_learning_refuses_a_table_of_another_domain(other, words):
    recipe, table = of_domain(), table_of(other)
    for act in (dpbt.fit, dpbt.boost, jax.jit(dpbt.boost)):
        with pytest.raises(ValueError, match=words):
            act(KEY, table, recipe)
    with pytest.raises(ValueError, match=words):
        jax.vmap(dpbt.boost, in_axes=(0, None, None))(jax.random.split(KEY, 2), table, recipe)
    with pytest.raises(ValueError, match=words):
        dpbt.tune(KEY, table, of_domain(scores_fraction=0.1), tuning.selection())
    with pytest.raises(ValueError, match=words):
        audit.audit_transcripts(KEY, audit.neighbours(table, ADD_REMOVE), recipe, 1)
    with pytest.raises(ValueError, match="column"):
        preview.preview([recipe], other)
    with pytest.raises(ValueError, match=words):
        preview.preview([GREEDY], UNIT, table)


@pytest.fixture(scope="module", params=["any", "own"])
def boosted(request):
    """A run of a recipe that is for any domain, and of one that is made for its own."""
    recipe = GREEDY if request.param == "any" else of_domain()
    return dpbt.boost(KEY, table_of(), recipe), recipe


@DIFFERENT
def test_replay_and_comparisons_refuse_another_domain(boosted, other, words):
    """The transcript knows the one that it is of."""
    (ran, recipe), table, another = boosted, table_of(), table_of(other)
    for act in (dpbt.replay, jax.jit(dpbt.replay)):
        with pytest.raises(ValueError, match=words):
            act(ran.transcript, another, recipe)
    with pytest.raises(ValueError, match=words):
        log_ratios_by_site(ran.transcript, table, another, recipe)
    with pytest.raises(ValueError, match=words):
        ran.model(another, recipe)


def test_the_transcripts_of_fits_are_replayed_and_compared_too(model):
    dpbt.replay(model.transcript, table_of(), of_domain())
    with pytest.raises(ValueError, match="column 'x' has high 2"):
        dpbt.replay(model.transcript, table_of(OTHERS["range"][0]), of_domain())


@DIFFERENT
def test_sweeps_and_blocks_refuse_another_domain(model, other, words, tmp_path):
    masks = np.ones((1, ROWS), bool)

    task = sweeps.Task("task", table_of(other), masks, masks, {})
    sweep = sweeps.Sweep("sweep", make_of_unit, ({"rounds": (2,)},))
    with pytest.raises(ValueError, match=words):
        sweeps.run(sweep, task, tmp_path / "results")
    assert not (tmp_path / "results").exists()

    blocks = convert_columns(other, *columns(), tmp_path / "blocks")
    with pytest.raises(ValueError, match=words):
        dpbt.fit(KEY, blocks, of_domain(), checkpoint=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(ValueError, match=words):
        dpbt.predict(model, blocks)


def make_of_unit(rounds):
    return recipes.oblivious_boost(**PURE, domain=UNIT, rounds=rounds, depth=2)


def test_commands_name_the_first_difference(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cells, labels = columns()
    rows = zip(cells["x"], cells["on"], labels, strict=True)
    lines = [f"{x:.6f},{int(on)},{int(label)}" for x, on, label in rows]
    Path("rows.csv").write_text("\n".join(["x,on,y", *lines]))
    for name, high in (("unit", 1), ("other", 2)):
        content = {
            "columns": {
                "x": {"type": "numeric", "low": 0, "high": high},
                "on": {"type": "boolean"},
            },
            "label": {"column": "y", "positive": "1", "negative": "0"},
        }
        Path(f"{name}.json").write_text(json.dumps(content))
        assert main(["convert", f"{name}.json", "rows.csv", name]) == 0
    fit = ["--rows", "200", "--epsilon", "3", "--recipe", "oblivious_boost", "--rounds", "2"]
    fit += ["--seed", "0", "--out", "model.json"]
    assert main(["fit", "unit", "--domain", "unit.json", *fit]) == 0
    capsys.readouterr()
    for words in (
        ["predict", "model.json", "other"],
        ["evaluate", "model.json", "rows.csv", "--domain", "other.json"],
        ["fit", "other", "--domain", "unit.json", *fit, "--force"],
    ):
        assert main(words) == 2
        assert "column 'x' has high 2 in other" in capsys.readouterr().err


# What carries one.


def test_a_model_knows_its_domain_before_and_after_its_file(model, tmp_path):
    """Of a table with bins, exact numbers and blocks, and of a recipe alone."""
    assert model.domain == UNIT
    dpbt.save(model, tmp_path / "m.json")
    loaded = dpbt.load(tmp_path / "m.json")
    cells = {name: columns(1)[0][name] for name in UNIT}
    for each in (model, loaded, pickle.loads(pickle.dumps(loaded))):
        assert each.domain == UNIT
        np.testing.assert_array_equal(
            each.predict(cells), dpbt.predict(model, domains.encode(UNIT, cells))
        )
    assert dpbt.explain(loaded) == dpbt.explain(model) == dpbt.explain(model, UNIT)
    assert dpbt.statement(loaded) == dpbt.statement(model)

    blocks = convert_columns(UNIT, *columns(), tmp_path / "blocks")
    of_blocks = dpbt.fit(KEY, blocks, of_domain())
    assert of_blocks.domain == UNIT
    np.testing.assert_array_equal(of_blocks.hypotheses.leaf, model.hypotheses.leaf)
    forest = recipes.random_forest(**PURE, rounds=2, depth=2)
    exact = dpbt.fit(KEY, table_of(exact=True), forest, jax.random.key(1))
    assert exact.domain == UNIT
    raw = dpbt.fit(KEY, table_of()._replace(domain=None), of_domain())
    assert raw.domain == UNIT


def test_without_a_domain_splits_alone_are_compared():
    """As tables of raw bins are, whoever made them; and another number of splits is refused."""
    raw, other = table_of()._replace(domain=None), table_of(OTHERS["range"][0])
    model = dpbt.fit(KEY, raw, GREEDY)
    assert model.domain is None
    dpbt.predict(model, other)
    coarse = table_of({**UNIT, "x": Numeric(0, 1, bins=4)})._replace(domain=None)
    for act in (dpbt.predict, jax.jit(dpbt.predict)):
        with pytest.raises(ValueError, match="other splits"):
            act(model, coarse)
    with pytest.raises(ValueError, match="this one has 4 splits, and that one had 8"):
        dpbt.replay(dpbt.boost(KEY, raw, GREEDY).transcript, coarse, GREEDY)


def test_a_model_whose_splits_were_exchanged_is_saved_with_its_splits(tmp_path):
    table = table_of()
    low = jnp.asarray(np.maximum(table.splits.low, 2))
    table = table._replace(splits=table.splits._replace(low=low))
    model = dpbt.fit(KEY, table, GREEDY)
    dpbt.save(model, tmp_path / "m.json")
    loaded = dpbt.load(tmp_path / "m.json")
    assert loaded.domain is None
    np.testing.assert_array_equal(dpbt.predict(loaded, table.bins), dpbt.predict(model, table.bins))


def test_names_that_are_no_text_are_kept_as_text(tmp_path):
    domain = {0: UNIT["x"], 1: Boolean()}
    table = dpbt.table(domain, {0: columns()[0]["x"], 1: columns()[0]["on"]}, columns()[1])
    model = dpbt.fit(KEY, table, of_domain(domain))
    dpbt.save(model, tmp_path / "m.json")
    loaded = dpbt.load(tmp_path / "m.json")
    assert list(loaded.domain) == ["0", "1"]
    np.testing.assert_array_equal(dpbt.predict(loaded, table), dpbt.predict(model, table))


def test_domains_of_one_shape_share_the_programs_of_a_fit_a_sweep_and_an_audit(tmp_path):
    other = OTHERS["range"][0]
    tables, made = [table_of(), table_of(other)], [of_domain(), of_domain(other)]
    counts = []
    for table, recipe in zip(tables, made, strict=True):
        dpbt.fit(KEY, table, recipe)
        neighbours = audit.neighbours(table, ADD_REMOVE)
        audit.audit_transcripts(
            KEY, neighbours._replace(present=neighbours.present[:2]), recipe, num_transcripts=1
        )
        programs_of_audits = (
            exact_loss._compiled_transcript_losses,
            exact_loss._sample_transcripts,
        )
        counts.append(
            [num_compiled_programs(), *(program.num_compiled for program in programs_of_audits)]
        )
    assert counts[0] == counts[1]

    masks = np.ones((1, ROWS), bool)
    tasks = [
        sweeps.Task(f"t{number}", table, masks, masks, {"high": number + 1})
        for number, table in enumerate(tables)
    ]
    sweep = sweeps.Sweep("sweep", make_of_high, ({"rounds": (2,)},))
    assert sweeps.run(sweep, tasks, tmp_path / "results").programs == 1


def make_of_high(rounds, high):
    domain = {**UNIT, "x": Numeric(0, high, bins=8)}
    return recipes.oblivious_boost(**PURE, domain=domain, rounds=rounds, depth=2)


def test_the_noise_of_a_key_does_not_follow_from_the_domain():
    """A table with and without one, and recipes of two ranges, have the same releases."""
    table = table_of()
    plain = dataclasses.replace(of_domain(), domain=None)
    first = dpbt.boost(KEY, table, of_domain()).transcript
    for second in (
        dpbt.boost(KEY, table._replace(domain=None), plain).transcript,
        dpbt.boost(KEY, table._replace(domain=None), of_domain(OTHERS["range"][0])).transcript,
    ):
        jax.tree.map(np.testing.assert_array_equal, first[:3], second[:3])


def test_a_table_does_not_show_its_domain_and_says_its_width():
    table = table_of()
    assert isinstance(table.domain, DeclaredDomain)
    assert "domain" in repr(table)
    with pytest.raises(ValueError, match="must have 2 columns, as the table's domain says, got 3"):
        dpbt.fit(KEY, table._replace(bins=jnp.pad(table.bins, ((0, 0), (0, 1)))), GREEDY)


@pytest.mark.parametrize("numbers", [(0.1, 0.7), (0.1, 0.25, 0.7)])
def test_classes_that_are_narrow_floats_are_the_words_of_such_labels(numbers):
    """Their Python floats have digits that no label has, so that every row would be absent."""
    labels = np.array(numbers, np.float32)
    answers = declared_classes(labels, None, labels)
    options = answers.table_options
    label = Label.from_options(**options)
    for column in (labels, list(labels), list(numbers), list(map(str, numbers))):
        assert label.read_labels(column, num_rows=len(numbers)).present.all()
