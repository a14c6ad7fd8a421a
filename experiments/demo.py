"""Test errors of private boosted trees by epsilon, on real data.

Ten-fold stratified cross-validation with 20 keys. All folds and keys of a setting are one vmapped
program, the same for every epsilon; the six structures (two calibrations, three criteria) are six
programs.

On a person's own rows the errors are exact functions of private rows, under public keys. Everything
that is printed or written then says that it is a benchmark and itself a release.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

import dpbt
from dpbt import losses, recipes
from dpbt.base import ADD_REMOVE, REPLACE_ONE, Recipe, Relation, Table, relation_name
from dpbt.data.domains import read_domain
from dpbt.data.files import read_csv
from dpbt.sweeps.storage import write_whole
from experiments.common import commands, data, protocols, results, tables

EPSILONS = (0.1, 1.0, 10.0)
CALIBRATIONS = ("published", "tight")
CRITERIA = {
    "objective calibration": {"alpha": "objective", "criterion": losses.m_alpha},
    "alpha = 1": {"alpha": 1.0, "criterion": losses.m_alpha},
    "Gini": {"alpha": 1.0, "criterion": losses.square},
}
SETTINGS = {"rounds": 5, "depth": 3, "folds": 10, "keys": 20, "seed": 0}
BUNDLED_ROWS = 600  # a round public bound on the bundled data's 569 rows
SMOKE = {**SETTINGS, "rounds": 2, "depth": 2, "folds": 2, "keys": 2}
PUBLIC = "public rows"
PRIVATE = "benchmark on private rows: itself a release, not covered by any ledger"
OWNER = "private, not covered by the ledger"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    words = "a CSV file with a header; needs --domain"
    parser.add_argument("--data", metavar="FILE", help=words)
    words = "a JSON file: the public domain of its columns, and the label's two classes"
    parser.add_argument("--domain", metavar="FILE", help=words)
    words = "public bound on the number of rows (add_remove); without it the number is public"
    parser.add_argument("--rows", type=int, metavar="COUNT", help=f"{words} (replace_one)")
    commands.add_out(parser, results.folder("demo"), ", a CSV and a figure")
    words = "print what was read as missing on standard error, for the owner alone; saved nowhere"
    parser.add_argument("--owner-report", action="store_true", help=words)
    commands.add_smoke(parser)
    commands.add_json(parser, "print the table as JSON")


@jax.jit
def _test_errors(keys, held_out, folds, table: Table, recipe: Recipe):
    """f32[B]: test errors of B models, each with its own key and its own held-out fold."""

    def one(key, fold):
        test = folds == fold
        score = dpbt.boost(key, table._replace(present=table.present & ~test), recipe).scores
        wrong = (score > 0) != table.target
        return jnp.sum(wrong & test) / jnp.sum(test)

    return jax.vmap(one)(keys, held_out)


def measure(
    dataset: data.Dataset, settings: dict, rows: int, relation: Relation, quiet: bool
) -> tuple[list[dict], dict, float]:
    """The table's rows, the error without privacy by criterion, and the seconds spent compiling."""
    folds = jnp.asarray(
        protocols.stratified_folds(dataset.label, settings["folds"], settings["seed"])
    )
    models = settings["folds"] * settings["keys"]
    keys = jax.random.split(jax.random.key(settings["seed"]), models)
    held_out = jnp.arange(models) % settings["folds"]
    table, lines, without, compile_seconds = dataset.table, [], {}, 0.0
    total = len(CALIBRATIONS) * len(CRITERIA) * (len(EPSILONS) + 1) * models
    with tqdm(total=total, unit="model", disable=quiet, file=sys.stderr) as progress:
        for calibration in CALIBRATIONS:
            for name, choice in CRITERIA.items():
                progress.set_description(f"{calibration}, {name}")
                for epsilon in (np.inf, *EPSILONS):
                    recipe = recipes.bdpe(
                        epsilon=epsilon,
                        rows=rows,
                        rounds=settings["rounds"],
                        depth=settings["depth"],
                        calibration=calibration,
                        relation=relation,
                        **choice,
                    )
                    start = time.perf_counter()
                    errors = np.asarray(
                        _test_errors(keys, held_out, folds, table, recipe), np.float64
                    )
                    seconds = time.perf_counter() - start
                    progress.update(models)
                    if np.isinf(epsilon):
                        compile_seconds += seconds
                        without[calibration, name] = float(errors.mean())
                        continue
                    ledger = dpbt.ledger(recipe)
                    lines.append(
                        {
                            "epsilon": epsilon,
                            "calibration": calibration,
                            "setting": name,
                            "test_error_mean": float(errors.mean()),
                            "test_error_sd": float(errors.std()),
                            "claimed_epsilon": ledger.epsilon,
                            "relation": relation_name(ledger.relation),
                            "seconds": seconds,
                            "models": models,
                            "unprotected": "; ".join(ledger.unprotected),
                        }
                    )
    return lines, without, compile_seconds


def _as_text(lines: list[dict]) -> str:
    head = ("epsilon", "calibration", "setting", "test error", "seconds", "models/s", "ledger")
    cells = [
        (
            f"{line['epsilon']:g}",
            line["calibration"],
            line["setting"],
            f"{line['test_error_mean']:.3f} +- {line['test_error_sd']:.3f}",
            f"{line['seconds']:.2f}",
            f"{line['models'] / line['seconds']:.0f}",
            f"{line['claimed_epsilon']:.6f}",
            line["relation"],
            "leaks: alpha" if line["unprotected"] else "",
        )
        for line in lines
    ]
    return tables.aligned((*head, "relation", ""), cells)


