"""Measure private boosted trees by epsilon on real data: test errors and AUROC.

The protocol is ten-fold stratified cross-validation with 20 keys. Two calibrations and three
criteria make six compiled programs; each serves all epsilons, folds and keys. `auto`, which chooses
its own numbers, has a program for each epsilon. The CSV file is rewritten after every setting, so a
run that is stopped leaves what it has measured.

All settings are shown, and none is selected: the best test error of several is no error of a model.
`dpbt.tune` makes such a choice privately, and its ledger covers it.

On a person's own rows the results are exact functions of private rows, under public keys.
Everything that is printed or written then says that it is a benchmark and itself a release.
"""

import argparse
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import dpbt
from dpbt import recipes, sweeps
from dpbt.common import compilation
from dpbt.common.storage import write_atomically
from dpbt.data.domains import Domain
from dpbt.owners.cli.parsing import InputError
from dpbt.types import ADD_REMOVE, REPLACE_ONE, Array, Recipe, Relation, Table
from experiments.common import commands, data, protocols, results, tables
from experiments.common.criteria import CRITERIA, LABELS
from experiments.common.progress import progress

EPSILONS = (0.1, 1.0, 10.0)
AUTO = ("tight", "auto")
"""The curve whose numbers follow from public quantities."""

SETTINGS = {"rounds": 5, "depth": 3, "folds": 10, "keys": 20, "seed": 0}
BUNDLED_ROWS = 600
"""A round public bound on the bundled data's 569 rows."""

SMOKE = {**SETTINGS, "rounds": 2, "depth": 2, "folds": 2, "keys": 2}
MEMORY_MB = 64
"""Working memory for the models that are trained at a time."""

PUBLIC = "public rows"
PRIVATE = "benchmark on private rows: itself a release, not covered by any ledger"
PUBLISHED = (
    "published test errors near chance come from the noise that the paper's constants ask for"
)

FIELDS = (
    *("epsilon", "calibration", "setting"),
    *("test_error_mean", "test_error_sd", "auroc_mean", "auroc_sd"),
    *("claimed_epsilon", "relation", "seconds", "models", "status"),
)
"""The fields of a JSON line."""

