"""The command line as a person uses it: the demo, one's own file, bad files, figures."""

import argparse

from dpbt.common.types import ADD_REMOVE, REPLACE_ONE
from experiments import demo as demos
from paper_figures import __main__ as figures

PAPER = "nock_henecka_2020"


def test_the_private_number_of_rows_is_no_bound():
    """Without a public bound the number of rows is public, and the relation says so."""
    bundled, own, bounded = (
        argparse.Namespace(data=d, rows=r) for d, r in ((None, None), ("x", None), ("x", 80))
    )
    assert demos.public_size(bundled, 569) == (600, ADD_REMOVE)
    assert demos.public_size(own, 60) == (60, REPLACE_ONE)
    assert demos.public_size(bounded, 60) == (80, ADD_REMOVE)


def test_figures_are_drawn_by_name(tmp_path, capsys, monkeypatch):
    assert figures.main([f"{PAPER}/fig5", "--out", str(tmp_path)]) == 0
    drawn = list((tmp_path / PAPER).iterdir())
    assert sorted(p.name for p in drawn) == ["fig5.pdf", "fig5.png"]
    assert all(p.stat().st_size > 5000 for p in drawn)
    monkeypatch.chdir(tmp_path)
    assert figures.main(["privacy_audit"]) == 2
    assert "run: python -m experiments audit --grid" in capsys.readouterr().err
    assert figures.main(["nock_henecka_2020/fig99"]) == 2
    assert "no figure 'nock_henecka_2020/fig99'" in capsys.readouterr().err
