"""The result of a check of a mechanism or of a learner: lines with a figure and its limit."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckLine:
    """One property, and the figure that it was judged by.

    Attributes:
        name: the property, in a few words.
        passed: whether it holds.
        figure: what was measured.
        limit: what the figure is compared with, and how, in words.
        where: on which values, site or table the figure was worst.
    """

    name: str
    passed: bool
    figure: float
    limit: str
    where: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckReport:
    """The lines of a check of a mechanism or a learner.

    Attributes:
        subject: the mechanism or the learner.
        lines: a line for each property.
    """

    subject: str
    lines: tuple[CheckLine, ...]

    @property
    def passed(self) -> bool:
        """Whether all the checked properties hold."""
        return all(line.passed for line in self.lines)

    def __str__(self) -> str:
        verdict = "passed" if self.passed else "FAILED"
        rows = [
            ("ok" if line.passed else "FAILED", line.name, f"{line.figure:.4g}", line.limit)
            for line in self.lines
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = [
            "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True))
            + f"  {line.where}"
            for row, line in zip(rows, self.lines, strict=True)
        ]
        return "\n".join([f"{self.subject}: {verdict}", *table])


class CheckError(AssertionError):
    """The error that a mechanism or a learner does not keep what it claims.

    Its message is the report.

    Attributes:
        report: all lines of the check.
    """

    def __init__(self, report: CheckReport):
        super().__init__(str(report))
        self.report = report


def report_or_fail(subject: str, lines: Sequence[CheckLine]) -> CheckReport:
    """Make the report of some lines, or raise it as an error if one of them did not pass.

    Raises:
        CheckError: if one of them did not pass.
    """
    report = CheckReport(subject=subject, lines=tuple(lines))
    if not report.passed:
        raise CheckError(report)
    return report
