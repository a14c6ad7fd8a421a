"""The pins that the Makefile installs are those of pyproject.toml, and mutants fit the code."""

import tomllib

from packaging.requirements import Requirement

from tests.support import ROOT
from tests.support.mutant_list import MUTANTS

INSTALLED_EXTRAS = ("figures", "sklearn", "experiments")
"""The extras that the Makefile installs."""


def test_every_requirement_has_a_pin_within_its_bounds():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pins = [Requirement(line) for line in (ROOT / "requirements.lock").read_text().splitlines()]
    project = settings["project"]
    requirements = [*project["dependencies"]]
    for extra in INSTALLED_EXTRAS:
        requirements += project["optional-dependencies"][extra]
    for group in settings["dependency-groups"].values():
        requirements += group

    for requirement in map(Requirement, requirements):
        specifiers = [pin.specifier for pin in pins if pin.name == requirement.name.lower()]
        versions = [str(specifier).removeprefix("==") for specifier in specifiers]
        assert versions, f"{requirement} has no pin: make lock"
        within_bounds = map(requirement.specifier.contains, versions)
        assert all(within_bounds), f"{requirement} is not {versions}"


def test_a_pin_names_no_place_to_fetch_from():
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    assert all("==" in line and "://" not in line for line in lines)


def test_a_mutant_changes_a_text_that_occurs_once():
    wrong = [
        mutant.name for mutant in MUTANTS if (ROOT / mutant.path).read_text().count(mutant.old) != 1
    ]
    assert wrong == []


def test_a_mutant_names_tests_that_exist():
    wrong = []
    for mutant in MUTANTS:
        for node in mutant.tests:
            path, _, name = node.partition("::")
            if f"def {name.split('[')[0]}(" not in (ROOT / path).read_text():
                wrong.append(node)
    assert wrong == []
