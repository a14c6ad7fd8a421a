"""List the data sets, describe one, or download them."""

import argparse
import json
import sys
from typing import NamedTuple

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
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


def run_command(options: argparse.Namespace) -> None:
    """Run one of the sub-commands.

    Raises:
        InputError: for a data set that is not in the registry, and if a file was refused.
        OSError: if a download failed.
    """
    match options.action:
        case "check":
            _print_list(options)
        case "show":
            _print_entry(find_entry(options.dataset), options)
        case "fetch":
            _fetch_files(options)
        case _:
            raise AssertionError(options.action)


class FileStatus(NamedTuple):
    """How the files of a data set compare with the registry.

    Attributes:
        status: "ok" means that all files have the known sha256. "other copy" means that one differs
            from the registry's copy, which may not be the source's own. "CHANGED" means that one is
            not the source's file. "absent" means that one is missing.
        folders: the folders that hold the files.
    """

    status: str
    folders: str


def file_status(entry: Entry, folder: str | None) -> FileStatus:
    """The worst status of a data set's files, and where they are."""
    paths = [(file, find_file(entry, file, folder)) for file in entry.files]
    folders = {str(path.parent) for _, path in paths if path is not None}
    words = []
    for file, path in paths:
        if path is None:
            words.append("absent")
        elif sha256(path) != file.hashes[path.name]:
            words.append("CHANGED" if file.exact else "other copy")
    worst = next((word for word in ("absent", "CHANGED", "other copy") if word in words), "ok")
    return FileStatus(worst, ", ".join(sorted(folders)))


def _print_list(options: argparse.Namespace) -> None:
    lines = []
    for entry in ENTRIES.values():
        domain = entry.domain(10)
        status, folders = file_status(entry, options.data)
        lines.append(
            {
                "name": entry.name,
                "rows": entry.rows,
                "columns": len(domain),
                "splits": len(predicates(domain)),
                "status": status,
                "where": folders,
                "licence": entry.licence,
            }
        )
    if options.json:
        print(json.dumps(lines, indent=1))
        return
    head = ["splits at 10 bins" if name == "splits" else name for name in lines[0]]
    print(tables.align_table(head, ([str(cell) for cell in line.values()] for line in lines)))
    absent = [line["name"] for line in lines if line["status"] == "absent"]
    count = f"{len(lines) - len(absent)} of {len(lines)} are there"
    print(f"\nsearched {', '.join(map(str, search_folders(options.data)))}; {count}")
    if absent:
        advice = "`python -m experiments data fetch NAME` downloads one, and `... show NAME` prints"
        print(f"absent: {', '.join(absent)}; {advice} its source")


def _print_entry(entry: Entry, options: argparse.Namespace) -> None:
    test_note = ", the last file's rows are the canonical test set" if len(entry.files) > 1 else ""
    pairs = {
        "title": entry.title,
        "rows": f"{entry.rows}{test_note}",
        "rule": entry.rule,
        "missing": entry.missing,
        "note": entry.note,
        "papers": "Nock & Henecka (2020)" if entry.name in NOCK_HENECKA else "",
        "cite": entry.citation,
        "page": entry.page,
        "licence": entry.licence,
        "here": " ".join(file_status(entry, options.data)).strip(),
        "not fetched": entry.unavailable,
    }
    files = [
        (file.name, file.url or "no download", file.sha256 or "sha256 not known")
        for file in entry.files
    ]
    columns = [(name, _describe_column(column)) for name, column in entry.domain(10).items()]
    print(f"{entry.name}\n")
    print(align_columns([(name, text) for name, text in pairs.items() if text]))
    print(f"\nfiles:\n{align_columns(files)}\n\npublic domain:\n{align_columns(columns)}")


def _describe_column(column: Column) -> str:
    match column:
        case Numeric():
            missing = ", may be missing" if column.missing else ""
            return f"{column.low:g} to {column.high:g}{missing}"
        case Nominal():
            return " ".join(column.values)
        case Boolean():
            return "yes or no"


def _fetch_files(options: argparse.Namespace) -> None:
    is_all = options.dataset == "all"
    entries = list(ENTRIES.values()) if is_all else [find_entry(options.dataset)]
    failed = []
    for entry in entries:
        if is_all and entry.unavailable and not options.mirror:
            print(f"{entry.name}: left out: {entry.unavailable} ({entry.page})", file=sys.stderr)
            continue
        try:
            files = fetch(entry, options.data, options.mirror)
        except (ValueError, OSError) as error:
            if not is_all:
                raise
            print(f"{entry.name}: {error}", file=sys.stderr)
            failed.append(entry.name)
            continue
        for path, is_new in files:
            print(f"{entry.name}: {'fetched' if is_new else 'already there:'} {path}")
    if failed:
        raise OSError(
            f"{len(failed)} of {len(entries)} data sets were not fetched: {', '.join(failed)}"
        )