STYLES = {
    "objective": {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    "alpha-1": {"color": "#D55E00", "marker": "s", "linestyle": "--"},
    "gini": {"color": "#009E73", "marker": "^", "linestyle": "-."},
    "auto": {"color": "black", "marker": "D", "linestyle": "-", "linewidth": 2},
}
"""Setting -> its style in the figure; the colours are told apart by colour-blind people too."""


WORDS = {**LABELS, "auto": "auto: boosted oblivious trees"}
"""Setting -> its label in the figure."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    words = "measure on this CSV file, which has a header; needs --domain"
    parser.add_argument("--data", metavar="FILE", help=words)
    words = "a JSON file with the public domain of the columns and the two classes of the label"
    parser.add_argument("--domain", metavar="FILE", help=words)
    words = "public bound on the number of rows (add_remove); else the number is public"
    words = f"{words} (replace_one)"
    parser.add_argument("--rows", type=commands.whole_number_type(1), metavar="COUNT", help=words)
    commands.add_shared(
        parser,
        out=results.results_folder("demo"),
        out_note=", a CSV file and a figure",
        smoke=True,
        json="print the table as JSON",
    )


class Scores(NamedTuple):
    """Test errors and AUROCs of models, each a mean and a standard deviation over folds and keys.

    AUROC is NaN where no held-out fold has rows of both classes.
    """

    error: float
    error_sd: float
    auroc: float
    auroc_sd: float


class Evaluations(NamedTuple):
    """What the B models of a setting have in common, whatever the setting.

    Attributes:
        table: all rows.
        folds: i32[N], the fold of each row.
        keys: key[B], one for each model.
        held_out: i32[B], the fold that each model is tested on.
    """

    table: Table
    folds: Array
    keys: Array
    held_out: Array

    def select(self, start: int, count: int) -> "Evaluations":
        """Some of the models, from `start` on."""
        models = slice(start, start + count)
        return self._replace(keys=self.keys[models], held_out=self.held_out[models])


class Measurements(NamedTuple):
    """All curves that were measured.

    Attributes:
        lines: a line for each epsilon, calibration and criterion.
        without: (calibration, criterion) -> the scores without privacy.
        compile_seconds: the seconds of the first call of each program.
    """

    lines: list[results.Line]
    without: dict[tuple[str, str], Scores]
    compile_seconds: float


SHORT_RUN = 2**26
"""Models that take at most so many rows times rounds together are compiled sooner, if they may be.

Such a program of greedy trees compiles in about half of the processor's time, and runs as fast.
"""


def _row_scores(models: Evaluations, recipe: Recipe) -> Array:
    """f32[B, N]: scores of B models, each trained with its own key outside its held-out fold."""
    run_size = len(models.held_out) * models.table.target.shape[0] * recipe.max_rounds
    if run_size <= SHORT_RUN and compilation.may_choose_compiler_options():
        return _compiled_sooner(models, recipe)
    return _compiled_with_all_care(models, recipe)


def _train_and_score(models: Evaluations, recipe: Recipe) -> Array:
    """As `_row_scores`, for any compiler; traceable."""

    def train(key: Array, fold: Array) -> Array:
        present = models.table.present & (models.folds != fold)
        return dpbt.boost(key, models.table._replace(present=present), recipe).scores

    return jax.vmap(train)(models.keys, models.held_out)


_compiled_with_all_care = jax.jit(_train_and_score)
_compiled_sooner = jax.jit(_train_and_score, compiler_options=compilation.OLDER_EMITTER)


@jax.jit
def _errors_and_aurocs(scores: Array, models: Evaluations) -> tuple[Array, Array]:
    """f32[B], f32[B]: test error and AUROC of each model on its held-out fold."""
    target = models.table.target

    def evaluate_model(score: Array, fold: Array) -> tuple[Array, Array]:
        test = models.folds == fold
        error = jnp.sum(((score > 0) != target) & test) / jnp.sum(test)
        return error, protocols.auroc(score, target, test)

    return jax.vmap(evaluate_model)(scores, models.held_out)


def make_evaluations(dataset: data.Dataset, settings: Mapping[str, int]) -> Evaluations:
    """The models of a setting: every fold is held out once with every key."""
    folds = protocols.stratified_folds(dataset.label, settings["folds"], settings["seed"])
    count = settings["folds"] * settings["keys"]
    return Evaluations(
        table=dataset.table,
        folds=jnp.asarray(folds),
        keys=jax.random.split(jax.random.key(settings["seed"]), count),
        held_out=jnp.arange(count) % settings["folds"],
    )


def evaluate(
    models: Evaluations, recipe: Recipe, lanes: int, report: Callable[[int], Any]
) -> Scores:
    """Train and test all models of one setting.

    Args:
        models: the models.
        recipe: the setting.
        lanes: how many models are trained at a time.
        report: called with the number of models, each time that some have been evaluated.
    """
    errors, aurocs = [], []
    for start in range(0, len(models.held_out), lanes):
        batch = models.select(start, lanes)
        scores = _row_scores(batch, recipe)
        batch_errors, batch_aurocs = jax.device_get(_errors_and_aurocs(scores, batch))
        errors.append(batch_errors)
        aurocs.append(batch_aurocs)
        report(len(batch.held_out))

    error, auroc = (np.concatenate(batches).astype(np.float64) for batches in (errors, aurocs))
    defined = auroc[~np.isnan(auroc)]  # a fold of one class has no AUROC
    return Scores(
        error=float(error.mean()),
        error_sd=float(error.std()),
        auroc=float(defined.mean()) if len(defined) else np.nan,
        auroc_sd=float(defined.std()) if len(defined) else np.nan,
    )


def choose_lanes(table: Table, recipe: Recipe, models: int) -> int:
    """How many models are trained at a time: a divisor of `models` that fits `MEMORY_MB`."""
    one_setting = jax.tree.map(lambda leaf: np.asarray(leaf)[None], recipe)
    max_lanes = max(MEMORY_MB * 2**20 // sweeps.estimate_lane_bytes(table, one_setting), 1)
    return max(
        lanes for lanes in range(1, models + 1) if models % lanes == 0 and lanes <= max_lanes
    )


def measure(
    dataset: data.Dataset,
    settings: Mapping[str, int],
    *,
    rows: int,
    relation: Relation,
    quiet: bool,
    save: Callable[[list[results.Line]], object],
) -> Measurements:
    """Measure every curve at every epsilon, and without privacy.

    Args:
        dataset: all rows.
        settings: as `SETTINGS`.
        rows: the public `rows` of the recipes.
        relation: the neighbouring relation.
        quiet: print no progress.
        save: called with all lines so far, after each setting.
    """
    models = make_evaluations(dataset, settings)
    count, lanes = len(models.held_out), None
    lines, without, compile_seconds = [], {}, 0.0
    total = len(curves()) * (len(EPSILONS) + 1) * count
    with progress(total, "model", quiet=quiet) as progress_bar:
        for calibration, name in curves():
            progress_bar.set_description(f"{calibration}, {name}")
            for epsilon in (np.inf, *EPSILONS):
                recipe = recipe_of(
                    calibration,
                    name,
                    dataset.domain,
                    settings,
                    epsilon=epsilon,
                    rows=rows,
                    relation=relation,
                )
                lanes = lanes or choose_lanes(models.table, recipe, count)
                start = time.perf_counter()
                if (calibration, name) == AUTO and np.isfinite(epsilon):  # another program
                    jax.block_until_ready(_row_scores(models.select(0, lanes), recipe))
                    compile_seconds += time.perf_counter() - start
                    start = time.perf_counter()
                scores = evaluate(models, recipe, lanes, progress_bar.update)
                seconds = time.perf_counter() - start

                if np.isinf(epsilon):  # the first call of a program, which compiles
                    compile_seconds += seconds
                    without[calibration, name] = scores
                    continue
                point = {"epsilon": epsilon, "calibration": calibration, "setting": name}
                columns = _measured_columns(scores, recipe, seconds=seconds, models=count)
                lines.append({**point, **columns})
                save(lines)
    return Measurements(lines, without, compile_seconds)


def curves() -> list[tuple[str, str]]:
    """(calibration, setting) of each curve."""
    by_criterion = [(way, name) for way in ("published", "tight") for name in CRITERIA]
    return [*by_criterion, AUTO]


def recipe_of(
    calibration: str,
    name: str,
    domain: Domain,
    settings: Mapping[str, int],
    *,
    epsilon: float,
    rows: int,
    relation: Relation,
) -> Recipe:
    """The recipe of a point of a curve.

    Args:
        calibration: "published" or "tight".
        name: a criterion, or "auto".
        domain: the domain of the columns.
        settings: as `SETTINGS`; `auto` chooses its own rounds and depth.
        epsilon: the total budget; infinite for no privacy.
        rows: the public bound on the number of rows.
        relation: the neighbouring relation.
    """
    if (calibration, name) == AUTO:
        return recipes.auto(epsilon=epsilon, rows=rows, relation=relation, domain=domain)
    shape = {key: settings[key] for key in ("rounds", "depth")}
    return recipes.bdpe(
        epsilon=epsilon,
        rows=rows,
        relation=relation,
        calibration=calibration,
        **shape,
        **CRITERIA[name],
    )


def _measured_columns(
    scores: Scores, recipe: Recipe, *, seconds: float, models: int
) -> results.Line:
    ledger = dpbt.ledger(recipe)
    has_auroc = not np.isnan(scores.auroc)
    return {
        "test_error_mean": scores.error,
        "test_error_sd": scores.error_sd,
        "auroc_mean": scores.auroc if has_auroc else None,
        "auroc_sd": scores.auroc_sd if has_auroc else None,
        "claimed_epsilon": ledger.epsilon,
        "relation": ledger.relation.value,
        "seconds": seconds,
        "models": models,
        "unprotected": "; ".join(ledger.unprotected),
    }


COLUMNS = {
    "epsilon": "{epsilon:g}",
    "calibration": "{calibration}",
    "setting": "{setting}",
    "test error": "{test_error_mean:.3f} +- {test_error_sd:.3f}",
    "AUROC": "{auroc_mean:.3f} +- {auroc_sd:.3f}",
    "seconds": "{seconds:.2f}",
    "models/s": "{speed:.0f}",
    "ledger": "{claimed_epsilon:.6f}",
    "relation": "{relation}",
    "unprotected": "{leak}",
}


def _format_lines(lines: list[results.Line]) -> str:
    texts = []
    for line in lines:
        leak = "alpha" if line["unprotected"] else ""
        texts.append({**line, "speed": line["models"] / line["seconds"], "leak": leak})
    return tables.format_table(texts, COLUMNS)


def _draw_figure(
    path: Path, measured: Measurements, *, title: str, larger_class_error: float
) -> None:
    """Draw test error and AUROC by epsilon: the tight calibration large, the published small."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(
        2, 2, figsize=(9, 7.2), width_ratios=(2.2, 1), sharex=True, layout="constrained"
    )
    for column, calibration in enumerate(("tight", "published")):
        for row, measure in enumerate(("test_error", "auroc")):
            panel = panels[row, column]
            names = [name for where, name in curves() if where == calibration]
            for place, name in enumerate(names):
                shift = 0.1 * (place - (len(names) - 1) / 2)
                curve = Curve(calibration=calibration, setting=name, measure=measure)
                _draw_curve(panel, curve, measured, shift)
            panel.spines[["top", "right"]].set_visible(False)
            panel.grid(axis="y", color="0.9", linewidth=0.6)
            panel.set_axisbelow(True)
        panels[0, column].set_title(f"{calibration} calibration")
        panels[1, column].set_xlabel("epsilon")

    _draw_reference(panels[0], larger_class_error, "predict the larger class")
    _draw_reference(panels[1], 0.5, "rank at random")
    error_ticks = (0.02, 0.05, 0.1, 0.2, 0.5)
    panels[0, 0].set_yscale("log")
    panels[0, 0].set_yticks(error_ticks, [f"{tick:g}" for tick in error_ticks])
    panels[0, 0].minorticks_off()
    panels[0, 0].set_ylim(bottom=0.01)
    panels[0, 1].set_ylim(bottom=0)
    panels[0, 0].set_ylabel("test error (log scale)")
    panels[1, 0].set_ylabel("AUROC")
    words = [*(f"{epsilon:g}" for epsilon in EPSILONS), "no\nprivacy"]
    panels[1, 0].set_xticks(range(len(words)), words)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    note = "mean and standard deviation over folds and keys; hollow: without privacy"
    place = {"loc": "outside lower center", "ncols": 4}
    figure.legend(handles, labels, frameon=False, title=note, title_fontsize=9, **place)
    figure.suptitle(title, fontsize=10)
    write_atomically(path, lambda name: figure.savefig(name, dpi=150))
    plt.close(figure)


