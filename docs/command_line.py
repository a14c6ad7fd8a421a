"""Write the commands of docs/command_line.md from the parsers: `make docs` does.

A test compares the page with them.
"""

import argparse
import contextlib
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import dpbt.__main__
from dpbt.owners.cli.parsing import Parser

PAGE = Path(__file__).with_suffix(".md")
MARK = "<!-- The rest is written by docs/command_line.py. -->\n"


def page() -> str:
    """The page: its text up to the mark, and a section for each command."""
    parser = Parser(prog="dpbt")
    parser.add_commands(dpbt.__main__.COMMANDS)
    return PAGE.read_text().partition(MARK)[0] + MARK + "".join(_sections(parser))


def _sections(parser: Parser) -> Iterator[str]:
    """A heading, the description and a table of options for each command below a parser."""
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        parser.parse_known_args(["--help"])  # which adds the options
    below = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    if parser.prog != "dpbt" and not below:
        lines = [_line(parser, each) for each in parser._actions if each.dest != "help"]
        table = "\n".join(["| argument | what it is |", "|---|---|", *lines])
        yield f"\n## {parser.prog}\n\n{_mark_options(parser.description or '')}\n\n{table}\n"
    for each in below:
        for command in each.choices.values():
            yield from _sections(command)


def _line(parser: Parser, action: argparse.Action) -> str:
    """The row of an argument."""
    values = action.metavar if isinstance(action.metavar, tuple) else (action.metavar or "",)
    count = action.nargs if isinstance(action.nargs, int) and len(values) == 1 else 1
    value = " ".join(values * count)
    name = " ".join(
        [*action.option_strings, f"[{value}]" if action.nargs == "?" else value]
    ).strip()
    words = _mark_options(parser._get_formatter()._expand_help(action))
    must = "; required" if action.required and action.option_strings else ""
    return f"| `{name}` | {words}{must} |"


def _mark_options(text: str) -> str:
    """The text, with options such as --rows as code, which no line breaks within."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"(?<![\w-])--[a-z][\w-]*", r"`\g<0>`", part) for part in parts[::2]]
    return "`".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"wrote {PAGE}", file=sys.stderr)
