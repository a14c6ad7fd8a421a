"""Results as tables: aligned text, or Markdown."""

import string
from collections.abc import Iterable, Mapping, Sequence

from dpbt.privacy.accounting import align_columns


def align_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A head and rows with as many cells each, in aligned columns."""
    return align_columns([tuple(head), *rows])


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    bar = ["---"] * len(head)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, bar, *rows))


def format_table(lines: Iterable[Mapping], columns: Mapping[str, str]) -> str:
    """Lines as aligned text.

    Args:
        lines: lines with equal keys.
        columns: head -> the format of a cell, such as "{rows} x {splits}" or "{seconds:.2f}". A
            cell is blank where a value of it is None.
    """
    return align_table(
        list(columns), [[_format_cell(line, form) for form in columns.values()] for line in lines]
    )


def _format_cell(line: Mapping, form: str) -> str:
    names = [name.split("[")[0] for _, name, *_ in string.Formatter().parse(form) if name]
    return "" if any(line[name] is None for name in names) else form.format_map(line)


def align_lines(lines: Sequence[Mapping], names: Sequence[str], real: str = ".4g") -> str:
    """The named columns of lines as text; floats have the given format, and None is blank.

    A float that the format would show as 0 has four significant digits.
    """

    def format_cell(value: object) -> str:
        if not isinstance(value, float):
            return "" if value is None else str(value)
        text = format(value, real)
        return f"{value:.4g}" if value and float(text) == 0 else text

    return align_table(names, [[format_cell(line[name]) for name in names] for line in lines])
