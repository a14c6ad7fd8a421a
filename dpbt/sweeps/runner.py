"""A run of a sweep: the check of all arguments, the plan, and the programs in threads."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import jax

from dpbt.common.storage import lock_folder
from dpbt.common.validate import as_path, check_interval
from dpbt.privacy.jax_flags import check_jax_flags
from dpbt.sweeps.batches import MIN_LANES as MIN_LANES
from dpbt.sweeps.batches import Batch, BatchResult, GroupProgram
from dpbt.sweeps.grid import Sweep, Task, list_tasks
from dpbt.sweeps.groups import Group, group_settings, shape_of_table
from dpbt.sweeps.measures import Measure, SplitMeasures, default_measure, split_measures
from dpbt.sweeps.results import ResultFile, provenance
from dpbt.training import table_preparation

MEMORY_MB = 64
"""Default working memory of a program's lanes: about the size of a CPU's shared caches."""

THREADS = 2
"""How many structures are compiled and run side by side, or batches of the only one."""


class Report(NamedTuple):
    """How many fits and programs a run of a sweep took.

    Attributes:
        fits: the number of ensembles fitted now.
        reused: the number of ensembles that were in the folder already.
        programs: the number of compiled programs; each is compiled once.
    """

    fits: int
    reused: int
    programs: int


def run(
    sweep: Sweep,
    tasks: Task | Sequence[Task],
    folder: str | Path,
    *,
    measure: Measure | Sequence[Measure] | None = None,
    memory_mb: float = MEMORY_MB,
    progress: Callable[[int], object] = lambda fits: None,
    about: Mapping[str, Any] | None = None,
) -> Report:
    """Fit every setting of a sweep on every evaluation of every task, and save what is measured.

    It leaves a file of columns for each task in the folder. A second run on the same folder does
    only what is missing. It is refused if the sweep, the measure, `about`, or a task's name,
    lengths or arguments are others. It cannot tell other rows of the same lengths: keep one folder
    for one table.

    No guarantee covers the folder. The measured columns, test errors for example, are exact
    functions of the private rows, under keys that everybody can compute from the seed, and the
    files have the number of rows. Publishing errors on private rows is a release, and no ledger has
    a line for it.

    Args:
        sweep: the settings.
        tasks: tables with their evaluations, one or several, with distinct names. Their numbers of
            evaluations may differ.
        folder: the folder of the results; a path or its text.
        measure: makes the columns of the result, or several functions that make some each. One of
            four arguments is a `ScoreMeasure`, which is traced into the program, and one of one
            argument is a `FitMeasure`, which is called with each `FinishedFit` in a thread of the
            host. By default `error_rates` for two classes, and `measure_predictions` for several
            classes and numbers.
        memory_mb: working memory of the lanes of one program; two programs run side by side. It
            decides the sizes of batches, and changes no number.
        progress: called with the number of fits that a batch finished, by one thread at a time. It
            may not be the caller's.
        about: provenance of the results; versions, commit and device by default. It must not change
            between runs.

    Raises:
        ValueError: naming the argument, for tasks or axes that do not fit, or a value that the
            recipe's maker refuses. Also if the folder holds another sweep, or one begun otherwise,
            or if another run is at work in it. No numbers of rows are shown.
        TypeError: if the maker does not take the axes and the arguments by their names.
        OSError: naming the file, if the disk does not take it. What was written before is kept.
    """
    # Check and plan everything before the folder is begun.
    check_jax_flags()
    if not isinstance(sweep, Sweep):
        raise ValueError(f"sweep must be a sweeps.Sweep(...), got {type(sweep).__name__}")
    tasks = list_tasks(tasks)
    folder = as_path("folder", folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"folder must be a folder for the results, and {folder} is a file")
    measures_by_task = {
        task.name: split_measures(default_measure(task.table) if measure is None else measure)
        for task in tasks
    }
    check_interval("memory_mb", memory_mb, "(0, inf]")
    about = provenance() if about is None else about
    groups = [group_settings(sweep, task) for task in tasks]

    with lock_folder(folder):
        files = {
            task.name: ResultFile(
                folder,
                sweep,
                task,
                {"measure": _names_as_json(measures_by_task[task.name]), "about": dict(about)},
            )
            for task in tasks
        }
        reused = sum(int(file.done.sum()) for file in files.values())
        progress(reused)

        def save(result: BatchResult) -> None:
            files[result.task].add(result.columns)
            progress(len(result.columns["setting"]))

        programs = _plan_programs(sweep, measures_by_task, tasks, groups, files)
        _run_in_threads(programs, memory_mb, save)
        for file in files.values():
            file.finish()
    return Report(
        fits=sum(file.done.size for file in files.values()) - reused,
        reused=reused,
        programs=sum(program.num_compiled for program in programs),
    )


def _names_as_json(measures: SplitMeasures) -> str | list[str]:
    """The name of the only measure, or a list of the names of several."""
    return measures.names[0] if len(measures.names) == 1 else list(measures.names)


def _plan_programs(
    sweep: Sweep,
    measures_by_task: Mapping[str, SplitMeasures],
    tasks: Sequence[Task],
    groups_by_task: Sequence[Sequence[Group]],
    files: Mapping[str, ResultFile],
) -> list[GroupProgram]:
    """Plan one program for each structure of settings and shape of tables.

    Domains do not count, so tables share programs.
    """
    programs: dict[Any, GroupProgram] = {}
    for task, groups in zip(tasks, groups_by_task, strict=True):
        bare_table = table_preparation.without_domain(task.table)
        table_structure = shape_of_table(bare_table), jax.tree.structure(bare_table)
        for group in groups:
            structure = *table_structure, group.structure
            if structure not in programs:
                # Tasks of one structure have one kind of target, and so the same measures.
                programs[structure] = GroupProgram(sweep, measures_by_task[task.name])
            programs[structure].add_group(task, group, files[task.name].done)
    return list(programs.values())


def _run_in_threads(
    programs: Sequence[GroupProgram], memory_mb: float, save: Callable[[BatchResult], None]
) -> None:
    """Run programs in threads, and save the results of their batches.

    Each program runs in one thread; a single program has its batches in all threads. If one fails,
    no other one begins, and those that have begun end after their batch. One thread at a time calls
    `save` with the result of a batch.
    """
    lock = threading.Lock()
    is_stopped = threading.Event()

    def run_batches(program: GroupProgram, batches: Iterable[Batch]) -> None:
        check_jax_flags()
        for batch in batches:
            if is_stopped.is_set():
                return
            result = program.run_batch(batch)
            with lock:
                save(result)

    jobs: list[tuple[GroupProgram, Iterable[Batch]]]
    if len(programs) == 1:
        jobs = [
            (programs[0], [batch]) for batch in programs[0].iter_missing_batches(memory_mb, THREADS)
        ]
    else:
        jobs = [(program, program.iter_missing_batches(memory_mb, 1)) for program in programs]
    with ThreadPoolExecutor(THREADS) as pool:
        calls = [pool.submit(run_batches, program, batches) for program, batches in jobs]
        try:
            for call in as_completed(calls):
                call.result()
        except BaseException:
            is_stopped.set()
            raise
