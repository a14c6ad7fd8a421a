"""The pins that the Makefile installs are those that pyproject.toml asks for."""

import tomllib

from packaging.requirements import Requirement

from tests.support import ROOT

INSTALLED = ("figures", "sklearn", "experiments")  # the extras that the Makefile installs


def test_every_requirement_has_a_pin_within_its_bounds():
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pins = [Requirement(line) for line in (ROOT / "requirements.lock").read_text().splitlines()]
    project = stated["project"]
    asked = [*project["dependencies"]]
    for extra in INSTALLED:
        asked += project["optional-dependencies"][extra]
    for group in stated["dependency-groups"].values():
        asked += group

    for wanted in map(Requirement, asked):
        found = [pin.specifier for pin in pins if pin.name == wanted.name.lower()]
        versions = [str(pin).removeprefix("==") for pin in found]
        assert found, f"{wanted} has no pin: make lock"
        assert all(map(wanted.specifier.contains, versions)), f"{wanted} is not {versions}"


def test_a_pin_names_no_place_to_fetch_from():
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    assert all("==" in line and "://" not in line for line in lines)
