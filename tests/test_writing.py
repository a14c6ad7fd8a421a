"""Where outputs are written: long names, links, pipes, devices, homes, and disks that take none."""

import errno
import os
import stat
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest

import dpbt
from dpbt.common import storage
from dpbt.common.validate import as_path
from dpbt.data.domains import Numeric
from tests.support.block_commands import (
    FIT_OPTIONS,
    FOREST_OPTIONS,
    convert_rows,
    refusal_line,
    run_command,
)

LONG = ("m" * 245 + ".json", "m" * 250, "ü" * 120 + ".json", "m." + "j" * 248)
"""Names that the system takes, and that leave no room for more letters."""

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links, pipes and modes of POSIX")


def fit(out, *options):
    return run_command("fit", "rows.csv", *FIT_OPTIONS, *FOREST_OPTIONS, "--out", out, *options)


def spent():
    return dpbt.Filter.open("filter.db").spent


@pytest.fixture
def budget(rows_folder):
    """A filter in the working folder."""
    return dpbt.Filter(epsilon=20, rows=400, path="filter.db")


@pytest.fixture
def written():
    """A function that writes a file by the rule of all writers."""

    def write(path, text="new", **options):
        storage.check_can_write(path)
        storage.write_atomically(path, lambda part: part.write_text(text), **options)

    return write


# Names.


@pytest.mark.parametrize("name", LONG)
def test_a_name_as_long_as_the_system_takes_is_written(tmp_path, written, name):
    written(tmp_path / name)
    assert os.listdir(tmp_path) == [name]
    (tmp_path / storage._temporary_path(tmp_path / name)).touch()  # as a kill leaves it
    storage.remove_temporary_files_beside(tmp_path / name)
    assert os.listdir(tmp_path) == [name]


def test_a_fit_writes_a_long_name_and_what_no_file_can_be_is_refused_unpaid(budget, capsys):
    assert fit(LONG[0], "--filter", "filter.db") == 0
    assert Path(LONG[0]).exists()
    before = spent()
    assert before > 0
    Path("file").touch()
    for name in ("m" * 300, "ü" * 200, "file/m.json", f"new/{'m' * 300}/m.json"):
        line = refusal_line(
            capsys,
            *("fit", "rows.csv", *FIT_OPTIONS, *FOREST_OPTIONS, "--out", name),
            *("--filter", "filter.db"),
        )
        assert "no file can be written" in line
    assert spent() == before
    assert not Path("new").exists()


def test_a_long_name_of_a_checkpoint_or_a_filter_is_refused_unpaid(budget, capsys):
    """SQLite keeps a journal beside a database, whose name is longer."""
    assert convert_rows() == 0
    capsys.readouterr()
    fit_blocks = ("fit", "rows.chunks", *FIT_OPTIONS, *FOREST_OPTIONS, "--out", "m.json")
    refusal_line(capsys, *fit_blocks, "--filter", "filter.db", "--checkpoint", "m" * 252)
    refusal_line(capsys, "filter", "new", "m" * 252, "--epsilon", 1, "--rows", 9)
    assert spent() == 0
    assert not any(path.name.startswith("mm") for path in Path().iterdir())


@pytest.mark.parametrize("fault", ["disk", "folder"])
def test_what_writing_needs_is_tried_before_anything_is_paid(budget, capsys, monkeypatch, fault):
    real_open = os.open

    def refuse(path, flags, *mode, **options):
        if flags & os.O_CREAT and Path(path).name.startswith(".dpbt-"):
            error_number = errno.ENOSPC if fault == "disk" else errno.EROFS
            raise OSError(error_number, os.strerror(error_number), str(path))
        return real_open(path, flags, *mode, **options)

    monkeypatch.setattr(os, "open", refuse)
    arguments = ("fit", "rows.csv", *FIT_OPTIONS, *FOREST_OPTIONS, "--filter", "filter.db")
    line = refusal_line(capsys, *arguments, "--out", "m.json")
    assert "m.json: no file can be written in" in line
    assert spent() == 0


def test_a_filter_that_cannot_be_written_is_refused_before_a_row_is_read(budget, monkeypatch):
    """The check writes as a payment does, and undoes it."""
    before = Path("filter.db").read_bytes()
    recipe = budget.recipe(dpbt.recipes.random_forest, fraction=0.1, rounds=2, depth=2)
    budget.check(recipe)
    assert Path("filter.db").read_bytes() == before
    assert not Path("filter.db-journal").exists()


