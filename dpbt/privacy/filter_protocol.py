"""The protocol of a privacy filter: a fit asks it whether it can pay, and pays before it draws."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from dpbt.privacy.accounting import Ledger
from dpbt.types import Array, Recipe


@runtime_checkable
class PrivacyFilter(Protocol):
    """A budget that several releases of the same rows share.

    `dpbt.Filter` is one.

    Attributes:
        terms: the epsilon and the delta of all releases together, and for which rows they hold.
    """

    terms: Any

    @property
    def ledger(self) -> Ledger:
        """The ledger of all releases that the filter has paid for."""
        ...

    def describe_remaining(self) -> str:
        """Describe what is left of the budget, in words."""
        ...

    def check(self, recipe: Recipe, key: Array | None = None) -> None:
        """Refuse a recipe that the filter cannot pay for now.

        The check costs nothing.
        """
        ...

    def payment_callback(self, recipe: Recipe, key: Array) -> Callable[[str | None], None]:
        """Build the function that pays for a fit, which the fit calls before it draws.

        A resumed run pays once.
        """
        ...
