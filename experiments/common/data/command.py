"""List the data sets, describe one, or download them."""

import argparse
import json
import sys

from dpbt.data.domains import Boolean, Column, Nominal, Numeric, predicates
from dpbt.privacy.accounting import align_columns
from experiments.common import tables
from experiments.common.data.entry import Entry
from experiments.common.data.fetch import fetch, sha256
from experiments.common.data.registry import (
    ENTRIES,
    NOCK_HENECKA,
    find_entry,
    find_file,
    search_folders,
)

FIELDS = ("name", "rows", "columns", "splits", "status", "where", "licence")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands and their options."""
    commands = parser.add_subparsers(dest="action", required=True, metavar="{check,show,fetch}")
    check = commands.add_parser(
        "check", help="list all data sets, and whether their files have the known sha256"
    )
    check.add_argument("--json", action="store_true", help="print a list of JSON objects")
    show = commands.add_parser(
        "show", help="describe a data set: source, licence, label and public domain"
    )
    show.add_argument("dataset", metavar="NAME")
    get = commands.add_parser("fetch", help="download missing files from the original source")
    get.add_argument("dataset", metavar="NAME", help="a data set, or `all`")
    get.add_argument("--mirror", metavar="URL", help="download URL/FOLDER/FILE instead")
    for command in (check, show, get):
        words = "folder of the data sets (else $DPBT_DATA, else the user's cache folder)"
        command.add_argument("--data", metavar="FOLDER", help=words)


def run(options: argparse.Namespace) -> None:
    """Run one of the sub-commands.

    Raises:
        InputError: for a data set that is not in the registry, and if a file was refused.
        OSError: if a download failed.
    """
    match options.action:
        case "check":
            _check(options)
        case "show":
            _show(find_entry(options.dataset), options)
        case "fetch":
            _fetch(options)
        case _:
            raise AssertionError(options.action)


def status(entry: Entry, folder: str | None) -> tuple[str, str]:
    """The status of a data set's files, and the folders that hold them.

    "ok" means that all files have the known sha256. "other copy" means that one differs from the
    registry's copy, which may not be the source's own. "CHANGED" means that one is not the source's
    file. "absent" means that one is missing.
    """
    paths = [(file, find_file(entry, file, folder)) for file in entry.files]
    where = {str(path.parent) for _, path in paths if path is not None}
    words = []
    for file, path in paths:
        if path is None:
            words.append("absent")
        elif sha256(path) != file.hashes[path.name]:
            words.append("CHANGED" if file.exact else "other copy")
    worst = next((word for word in ("absent", "CHANGED", "other copy") if word in words), "ok")
    return worst, ", ".join(sorted(where))


def _check(options: argparse.Namespace) -> None:
    lines = []
    for entry in ENTRIES.values():
        domain = entry.domain(10)
        words, where = status(entry, options.data)
        sizes = (entry.rows, len(domain), len(predicates(domain)))
        values = (entry.name, *sizes, words, where, entry.licence)
        lines.append(dict(zip(FIELDS, values, strict=True)))
    if options.json:
        print(json.dumps(lines, indent=1))
        return
    head = ["splits at 10 bins" if name == "splits" else name for name in FIELDS]
    print(tables.align_table(head, ([str(cell) for cell in line.values()] for line in lines)))
    absent = [line["name"] for line in lines if line["status"] == "absent"]
    there = f"{len(lines) - len(absent)} of {len(lines)} are there"
    print(f"\nsearched {', '.join(map(str, search_folders(options.data)))}; {there}")
    if absent:
        advice = "`python -m experiments data fetch NAME` downloads one, and `... show NAME` prints"
        print(f"absent: {', '.join(absent)}; {advice} its source")


def _show(entry: Entry, options: argparse.Namespace) -> None:
    more = ", the last file's rows are the canonical test set" if len(entry.files) > 1 else ""
    pairs = {
        "title": entry.title,
        "rows": f"{entry.rows}{more}",
        "rule": entry.rule,
        "missing": entry.missing,
        "note": entry.note,
        "papers": "Nock & Henecka (2020)" if entry.name in NOCK_HENECKA else "",
        "cite": entry.citation,
        "page": entry.page,
        "licence": entry.licence,
        "here": " ".join(status(entry, options.data)).strip(),
        "not fetched": entry.unavailable,
    }
    files = [
        (file.name, file.url or "no download", file.sha256 or "sha256 not known")
        for file in entry.files
    ]
    columns = [(name, _words(column)) for name, column in entry.domain(10).items()]
    print(f"{entry.name}\n")
    print(align_columns([(name, text) for name, text in pairs.items() if text]))
    print(f"\nfiles:\n{align_columns(files)}\n\npublic domain:\n{align_columns(columns)}")


def _words(column: Column) -> str:
    match column:
        case Numeric():
            missing = ", may be missing" if column.missing else ""
            return f"{column.low:g} to {column.high:g}{missing}"
        case Nominal():
            return " ".join(column.values)
        case Boolean():
            return "yes or no"


def _fetch(options: argparse.Namespace) -> None:
    everything = options.dataset == "all"
    wanted = list(ENTRIES.values()) if everything else [find_entry(options.dataset)]
    failed = []
    for entry in wanted:
        if everything and entry.unavailable and not options.mirror:
            print(f"{entry.name}: left out: {entry.unavailable} ({entry.page})", file=sys.stderr)
            continue
        try:
            done = fetch(entry, options.data, options.mirror)
        except (ValueError, OSError) as error:
            if not everything:
                raise
            print(f"{entry.name}: {error}", file=sys.stderr)
            failed.append(entry.name)
            continue
        for path, fresh in done:
            print(f"{entry.name}: {'fetched' if fresh else 'already there:'} {path}")
    if failed:
        raise OSError(
            f"{len(failed)} of {len(wanted)} data sets were not fetched: {', '.join(failed)}"
        )
