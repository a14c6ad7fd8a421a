"""Mutants of what a run does about kills, full disks and damaged files."""

from mutation import Mutant


def fault(name: str) -> str:
    return f"tests/test_faults.py::test_{name}"


FAULTS = [
    Mutant(
        "a damaged result that counts as done",
        "dpbt/sweeps/folders.py",
        "if path.exists() and not _is_whole(path):",
        "if False:",
        (
            fault("a_result_that_is_cut_off_or_damaged_is_found_and_fitted_again"),
            fault("a_part_that_is_cut_off_is_found_and_fitted_again"),
        ),
    ),
    Mutant(
        "a folder that two runs work in",
        "dpbt/storage.py",
        "            raise in_use(folder) from None\n        yield",
        "            pass\n        yield",
        (fault("a_second_run_in_a_folder_is_refused_and_the_first_goes_on"),),
    ),
    Mutant(
        "an error of the disk that names no file",
        "dpbt/storage.py",
        "        raise OSError(error.errno, error.strerror, str(path)) from error",
        "        raise",
        (fault("a_full_disk_is_one_line_and_leaves_the_former_file"),),
    ),
    Mutant(
        "a paid model that a full disk loses",
        "dpbt/commands/output.py",
        "            save(elsewhere)",
        "            raise error",
        (fault("a_model_that_the_disk_does_not_take_is_kept_elsewhere"),),
    ),
    Mutant(
        "a file of lines known by its time and size",
        "experiments/common/cells.py",
        "state = found.st_ino, found.st_mtime_ns, found.st_size",
        "state = 0, found.st_mtime_ns, found.st_size",
        (fault("a_file_of_lines_is_read_again_whatever_its_time_says"),),
    ),
]