def fail_to_save(folder):
    """Let a model be written in no folder but this one."""
    real_save = dpbt.save

    def save(model, path, **options):
        if folder is None or not Path(path).is_relative_to(folder):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        real_save(model, path, **options)

    return save


def test_a_paid_model_is_never_lost(budget, capsys, monkeypatch, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    monkeypatch.setattr(dpbt, "save", fail_to_save(elsewhere))
    assert fit(LONG[0], "--filter", "filter.db") == 0
    (kept,) = elsewhere.glob("*/*")
    assert dpbt.load(kept).about.name == "random_forest"
    assert f"move {kept} there" in capsys.readouterr().err

    # No disk takes it: it is the last line of standard output.
    monkeypatch.setattr(dpbt, "save", fail_to_save(None))
    assert fit("other.json", "--filter", "filter.db") == 2
    out, err = capsys.readouterr()
    assert "the last line of standard output is the model" in err
    Path("kept.json").write_text(out.splitlines()[-1])
    assert dpbt.load("kept.json").about.name == "random_forest"
    assert [*elsewhere.glob("*/*")] == [kept]


def test_a_folder_that_appears_or_disappears_meanwhile_loses_no_model(
    budget, capsys, monkeypatch, tmp_path_factory
):
    elsewhere, real_save = tmp_path_factory.mktemp("elsewhere"), dpbt.save
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    changes = [lambda: Path("a.json").mkdir()]

    def save(model, path, **options):
        if changes:
            changes.pop()()
        real_save(model, path, **options)

    monkeypatch.setattr(dpbt, "save", save)
    Path("folder").mkdir()
    assert fit("a.json", "--filter", "filter.db") == 0
    (kept,) = elsewhere.glob("*/a.json")
    dpbt.load(kept)
    changes.append(Path("folder").rmdir)
    assert fit("folder/b.json") == 0
    dpbt.load("folder/b.json")


def test_a_model_never_replaces_the_budget_that_pays_for_it(budget, capsys):
    os.link("filter.db", "twin.db")
    os.symlink("filter.db", "link.db")
    content = Path("filter.db").read_bytes()
    arguments = (
        "fit",
        "rows.csv",
        *FIT_OPTIONS,
        *FOREST_OPTIONS,
        "--filter",
        "filter.db",
        "--force",
    )
    for out in ("filter.db", "link.db", "./filter.db"):
        assert "name one file" in refusal_line(capsys, *arguments, "--out", out)
    assert Path("filter.db").read_bytes() == content


# Links, pipes and devices.


def test_links_stay_and_the_files_that_they_name_are_written(tmp_path, written):
    other = tmp_path / "other"
    other.mkdir()
    (other / "real").write_text("former")
    (other / "real").chmod(0o640)
    for index, target in enumerate((other / "real", "other/real", "link0", "other/new")):
        (tmp_path / f"link{index}").symlink_to(target)
    (tmp_path / "folder").symlink_to("other")
    for name in ("link0", "link1", "link2", "folder/real"):
        written(tmp_path / name, name)
        assert (other / "real").read_text() == name
    written(tmp_path / "link3", "dangling")
    assert (other / "new").read_text() == "dangling"
    assert all((tmp_path / f"link{index}").is_symlink() for index in range(4))
    assert (tmp_path / "folder").is_symlink()
    assert stat.S_IMODE((other / "real").stat().st_mode) == 0o640
    assert sorted(os.listdir(other)) == ["new", "real"]


def test_links_that_lead_nowhere_are_refused(tmp_path, written):
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "lost").symlink_to("missing/model.json")
    (tmp_path / "folder").symlink_to("missing")
    with pytest.raises(OSError, match="circle"):
        written(tmp_path / "circle")
    with pytest.raises(OSError, match="folder"):
        written(tmp_path / "folder" / "file")
    written(tmp_path / "lost")  # as a folder that is not there yet
    assert (tmp_path / "missing" / "model.json").read_text() == "new"


def read_in_thread(path):
    contents = []
    thread = threading.Thread(target=lambda: contents.append(path.read_bytes()))
    thread.start()
    return contents, thread


