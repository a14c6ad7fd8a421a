"""Refusals of columns of dates that are declared as no date, before a cell is read."""

from dpbt.data.cells import RawColumn, is_date_type, is_time_type, time_type_of_column
from dpbt.data.column_types import Column, Numeric


def refuse_undeclared_dates(name: str, values: RawColumn, kind: Column | None) -> None:
    """Refuse a column of dates that is not declared as one of dates.

    None of its cells would be read.

    It reads the type that the container states, which is public, and no cell.

    Args:
        name: how the error calls the column.
        values: the column.
        kind: the declared kind of the column; None for labels, weights and ids of users.

    Raises:
        ValueError: as `refuse_undeclared_date_type`.
    """
    if (type_name := time_type_of_column(values)) is not None:
        refuse_undeclared_date_type(name, type_name, kind)


def refuse_undeclared_date_type(name: str, type_name: str, kind: Column | None) -> None:
    """Refuse a type of dates for a column that is not declared as one of dates.

    None of its cells would be read.

    Args:
        name: how the error calls the column.
        type_name: the name of the type of its cells; others than those of dates pass.
        kind: the declared kind of the column; None for labels, weights and ids of users.

    Raises:
        ValueError: for dates that are not declared, and for times and durations.
    """
    is_date_column = isinstance(kind, Numeric) and kind.date is not None
    if not is_time_type(type_name) or (is_date_column and is_date_type(type_name)):
        return
    advice = "write them as numbers or text"
    if is_date_type(type_name) and kind is not None:
        advice = (
            'declare it as numeric with a date and a unit, such as Numeric("2015-01-01", '
            '"2024-12-31", date="iso", unit="days")'
        )
    raise ValueError(
        f"{name} is of the type {type_name}, of which no cell would be read as it is declared; "
        f"{advice}"
    )
