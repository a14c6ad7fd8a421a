"""The first rows of each user: whether a row counts follows from the rows of its own user alone."""

from collections.abc import Iterable, Iterator

import numpy as np

from dpbt.data.blocks import Rows


def limited(parts: Iterable[tuple[Rows, np.ndarray]], most: int, packed: bool) -> Iterator[Rows]:
    """Rows of which only the first `most` present ones of each user count.

    The rows of one user keep their order whatever other rows there are. So which of them count
    follows from them alone (docs/privacy.md, U1). A row without an id is absent. Between two parts
    a count is kept for each id, of about 110 to 150 bytes.

    Args:
        parts: rows in their order, some at a time, with the id of each, as `Label.ids` reads it.
        most: how many rows of a user count.
        packed: leave out the rows that do not count. Else they keep their places and are absent.
    """
    counted: dict[bytes | None, int] = {None: most}
    for rows, ids in parts:
        counts = np.zeros(len(ids), bool)
        for place in np.flatnonzero(rows.present).tolist():
            before = counted.get(ids[place], 0)
            if before < most:
                counted[ids[place]] = before + 1
                counts[place] = True
        if packed:
            yield Rows._make(None if array is None else array[..., counts] for array in rows)
        else:
            target = np.where(counts, rows.target, rows.target.dtype.type(0))
            yield rows._replace(target=target, present=counts)
