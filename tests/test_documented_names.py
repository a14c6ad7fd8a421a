"""README, changelog and docs name what exists: public names, attributes, commands and options."""

import re

import pytest

from tests.support import public_names
from tests.support.public_names import PAGES, current_text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_public_names_that_a_page_states_exist(page):
    names = set(public_names.stated_names(current_text(page)))
    assert {name for name in names if not public_names.exists(name)} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_attributes_that_the_text_says_an_object_has_exist(page):
    stated = set(public_names.stated_attributes(current_text(page)))
    assert {pair for pair in stated if not public_names.has_attribute(*pair)} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_that_a_page_names_exist(page):
    stated = set(public_names.stated_options(current_text(page)))
    assert stated - public_names.options_of_all_programs() == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_have_the_options_that_they_are_called_with(page):
    options_by_command = public_names.options_by_command()
    for command, options in public_names.commands_with_options(current_text(page)):
        assert set(options) <= options_by_command[command], command


def test_the_checks_notice_names_that_do_not_exist():
    text = (
        "`dpbt.fitt`, `Model.feature_importances_`, `recipes.autoo(epsilon=1)`, `plot.tree`,\n"
        "`Filter.spend`, `dpbt.models.nothing`, and a model has\n`feature_importances_`.\n"
        "`dpbt fit --epsilons 1`, `--registry`, and a block:\n"
        "```sh\ndpbt predict m.json r.csv \\\n  --probability\n```\n"
    )
    names = [*public_names.stated_names(text)]
    assert len(names) == 6
    assert not any(map(public_names.exists, names))
    (stated,) = public_names.stated_attributes(text)
    assert stated == ("model", "feature_importances_")
    assert not public_names.has_attribute(*stated)
    if "estimator" in public_names.owners():  # which needs scikit-learn
        assert public_names.has_attribute("estimator", "feature_importances_")
    unknown = set(public_names.stated_options(text)) - public_names.options_of_all_programs()
    assert unknown == {"--epsilons", "--registry", "--probability"}
    calls = dict(public_names.commands_with_options(text))
    assert calls == {"dpbt fit": ["--epsilons"], "dpbt predict": ["--probability"]}


def test_the_checks_accept_names_that_exist():
    for name in ("dpbt.fit", "Model.encode", "Model.about", "recipes.auto", "dpbt.domains.Numeric"):
        assert public_names.exists(name), name
    texts = [current_text(page) for page in PAGES]
    assert sum(len([*public_names.stated_names(text)]) for text in texts) > 200
    assert sum(len([*public_names.commands_with_options(text)]) for text in texts) > 50
    assert sum(len([*public_names.stated_attributes(text)]) for text in texts) > 0
    assert not re.search(r"dpbt\.Purse", "".join(texts))