class Curve(NamedTuple):
    """A curve of the figure; `setting` is a criterion or "auto"."""

    calibration: str
    setting: str
    measure: str


def _draw_curve(panel: Any, curve: Curve, measured: Measurements, shift: float) -> None:
    """Draw one curve by epsilon, and its value without privacy as a hollow marker."""
    lines = results.where(measured.lines, calibration=curve.calibration, setting=curve.setting)
    mean, sd = (
        np.array([line[f"{curve.measure}_{kind}"] for line in lines], np.float64)
        for kind in ("mean", "sd")
    )
    style = STYLES[curve.setting]
    bars = {"elinewidth": 0.9, "capsize": 2}
    places = np.arange(len(lines)) + shift
    panel.errorbar(places, mean, sd, label=WORDS[curve.setting], **style, **bars)

    without = measured.without[curve.calibration, curve.setting]
    is_error = curve.measure == "test_error"
    value = without.error if is_error else without.auroc
    spread = without.error_sd if is_error else without.auroc_sd
    hollow = {**style, "linestyle": "", "markerfacecolor": "white"}
    panel.errorbar([len(lines) + shift], [value], [spread], **hollow, **bars)


def _draw_reference(panels: Any, value: float, words: str) -> None:
    """Draw a horizontal line in both panels of a row, with words in the first."""
    for panel in panels:
        panel.axhline(value, color="grey", linewidth=0.8, linestyle=":")
    place = {"xytext": (-2, 3), "textcoords": "offset points", "ha": "right", "va": "bottom"}
    panels[0].annotate(
        words, (1, value), xycoords=("axes fraction", "data"), color="grey", fontsize=8, **place
    )


