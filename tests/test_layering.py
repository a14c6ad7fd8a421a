"""Packages import downwards and in no circle, and importing the library runs nothing."""

import subprocess
import sys

import dpbt
from tests.support import ROOT, import_layers


def test_files_import_in_no_circle():
    assert import_layers.import_circles(import_layers.imports_by_module()) == []


def test_rooms_import_in_no_circle():
    assert import_layers.import_circles(import_layers.imports_by_room()) == []


def test_the_page_on_the_architecture_shows_the_rooms_as_they_import():
    assert import_layers.floors_in_words() in (ROOT / "docs" / "architecture.md").read_text()


READ_PRIVATE_ROWS = {"data", "learners", "privacy"}
USE_LEARNED_MODELS = {"audit", "models", "owners", "recipes", "sweeps", "training", "tuning"}


def test_private_code_imports_nothing_that_uses_it():
    rooms = import_layers.imports_by_room()
    assert rooms.keys() >= READ_PRIVATE_ROWS | USE_LEARNED_MODELS  # so that no name is stale
    assert {room: rooms[room] & USE_LEARNED_MODELS for room in READ_PRIVATE_ROWS} == {
        room: set() for room in READ_PRIVATE_ROWS
    }


def test_only_the_command_and_the_estimators_import_the_tools_of_data_owners():
    rooms = import_layers.imports_by_room()
    assert {room for room, imports in rooms.items() if "owners" in imports} == {
        "__main__",
        "sklearn",
    }


def test_importing_the_library_needs_no_jax():
    program = "import sys, dpbt; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0


def test_importing_the_modules_of_a_fit_imports_no_accountant():
    """dp_accounting brings most of SciPy, and takes longer to import than all of the library."""
    program = (
        "import sys, dpbt; dpbt.fit, dpbt.recipes, dpbt.table, dpbt.keys\n"
        "assert 'jax' in sys.modules\n"
        "sys.exit(bool({'dp_accounting', 'scipy', 'optax', 'chex'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0


def test_every_public_name_exists():
    assert all(hasattr(dpbt, name) for name in dpbt.__all__)
