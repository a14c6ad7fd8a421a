"""From the bytes of a file to an exact loss: lines of any bytes, each a row by itself."""

import functools

import jax
import numpy as np
import pytest

import dpbt
from dpbt import audit, recipes
from dpbt.data.splits import satisfied_splits
from dpbt.types import ADD_REMOVE
from tests.support import file_neighbours
from tests.support.attacks import GRID
from tests.support.recipe_noise import scale_by_site

pytestmark = pytest.mark.unoptimized

PIECES = [
    *(b'"', b'""', b",", b", ", b" ", b"\t", b"\r", b"\x00", b"\xff", b"\xc3", b"\xe2\x80\xa8"),
    *(b"\x0b", b"\x0c", b"\x1c", b"\x85", b"\\", b"'", b";", b"#", b"=", b"\xef\xbb\xbf"),
    *(b"1", b"0", b"yes", b"no", b"clerk", b"smith", b"3", b"3.0", b"NA", b"nan", b"-0.0", b"1e9"),
    *(b"1e-400", b"inf", b"1_0", b"0x1", b"1+2j", b"\xd9\xa1", b"True", b"\xc2\xa01", b"41", b"x"),
]
"""What a line may be made of: quotes, blanks, ends of lines elsewhere, numbers of all kinds."""


def odd_line(rng: np.random.Generator) -> bytes:
    """Six cells of pieces, or a heap of them."""
    if rng.random() < 0.3:
        return b"".join(PIECES[k] for k in rng.choice(len(PIECES), rng.integers(0, 30)))
    cells = [
        b"".join(PIECES[k] for k in rng.choice(len(PIECES), rng.integers(1, 3))) for _ in range(6)
    ]
    return b",".join(cells)


@pytest.mark.parametrize("exact", [False, True], ids=["cells", "exact"])
@pytest.mark.parametrize("seed", range(2))
def test_no_line_raises_and_no_line_changes_another(seed, exact):
    """In one file of all lines, each row is what it is in a file of its own."""
    rng = np.random.default_rng(seed)
    lines = [odd_line(rng) for _ in range(60)]
    together = file_neighbours.table_of_lines(lines, exact)
    for place in rng.choice(60, 15, replace=False):
        alone = file_neighbours.table_of_lines([lines[place]], exact)
        for whole, own in zip(together[:3], alone[:3], strict=True):
            np.testing.assert_array_equal(np.asarray(whole)[place], np.asarray(own)[0])
    turned = file_neighbours.table_of_lines(lines[::-1], exact)
    for whole, back in zip(together[:3], turned[:3], strict=True):
        np.testing.assert_array_equal(np.asarray(whole)[:60], np.asarray(back)[:60][::-1])


@functools.cache
def recipe():
    rows = file_neighbours.CAPACITY
    return recipes.bdpe(epsilon=1.0, rows=rows, rounds=1, depth=1, alpha=1.0)


@pytest.mark.parametrize("seed", range(3))
def test_an_odd_line_costs_at_most_the_ledger(seed):
    """The exact loss between a file and the same without one line, whatever the line holds."""
    rng = np.random.default_rng(100 + seed)
    lines = [*file_neighbours.plain_lines(seed, 30), *(odd_line(rng) for _ in range(20))]
    place = int(rng.integers(30, 50))
    without = file_neighbours.table_of_lines([*lines[:place], *lines[place + 1 :]])
    pair = file_neighbours.table_of_lines(lines), file_neighbours.insert_absent_row(without, place)
    assert recipe().relation is ADD_REMOVE
    loss = audit.largest_loss_between_tables(
        jax.random.key(seed), *pair, recipe(), num_transcripts=3
    )
    assert loss <= dpbt.ledger(recipe()).epsilon + 1e-4


@pytest.mark.parametrize("odd", [False, True])
def test_a_changed_cell_loses_at_most_one_row_by_an_independent_likelihood(odd):
    """A Boolean column beside one odd cell more or less: leaves move by one row."""
    domain = {"flag": dpbt.domains.Boolean()}
    cells = [True, 1, "1", 1.0, False, 0, "0", 0.0] * 10 if odd else [True, False] * 40
    labels = ([True] * 3 + [False] * 5) * 10
    words = {"negative": "False", "positive": "True", "capacity": 100}
    plain = dpbt.table(domain, {"flag": cells}, labels, **words)
    once = recipes.bdpe(epsilon=1.0, rows=100, rounds=1, depth=1, alpha=1.0)
    boost, scale = jax.jit(dpbt.boost), scale_by_site(once)["leaf"]
    for cell in (None, "NA", 10**30, "x", float("nan"), b"\xff", [1], np.datetime64("NaT")):
        more = dpbt.table(domain, {"flag": [*cells, cell]}, [*labels, True], **words)
        for here, there in zip(plain[:3], more[:3], strict=True):
            np.testing.assert_array_equal(np.asarray(here)[:80], np.asarray(there)[:80])
        assert int(np.sum(np.asarray(more.present))) == 81

        release = boost(jax.random.key(0), more, once).transcript.rounds
        outputs, split = np.asarray(release["leaf"][0], np.float64), int(release["split_0"][0, 0])
        far = []
        for table in (plain, more):
            side, label = np.asarray(satisfied_splits(table))[:, split], np.asarray(table.target)
            present = np.asarray(table.present)
            every = [[np.sum(present & (side == s) & (label == y)) for y in (0, 1)] for s in (0, 1)]
            far.append(np.abs(outputs - GRID * np.asarray(every)))
        loss = abs(np.sum(far[0] - far[1]) / scale)
        assert loss <= 0.5 * (1 + 1e-9)  # the leaves' half of the budget


LABELS = ["1", "0", "maybe", "", None, 2, "10", b"\xff", [1], float("nan"), "TRUE", True, 10**400]


def test_labels_of_neither_class_are_absent_and_raise_nothing():
    domain = {"flag": dpbt.domains.Boolean()}
    flags = [1] * len(LABELS)
    table = dpbt.table(domain, {"flag": flags}, LABELS, negative="0", positive="1")
    expected = [True, True, *[False] * 9, True, False]
    np.testing.assert_array_equal(table.present, expected)
    np.testing.assert_array_equal(np.flatnonzero(np.asarray(table.target)), [0, 11])
