"""Results of a run of one's own: tables and figures read them, and nothing kept is overwritten."""

import json
import shutil

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.transforms import Bbox

from dpbt.owners.cli.parsing import InputError
from experiments import __main__ as command_line
from experiments.common import aggregated, tables
from experiments.papers.asadi_2022.tables import SAVED_BY
from experiments.reproduction import results as steps
from paper_figures import __main__ as figures
from paper_figures import style
from tests.support import ROOT

KEPT = ROOT / aggregated.FOLDER
PAPERS = ("bojarski_2014", "bun_2020", "nock_henecka_2020")
ASADI = [name for name in SAVED_BY if (KEPT / "asadi_2022" / f"{name}.csv").exists()]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def output_of_command(capsys, *arguments):
    assert command_line.main([*arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [*(("asadi_2022", "tables", name) for name in ASADI), *((p, "tables") for p in PAPERS)],
    ids=" ".join,
)
def test_every_table_reads_the_results_that_are_kept(arguments, capsys):
    folder = ("--results", str(KEPT / arguments[0]))
    assert len(output_of_command(capsys, *arguments, *folder).splitlines()) > 2
    assert json.loads(output_of_command(capsys, *arguments, *folder, "--json"))


def test_a_small_delta_is_no_zero(capsys):
    folder = str(KEPT / "asadi_2022")
    text = output_of_command(capsys, "asadi_2022", "tables", "fig2", "--results", folder)
    assert {line.split()[-1] for line in text.splitlines()[1:]} == {"0", "1e-05"}
    lines = [{"a": 1e-5, "b": 0.0, "c": 0.25}]
    assert tables.align_lines(lines, "abc", ".4f").split()[3:] == ["1e-05", "0.0000", "0.2500"]


def test_aggregated_counts_of_table_1_stand_beside_those_of_the_paper(capsys):
    text = output_of_command(
        capsys, "nock_henecka_2020", "tables", "--results", str(KEPT / "nock_henecka_2020")
    )
    json_text = output_of_command(
        capsys,
        *("nock_henecka_2020", "tables", "--json", "--calibration", "tight"),
        *("--results", str(KEPT / "nock_henecka_2020")),
    )
    (first, *_) = json.loads(json_text)
    assert first["calibration"] == "tight"
    assert list(first["counts"]) == list(first["paper"]) == ["objective", "0.1", "1.0"]
    assert sum(first["counts"].values()) >= first["domains"]
    assert ", ".join(map(str, first["counts"].values())) in text


@pytest.fixture
def own_results(tmp_path, monkeypatch):
    """A copy of what is kept of one paper, with other numbers of keys, away from the checkout."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "results" / "reproduction"
    for name in ("fig2", "fig3"):
        for end in ("csv", "json"):
            (folder / "asadi_2022").mkdir(parents=True, exist_ok=True)
            shutil.copy(KEPT / "asadi_2022" / f"{name}.{end}", folder / "asadi_2022")
    path = folder / "asadi_2022" / "fig2.csv"
    head, *lines = path.read_text().splitlines()
    position = head.split(",").index("keys")
    lines_of_two_keys = [
        [*line.split(",")[:position], "2", *line.split(",")[position + 1 :]] for line in lines
    ]
    path.write_text("\n".join([head, *(",".join(line) for line in lines_of_two_keys)]) + "\n")
    return folder


def test_figures_of_ones_own_results_lie_beside_them(own_results, tmp_path, capsys):
    assert figures.main(["asadi_2022/fig2", "--results", str(own_results)]) == 0
    assert (own_results / "figures/asadi_2022/fig2.png").stat().st_size > 5000
    assert not (tmp_path / "figures").exists()
    assert figures.main(["asadi_2022/fig2", "--results", str(own_results), "--out", "here"]) == 0
    assert (tmp_path / "here/asadi_2022/fig2.pdf").exists()
    capsys.readouterr()
    assert figures.main(["asadi_2022/fig1", "--results", str(own_results)]) == 2
    assert f"asadi_2022 aggregate --out {own_results}" in capsys.readouterr().err
    assert figures.main(["asadi_2022/fig2", "--results", "nowhere"]) == 2
    assert "nowhere: no such folder" in capsys.readouterr().err
    assert aggregated.current_folder() == aggregated.FOLDER


def test_a_title_counts_the_keys_of_all_panels(own_results):
    with aggregated.reading_from(own_results):
        (figure,) = figures.draw("asadi_2022/fig2").values()
    assert figure.get_suptitle().endswith("; 2 to 5 keys")
    assert style.keys_in_words([{"keys": 1}]) == "1 key"
    assert style.keys_in_words([{"keys": 5}, {"keys": 5}]) == "5 keys"


@pytest.mark.parametrize("paper", ["asadi_2022", "bun_2020", "bojarski_2014", "nock_henecka_2020"])
def test_aggregating_a_run_leaves_what_is_kept_as_it_is(paper):
    parser = command_line.Parser(prog="test")
    program = __import__(f"experiments.papers.{paper}.aggregate", fromlist=["add_arguments"])
    program.add_arguments(parser)
    assert parser.parse_args([]).out == "results/reproduction"


def test_computing_all_results_again_replaces_what_is_kept():
    parser = command_line.Parser(prog="test")
    steps.add_arguments(parser)
    commands = [command for command, _ in steps.command_lines(parser.parse_args([]))]
    aggregate_commands = [command for command in commands if command[1] == "aggregate"]
    assert len(aggregate_commands) == 4
    assert all(
        command[command.index("--out") + 1] == "reproduction" for command in aggregate_commands
    )
    smoke_commands = [command for command, _ in steps.command_lines(parser.parse_args(["--smoke"]))]
    assert not any("reproduction" in command for command in smoke_commands)


def _smoke_grid(bins=10, clip=10):
    """Two depths of a few settings, as the smallest setting of the grid has them."""
    del bins, clip
    rng, lines = np.random.default_rng(0), []
    about = {"domain": "banknote", "beta_tree": 0.5, "rounds": 2}
    for calibration in ("none", "published", "tight"):
        for alpha in ("objective", 0.1, 1.0):
            for epsilon in (np.inf,) if calibration == "none" else (0.1, 1):
                errors = {f"d{d}": rng.uniform(0.1, 0.5) if d < 3 else None for d in range(1, 7)}
                setting = {"calibration": calibration, "alpha": alpha, "epsilon": epsilon}
                lines.append({**about, **setting, **errors})
    return lines


def test_legends_and_labels_of_figure_2_do_not_overlap_on_few_depths(monkeypatch):
    from paper_figures import nock_henecka_2020

    monkeypatch.setattr(nock_henecka_2020, "read_grid", _smoke_grid)
    monkeypatch.setattr(nock_henecka_2020, "larger_class_error", lambda domain: 0.44)
    (figure,) = figures.draw("nock_henecka_2020/fig2").values()
    assert_apart(figure)


@pytest.mark.parametrize("name", ["nock_henecka_2020/fig2", "asadi_2022/fig2"])
def test_legends_and_labels_of_kept_figures_do_not_overlap(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    for figure in figures.draw(name).values():
        assert_apart(figure)


def assert_apart(figure):
    """No two of the panels with their labels and of the legend overlap."""
    figure.draw_without_rendering()
    (legend,) = figure.legends
    below = legend.get_window_extent()
    for panel in figure.axes:
        box = panel.get_tightbbox()
        assert box is not None
        assert Bbox.intersection(below, box) is None
        assert box.y0 >= 0


def test_a_table_without_significant_differences_is_drawn(monkeypatch):
    from paper_figures import nock_henecka_2020

    read = aggregated.read_result

    def some(paper, name, folder=None):
        return [{**line, "percent": None} for line in read(paper, name, folder)]

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(nock_henecka_2020.aggregated, "read_result", some)
    (figure,) = figures.draw("nock_henecka_2020/table4").values()
    figure.draw_without_rendering()


def test_results_that_are_not_there_name_the_command(tmp_path):
    with pytest.raises(InputError, match=f"bun_2020 aggregate --out {tmp_path}"):
        aggregated.read_result("bun_2020", "errors", tmp_path)
