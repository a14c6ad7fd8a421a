"""How runs are put side by side: batches of few sizes, with little waste in each."""

from collections.abc import Sequence

LANES = (4, 16)
"""How many runs a batch has room for. Each size compiles a program."""

MOST_CELLS = 2**23
"""The most rows times lanes in one program, beyond the smallest batches."""

_START = 1
"""What a round of a batch costs beside its lanes, in lanes."""


def of_runs(rounds: Sequence[int], rows: int) -> list[tuple[int, int, int]]:
    """(start, stop, lanes) of each batch, in order, of the least cost.

    All lanes of a batch take as long as its longest run. So runs that differ in their rounds are
    put apart where that is worth a batch of its own.

    Args:
        rounds: of each run, in ascending order.
        rows: of a table.
    """
    sizes = [lanes for lanes in LANES if lanes == LANES[0] or lanes * rows <= MOST_CELLS]
    cheapest, last = [0], []
    for stop, longest in enumerate(rounds, start=1):
        options = [
            (cheapest[start] + (lanes + _START) * longest, start, lanes)
            for lanes in sizes
            for start in range(max(stop - lanes, 0), stop)
        ]
        cost, start, lanes = min(options)
        cheapest.append(cost)
        last.append((start, stop, lanes))

    found, stop = [], len(rounds)
    while stop:
        found.append(last[stop - 1])
        stop = last[stop - 1][0]
    return found[::-1]
