"""The code stays within its limits, imports in no circle, and runs nothing at import."""

import subprocess
import sys

import pytest

import dpbt
from tests import counts

ROOT = counts.ROOT
FILES = [path for folder in counts.FOLDERS for path in counts.files(folder)]
LIMITS = {
    "lines of dpbt": 13_880,
    "lines of tests": 15_400,
    "lines of experiments": 11_370,
    "lines of paper_figures": 1_660,
    "files of dpbt": 90,
    "modules in the root": 6,
    "floors of rooms": 7,
    "floors of files": 10,
    "fields of WeakLearner": 8,
    "fields of Recipe": 15,
    "fields of Mechanism": 7,
}
"""What the code may grow to; a limit falls with the code, and rises with a reason alone.

The last rises: audits of any learner, pairs of columns and files as they are took about 820 lines
of dpbt; counts, quantiles, previews and treelite 410, users and outside releases 310, files, their
questions and progress 480, statements and pictures 370. Rows of the papers, rivals, the museum of
mistakes, synthetic rows and the reconstruction took about 2,800 of experiments. The fields of a
recipe are those of its terms, too, since both are one class.
"""


def test_the_code_stays_within_its_limits():
    found = counts.counts()
    assert {name: found[name] for name in LIMITS if found[name] > LIMITS[name]} == {}


def test_files_import_in_no_circle():
    assert counts.circles(counts.modules()) == []


def test_rooms_import_in_no_circle():
    assert counts.circles(counts.rooms()) == []


def test_the_page_on_the_architecture_shows_the_rooms_as_they_import():
    assert counts.picture() in (ROOT / "docs" / "architecture.md").read_text()


LOW = {"data", "learners", "privacy"}
HIGH = {"analysis", "boosting", "chunked", "cli", "recipes", "sklearn", "sweeps", "tuning"}


def test_what_reads_private_rows_imports_nothing_that_uses_it():
    rooms = counts.rooms()
    assert {room: rooms[room] & HIGH for room in LOW if rooms[room] & HIGH} == {}


def test_importing_the_library_needs_no_jax():
    words = "import sys, dpbt; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", words], cwd=ROOT, check=False).returncode == 0


def test_importing_what_a_fit_needs_imports_no_accountant():
    """dp_accounting brings most of SciPy, and takes longer to import than all of the library."""
    words = (
        "import sys, dpbt; dpbt.fit, dpbt.recipes, dpbt.table, dpbt.keys\n"
        "assert 'jax' in sys.modules\n"
        "sys.exit(bool({'dp_accounting', 'scipy', 'optax', 'chex'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", words], cwd=ROOT, check=False).returncode == 0


@pytest.mark.slow
def test_a_fit_of_a_csv_file_passes_through_few_functions():
    command = [sys.executable, "-m", "tests.walk"]
    found = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert int(found.splitlines()[-1].split()[0]) <= 346


def test_every_public_name_is_there():
    assert all(hasattr(dpbt, name) for name in dpbt.__all__)


def test_slow_tests_exist():
    for name in (ROOT / "tests" / "slow.txt").read_text().splitlines():
        path, test = name.split("::")
        assert f"def {test.split('[')[0]}(" in (ROOT / "tests" / path).read_text(), name


def test_files_stay_short():
    """With room for blank lines and comments; a longer file has more than one subject."""
    long = {str(path): len(path.read_text().splitlines()) for path in FILES}
    assert {path: number for path, number in long.items() if number > 700} == {}
