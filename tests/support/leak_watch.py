"""Tests of leaks look for rare cells and the number of rows in all that a run leaves."""

import re
import warnings

import numpy as np

from dpbt import sweeps
from dpbt.data.splits import table_of_splits

NUM_ROWS = 1237
"""The exact number of private rows; nothing else is of this size."""

BOUND = 2000
RARE_CELLS = ("zqxcell", "31337.7719", "zqxlabel", "zqxextra")
EXACT_NUM_ROWS = re.compile(rf"(?<![\w.]){NUM_ROWS}(?![\w.]*\w)")
"""N as a number of its own, not among the digits of another one."""


def find_private_words(text):
    """The rare cells, and N, as far as a text holds them."""
    return [word for word in RARE_CELLS if word in text] + EXACT_NUM_ROWS.findall(text)


def text_of_error(error):
    """All that an exception says, with what caused it and what was being handled."""
    if error is None:
        return ""
    texts = [str(error), repr(error), *getattr(error, "__notes__", ())]
    return "\n".join([*texts, text_of_error(error.__cause__), text_of_error(error.__context__)])


def find_private_words_in_files(folder):
    """What the files of a folder hold, and their names."""
    private_words = []
    for path in (path for path in folder.rglob("*") if path.is_file()):
        private_words += find_private_words(
            f"{path.relative_to(folder)}\n{path.read_bytes().decode('latin-1')}"
        )
    return private_words


class Watch:
    """Runs a function and keeps all that it said: output, logs, warnings and the exception.

    The name of the test's folder is left out of `said`, as its number may be N.
    """

    def __init__(self, capfd, caplog, folder):
        self.capfd, self.caplog, self.out, self.err, self.error = capfd, caplog, "", "", None
        self.folder = str(folder)
        caplog.set_level("INFO")

    def __call__(self, run):
        self.error, result = None, None
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                result = run()
            except (Exception, KeyboardInterrupt) as error:
                self.error = error
        self.out, self.err = self.capfd.readouterr()
        warned = "\n".join(str(warning.message) for warning in warned)
        parts = [self.out, self.err, self.caplog.text, text_of_error(self.error), warned]
        self.said = "\n".join(parts).replace(self.folder, "")
        return result


def private_task(last=(True, False, True, True, False, True)):
    """N rows, of which everybody knows all but the last: five splits and the label."""
    rng = np.random.default_rng(1)
    bits = rng.random((NUM_ROWS, 6)) < 0.5
    bits[-1] = last
    train = rng.random((1, NUM_ROWS)) < 0.7
    table = table_of_splits(bits[:, :5], bits[:, 5], np.ones(NUM_ROWS, bool))
    return sweeps.Task("own", table, train=train, test=~train, arguments={"rows": BOUND})
