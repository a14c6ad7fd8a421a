"""Text that a notebook shows as it is printed."""

import html


class PreformattedText(str):
    """Text whose lines and columns a notebook keeps.

    Its signs are escaped.
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        """The text in a block of HTML that keeps its lines."""
        return f"<pre>{html.escape(self)}</pre>"