class PublicSize(NamedTuple):
    """The public `rows` of recipes, and the neighbouring relation."""

    rows: int
    relation: Relation


def public_size(options: argparse.Namespace, count: int) -> PublicSize:
    """A bound and add_remove, or the file's own number of rows and replace_one.

    Raises:
        InputError: if the bound is smaller than the file, whose size is not shown.
    """
    bound = options.rows
    if bound is None and options.data is None:
        bound = BUNDLED_ROWS
    if bound is None:
        return PublicSize(count, REPLACE_ONE)
    if bound < count:
        raise InputError(f"--rows must be at least the number of rows in the file, got {bound}")
    return PublicSize(bound, ADD_REMOVE)


def check_folds(options: argparse.Namespace, dataset: data.Dataset, folds: int) -> None:
    """Check that each fold gets a row.

    Raises:
        InputError: naming the file, if it has too few rows; their number is not shown.
    """
    if len(dataset.label) < folds:
        words = f"needs at least {folds} rows with one of the label's two classes"
        raise InputError(f"{options.data} {words}, one for each fold")


def size_in_words(options: argparse.Namespace, count: int, size: PublicSize) -> str:
    """The number of rows if it is public, and else its public bound."""
    private = options.data is not None and size.relation is ADD_REMOVE
    return f"at most {size.rows} rows" if private else f"{count} rows"