def _draw(path: Path, title: str, lines: list[dict], without: dict, majority: float) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
    for panel, calibration in zip(panels, CALIBRATIONS, strict=True):
        for k, name in enumerate(CRITERIA):
            chosen = [
                line
                for line in lines
                if line["calibration"] == calibration and line["setting"] == name
            ]
            x = np.array([line["epsilon"] for line in chosen]) * (1 + 0.12 * (k - 1))
            mean = np.array([line["test_error_mean"] for line in chosen])
            sd = np.array([line["test_error_sd"] for line in chosen])
            panel.errorbar(x, mean, sd, color=f"C{k}", marker="o", capsize=3, label=name)
            panel.axhline(without[calibration, name], color=f"C{k}", linewidth=0.8, linestyle=":")
        panel.axhline(majority, color="grey", linewidth=0.8, linestyle="--")
        at = {
            "x": 0.75,
            "y": majority + 0.005,
            "transform": panel.get_yaxis_transform(),
            "ha": "center",
        }
        panel.text(s="larger class", color="grey", fontsize=8, va="bottom", **at)
        panel.set(
            xscale="log", xlabel="epsilon", title=f"{calibration} calibration", xticks=EPSILONS
        )
        panel.set_xticklabels([f"{e:g}" for e in EPSILONS])
        panel.minorticks_off()
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set(ylabel="test error, mean and sd over folds and keys", ylim=(0, None))
    panels[1].legend(frameon=False, title="dotted: without privacy")
    figure.suptitle(title, fontsize=10)
    write_whole(path, lambda name: figure.savefig(name, dpi=150))
    plt.close(figure)


def public_size(options: argparse.Namespace, count: int) -> tuple[int, Relation]:
    """The public `rows` and the relation.

    They are a bound and add/remove, or the file's own number and replace-one.

    Raises:
        ValueError: if the bound is smaller than the file, whose size is not shown.
    """
    bound = options.rows if options.data else options.rows or BUNDLED_ROWS
    if bound is None:
        return count, REPLACE_ONE
    if bound < count:
        raise ValueError(f"--rows must be at least the number of rows in the file, got {bound}")
    return bound, ADD_REMOVE


def size_in_words(options: argparse.Namespace, count: int, rows: int, relation: Relation) -> str:
    """The number of rows where it is public, and else its public bound."""
    private = options.data is not None and relation is ADD_REMOVE
    return f"at most {rows} rows" if private else f"{count} rows"


def owner_report(missing: Mapping[str, int], unknown_labels: int) -> str:
    """What only the owner of the rows may see, under its heading; exact counts of private cells.

    Args:
        missing: column -> how many cells were read as missing.
        unknown_labels: how many rows have a label of neither class.
    """
    lines = [(f"{name}:", f"{count} cells read as missing") for name, count in missing.items()]
    last = ("label:", f"{unknown_labels} rows of neither class")
    return f"{OWNER}\n" + tables.align([*lines, last])


def run(options: argparse.Namespace) -> None:
    """Measure, print, write the CSV and the figure."""
    if (options.data is None) != (options.domain is None):
        raise ValueError("--data and --domain go together")
    if options.owner_report and options.data is None:
        raise ValueError("--owner-report is of one's own rows and needs --data")
    settings = SMOKE if options.smoke else SETTINGS
    dataset = data.from_csv(options.data, options.domain) if options.data else data.breast_cancer()
    if options.owner_report:
        domain, label = read_domain(options.domain)
        missing = dict(read_csv(options.data, domain, label).missing)
        unknown_labels = missing.pop(label.column)
        print(owner_report(missing, unknown_labels), file=sys.stderr)
    count = len(dataset.label) if dataset.lines is None else dataset.lines
    rows, relation = public_size(options, count)
    majority = float(min(dataset.label.mean(), 1 - dataset.label.mean()))
    start = time.perf_counter()
    lines, without, compile_seconds = measure(dataset, settings, rows, relation, quiet=options.json)
    seconds = time.perf_counter() - start

    out = Path(options.out)
    status = PRIVATE if options.data else PUBLIC
    lines = [{**line, "status": status} for line in lines]
    results.write_csv(out / "demo.csv", lines, {"dataset": dataset.name, "rows": rows, **settings})
    size = size_in_words(options, count, rows, relation)
    title = (
        f"{dataset.name}, {size}, {dataset.splits.shape[1]} splits; T = {settings['rounds']}, "
        f"D = {settings['depth']}; {settings['folds']} folds x {settings['keys']} keys; "
        f"{relation_name(relation)}"
    )
    title = f"{PRIVATE}\n{title}" if options.data else title
    _draw(out / "demo.png", title, lines, without, majority)
    if options.json:
        fields = (
            "epsilon",
            "calibration",
            "setting",
            "test_error_mean",
            "test_error_sd",
            "claimed_epsilon",
        )
        fields += ("relation", "seconds", "models", "status")
        print(json.dumps([{key: line[key] for key in fields} for line in lines], indent=1))
        return
    print(f"{title}\n")
    print(_as_text(lines))
    references = [f"{name} {without['tight', name]:.3f}" for name in CRITERIA]
    print(f"\nwithout privacy: {', '.join(references)}")
    print(f"predicting the larger class: {majority:.3f}")
    total = (len(lines) + len(without)) * lines[0]["models"]
    words = f"{compile_seconds:.1f} s of it compiling {len(without)} programs"
    print(f"{total} models in {seconds:.1f} s, {words}")
    print(f"wrote {out / 'demo.csv'} and {out / 'demo.png'}")
