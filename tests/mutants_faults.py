"""Mutants of what a run does about kills, full disks and damaged files."""

from mutation import Mutant


def fault(name: str) -> str:
    return f"tests/test_faults.py::test_{name}"


def killed(name: str) -> str:
    return f"tests/test_kills.py::test_{name}"


FAULTS = [
    Mutant(
        "a table that is known by its chunks alone",
        "dpbt/data/blocks.py",
        "        return self.manifest.checksum",
        "        return repr(list(map(tuple, self.manifest.blocks)))",
        (
            "tests/test_blocks.py::test_the_identity_of_a_table_is_that_of_its_rows_and_declarations",
        ),
    ),
    Mutant(
        "a damaged result that counts as done",
        "dpbt/sweeps/storage.py",
        "        self._lines = [line for line in lines if _intact(line)]",
        "        self._lines = lines",
        (fault("a_result_that_is_cut_off_or_damaged_is_found_and_fitted_again"),),
    ),
    Mutant(
        "a folder that two runs work in",
        "dpbt/common/storage.py",
        "            raise in_use(folder) from None\n        yield",
        "            pass\n        yield",
        (fault("a_second_run_in_a_folder_is_refused_and_the_first_goes_on"),),
    ),
    Mutant(
        "predictions that everybody may read",
        "dpbt/cli/predict.py",
        "write_whole(path, write, mode=0o600)",
        "write_whole(path, write)",
        ("tests/test_file_modes.py::test_what_is_private_is_the_owners_alone",),
    ),
    Mutant(
        "a file that does not keep its mode",
        "dpbt/common/storage.py",
        "(path if path.exists() else name).stat()",
        "name.stat()",
        ("tests/test_file_modes.py::test_predictions_that_replace_a_file_keep_its_mode",),
    ),
    Mutant(
        "a part that others may read",
        "dpbt/common/storage.py",
        "        os.chmod(name, 0o600)\n",
        "        os.chmod(name, 0o644)\n",
        ("tests/test_file_modes.py::test_a_part_is_never_wider_than_the_file",),
    ),
    Mutant(
        "a chunk that changes during a run",
        "dpbt/data/blocks.py",
        "self._verified[number] = state",
        "del state",
        (
            "tests/test_checkpoints.py::test_a_block_that_changes_between_its_pieces_is_not_predicted",
        ),
    ),
    Mutant(
        "an error of the disk that names no file",
        "dpbt/common/storage.py",
        "        raise OSError(error.errno, error.strerror, str(path)) from error",
        "        raise",
        (fault("a_full_disk_is_one_line_and_leaves_the_former_file"),),
    ),
    Mutant(
        "a paid model that a full disk loses",
        "dpbt/cli/output.py",
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
    Mutant(
        "a file that changes while it is read",
        "dpbt/data/convert.py",
        "    if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):",
        "    if False:",
        ("tests/test_blocks.py::test_a_file_that_changes_while_it_is_read_is_refused",),
    ),
    Mutant(
        "private files that a kill leaves",
        "dpbt/common/storage.py",
        "(_MARK + pattern):\n        left.unlink(missing_ok=True)",
        "(_MARK + pattern):\n        pass",
        (killed("a_sweep_that_was_killed_ends_with_the_same_files"),),
    ),
    Mutant(
        "a round on chunks that compiles a key's block again",
        "dpbt/privacy/keys.py",
        "jax.lax.fori_loop(0, _ROUNDS, _round, start)",
        "jax.lax.fori_loop(0, _ROUNDS, lambda i, state: _round(i, state), start)",
        ("tests/test_block_fits.py::test_later_rounds_compile_nothing",),
    ),
]