def run_command(options: argparse.Namespace) -> None:
    """Measure, and print the table; write the CSV file as it goes, and the figure at the end."""
    if (options.data is None) != (options.domain is None):
        lacking = "--domain" if options.domain is None else "--data"
        raise InputError(f"--data and --domain must be given together; {lacking} is missing")
    settings = SMOKE if options.smoke else SETTINGS
    dataset = data.from_csv(options.data, options.domain) if options.data else data.breast_cancer()
    count = len(dataset.label) if dataset.lines is None else dataset.lines
    public = public_size(options, count)
    check_folds(options, dataset, settings["folds"])
    larger_class_error = float(min(dataset.label.mean(), 1 - dataset.label.mean()))
    status = PRIVATE if options.data else PUBLIC
    constants = {"status": status, "dataset": dataset.name, "rows": public.rows, **settings}
    out = commands.out_folder(options)

    start = time.perf_counter()
    measured = measure(
        dataset,
        settings,
        rows=public.rows,
        relation=public.relation,
        quiet=options.json,
        save=lambda lines: results.write_csv(out / "demo.csv", lines, constants),
    )
    seconds = time.perf_counter() - start

    size = size_in_words(options, count, public)
    title = (
        f"{dataset.name}, {size}, {dataset.splits.shape[1]} splits; auto, and trees of "
        f"T = {settings['rounds']}, D = {settings['depth']}; {settings['folds']} folds x "
        f"{settings['keys']} keys; {public.relation.value}"
    )
    title = f"{PRIVATE}\n{title}" if options.data else title
    _draw_figure(out / "demo.png", measured, title=title, larger_class_error=larger_class_error)

    if options.json:
        lines = [{**line, "status": status} for line in measured.lines]
        print(json.dumps([{field: line[field] for field in FIELDS} for line in lines], indent=1))
        return
    print(f"{title}\n")
    print(_format_lines(measured.lines))
    print(f"\n{PUBLISHED}")
    tight = [name for calibration, name in curves() if calibration == "tight"]
    references = [f"{name} {measured.without['tight', name].error:.3f}" for name in tight]
    print(f"\ntest error without privacy: {', '.join(references)}")
    print(f"test error of predicting the larger class: {larger_class_error:.3f}")
    total = (len(measured.lines) + len(measured.without)) * measured.lines[0]["models"]
    words = f"{measured.compile_seconds:.1f} s of it without privacy and to compile"
    print(f"{total} models in {seconds:.1f} s, {words}")
    print(f"wrote {out / 'demo.csv'} and {out / 'demo.png'}")
