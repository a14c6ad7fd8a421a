"""What a fit asks of a privacy filter: whether it can pay, and to pay before anything is drawn."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from dpbt.privacy.accounting import Ledger
from dpbt.types import Array, Recipe


@runtime_checkable
class PrivacyFilter(Protocol):
    """A budget that several releases of the same rows share; `dpbt.Filter` is one.

    Attributes:
        terms: the epsilon and the delta of all releases together, and for which rows they hold.
    """

    terms: Any

    @property
    def ledger(self) -> Ledger:
        """What all releases cost together that the filter paid for."""
        ...

    def words(self) -> str:
        """What is left, in words."""
        ...

    def check(self, recipe: Recipe, key: Array | None = None) -> None:
        """Refuse a recipe that the filter does not pay for now; it costs nothing."""
        ...

    def paying(self, recipe: Recipe, key: Array) -> Callable[[str | None], None]:
        """What a fit calls before it draws: it pays, and once for a run that goes on."""
        ...