def test_a_pipe_and_a_device_are_written_as_they_are(tmp_path, written):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o640)
    (tmp_path / "link").symlink_to("pipe")
    for path in (pipe, tmp_path / "link"):
        contents, thread = read_in_thread(pipe)
        written(path, "through")
        thread.join(10)
        assert contents == [b"through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert stat.S_IMODE(pipe.stat().st_mode) == 0o640
    null = os.stat("/dev/null")
    written(Path("/dev/null"))
    after = os.stat("/dev/null")
    assert (after.st_mode, after.st_rdev, after.st_ino) == (
        null.st_mode,
        null.st_rdev,
        null.st_ino,
    )
    with pytest.raises(OSError, match="/dev/full"):
        written(Path("/dev/full"))


def test_commands_need_force_for_files_and_links_alone(rows_folder, forest_model_file, capsys):
    Path("dangling").symlink_to("there.csv")
    predict = ("predict", forest_model_file, "rows.csv", "--out")
    assert "a link to a file that is not there; --force" in refusal_line(
        capsys, *predict, "dangling"
    )
    assert not Path("there.csv").exists()
    assert run_command(*predict, "dangling", "--force") == 0
    assert Path("dangling").is_symlink()
    assert stat.S_IMODE(Path("there.csv").stat().st_mode) == 0o600
    assert "the file exists; --force" in refusal_line(capsys, *predict, "dangling")
    os.mkfifo("pipe")
    contents, thread = read_in_thread(Path("pipe"))
    assert run_command(*predict, "pipe") == 0
    thread.join(10)
    assert contents == [Path("there.csv").read_bytes()]
    assert run_command("statement", forest_model_file, "--html", "/dev/null") == 0


def test_an_output_is_no_other_file_of_its_command(rows_folder, forest_model_file, capsys):
    model = Path(forest_model_file)
    before = {path: path.read_bytes() for path in (Path("rows.csv"), model)}
    Path("link.csv").symlink_to("rows.csv")
    for arguments, other in (
        (("predict", model, "rows.csv", "--out", "rows.csv"), "ROWS"),
        (("predict", model, "rows.csv", "--out", "link.csv"), "ROWS"),
        (("predict", model, "rows.csv", "--out", model), "MODEL"),
        (("plot", model, "--row", "1", "rows.csv", "--out", "./rows.csv"), "--row"),
        (("statement", model, "--html", "s.page", "--pdf", "s.page"), "--pdf"),
        (("domain", "template", "rows.csv", "--out", "rows.csv"), "ROWS"),
    ):
        assert run_command(*arguments, "--force") == 2
        err = capsys.readouterr().err
        assert "name one file" in err
        assert other in err
    assert {path: path.read_bytes() for path in before} == before
    assert not Path("s.page").exists()
    assert run_command("predict", model, "rows.csv", "--out", "new/") == 2
    assert "new: a folder, where --out needs the name of a file" in capsys.readouterr().err
    assert not Path("new").exists()


def test_a_picture_of_any_name_is_the_file_that_is_named(rows_folder, forest_model_file, tmp_path):
    pytest.importorskip("matplotlib")
    for name, magic in (
        ("picture", b"\x89PNG"),
        ("p.svg", b"<?xml"),
        (".hidden", b"\x89PNG"),
        ("p" * 245, b"\x89PNG"),
    ):
        out = tmp_path / "pictures" / name
        assert run_command("plot", forest_model_file, "--out", out) == 0
        assert out.read_bytes().startswith(magic)
    assert len(list((tmp_path / "pictures").iterdir())) == 4  # and no temporary file stays


def test_standard_output_by_name_is_no_file_to_replace(rows_folder, forest_model_file, capfd):
    command = f"{sys.executable} -m dpbt predict {forest_model_file} rows.csv"
    os.system(f"PYTHONPATH={Path(dpbt.__file__).parents[1]} {command} --out plain.csv")
    predictions = Path("plain.csv").read_text()
    Path("log").write_text("former\n")
    environment = f"PYTHONPATH={Path(dpbt.__file__).parents[1]}"
    os.system(f"{environment} {command} --out /dev/stdout >> log")
    assert Path("log").read_text() == "former\n" + predictions
    os.system(f"{environment} {command} --out /proc/self/fd/3 3> three")
    assert Path("three").read_text() == predictions
    os.system(f"{environment} {command} --out /dev/stdout | cat > piped")
    assert Path("piped").read_text() == predictions


# Homes.


@pytest.fixture
def home(tmp_path, monkeypatch):
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder


def test_a_tilde_is_a_home_in_every_path(home, tmp_path, monkeypatch, labelled_rows):
    monkeypatch.chdir(tmp_path)
    assert as_path("path", "~/m.json") == home / "m.json"
    assert as_path("path", Path("~") / "m.json") == home / "m.json"
    assert as_path("path", "~nobody-has-this-name/m") == Path("~nobody-has-this-name/m")
    assert as_path("path", "a~/~b") == Path("a~/~b")

    dpbt.Filter(epsilon=20, rows=100, path="~/filter.db")
    dpbt.Filter.open("~/filter.db")
    X, y = labelled_rows
    domain = {"a": Numeric(0, 1, bins=4), "b": Numeric(0, 1, bins=4)}
    table = dpbt.table(domain, {"a": X[:, 0], "b": X[:, 1]}, y > 0)
    recipe = dpbt.recipes.random_forest(epsilon=1.0, rows=100, rounds=2, depth=2)
    model = dpbt.fit(dpbt.fresh_key(), table, recipe, dpbt.fresh_key())
    dpbt.save(model, "~/m.json")
    assert dpbt.load("~/m.json").features == 2
    columns = {"a": X[:, 0], "b": X[:, 1]}
    dpbt.convert.convert_columns(domain, columns, y > 0, "~/blocks")
    assert dpbt.blocks.open_folder("~/blocks").capacity == len(X)
    assert not Path("~").exists()
    assert sorted(os.listdir(home)) == ["blocks", "filter.db", "m.json"]


def test_a_tilde_after_an_equals_sign_is_a_home_in_commands(home, rows_folder, capsys):
    for name in ("rows.csv", "domain.json"):
        Path(name).rename(home / name)
    options = [*FIT_OPTIONS[2:], *FOREST_OPTIONS, "--domain=~/domain.json"]
    assert run_command("filter", "new", "~/f.db", "--epsilon", 20, "--rows", 400) == 0
    assert run_command("convert", "~/domain.json", "~/rows.csv", "~/blocks") == 0
    more = ("--filter=~/f.db", "--checkpoint=~/run", "--out=~/m.json")
    assert run_command("fit", "~/blocks", *options, *more) == 0
    assert run_command("statement", "~/m.json", "--html=~/s.html", "--filter=~/f.db") == 0
    assert run_command("predict", "~/m.json", "~/rows.csv", "--out=~/p.csv") == 0
    assert run_command("domain", "template", "~/rows.csv", "--out=~/t.json") == 0
    assert not Path("~").exists()
    assert {"m.json", "s.html", "p.csv", "t.json", "run"} <= set(os.listdir(home))


def test_an_estimator_saves_to_a_home(home, tmp_path, monkeypatch, labelled_rows):
    sklearn = pytest.importorskip("dpbt.sklearn")
    monkeypatch.chdir(tmp_path)
    X, y = labelled_rows
    (home / "d.json").write_text(
        '{"columns": {"a": {"type": "numeric", "low": 0, "high": 1, "bins": 4}, '
        '"b": {"type": "numeric", "low": 0, "high": 1, "bins": 4}}, '
        '"label": {"column": "y", "positive": "1", "negative": "0"}}'
    )
    estimator = sklearn.PrivateForestClassifier(
        epsilon=1.0, rows=100, domain="~/d.json", random_state=0
    )
    estimator.fit(X, y).save("~/m.json")
    np.testing.assert_array_equal(
        dpbt.load("~/m.json").decision_function({"a": X[:, 0], "b": X[:, 1]}),
        estimator.model_.decision_function({"a": X[:, 0], "b": X[:, 1]}),
    )
    assert not Path("~").exists()


def test_a_page_of_a_statement_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    figure = pytest.importorskip("matplotlib.figure")
    recipe = dpbt.recipes.random_forest(epsilon=1.0, rows=100, rounds=2, depth=2)
    page = dpbt.statement(recipe)
    (tmp_path / "link.pdf").symlink_to("page.pdf")
    page.pdf(tmp_path / "link.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")

    def fail(self, path, **_):
        Path(path).write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(figure.Figure, "savefig", fail)
    with pytest.raises(OSError, match=r"other\.pdf"):
        page.pdf(tmp_path / "other.pdf")
    assert sorted(os.listdir(tmp_path)) == ["link.pdf", "page.pdf"]
