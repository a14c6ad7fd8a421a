"""Results as aligned text, and as Markdown."""

from collections.abc import Iterable, Mapping, Sequence

from dpbt.privacy.accounting import align


def aligned(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A head and rows with as many cells each, in aligned columns."""
    return align([tuple(head), *rows])


def of_lines(lines: Sequence[Mapping], names: Sequence[str], real: str = ".4g") -> str:
    """The named columns of lines as text; floats have the given format, and None is blank."""

    def cell(value: object) -> str:
        if value is None:
            return ""
        return format(value, real) if isinstance(value, float) else str(value)

    return aligned(names, [[cell(line[name]) for name in names] for line in lines])


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    bar = ["---"] * len(head)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, bar, *rows))
