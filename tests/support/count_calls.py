"""How many functions of dpbt a fit of a CSV file passes through.

`python -m tests.support.count_calls` prints it.

Functions, methods, properties and closures that have a name count, also those that a trace runs.
"""

import contextlib
import io
import json
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import dpbt
from dpbt import __main__ as command

LIBRARY = str(Path(dpbt.__file__).parent)
OPTIMIZED = 1  # a flag of the code of functions, which bodies of classes and modules lack


def functions_called() -> set[tuple[str, str]]:
    """(file, name) of each function."""
    functions = set()

    def record_call(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        named = code.co_flags & OPTIMIZED and not code.co_name.startswith("<")
        if event == "call" and named and code.co_filename.startswith(LIBRARY):
            functions.add((code.co_filename.removeprefix(LIBRARY), code.co_qualname))

    with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(io.StringIO()):
        folder = Path(name)
        rows = [f"{20 + i % 60},{'ab'[i % 2]},{int(i % 3 == 0)}" for i in range(200)]
        (folder / "rows.csv").write_text("\n".join(["age,job,y", *rows]))
        columns = {
            "age": {"type": "numeric", "low": 0, "high": 100, "bins": 16},
            "job": {"type": "nominal", "values": ["a", "b"]},
        }
        label = {"column": "y", "positive": "1", "negative": "0"}
        (folder / "domain.json").write_text(json.dumps({"columns": columns, "label": label}))
        options = ["--domain", str(folder / "domain.json"), "--out", str(folder / "model.json")]
        threading.setprofile(record_call)
        sys.setprofile(record_call)
        try:
            rows = ["--rows", "300", "--epsilon", "1", str(folder / "rows.csv")]
            assert command.main(["fit", *options, *rows]) == 0
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return functions


if __name__ == "__main__":
    functions = functions_called()
    files = sorted({file for file, _ in functions})
    for file in files:
        print(file, *sorted(name for file_of_name, name in functions if file_of_name == file))
    print(f"{len(functions)} functions in {len(files)} files")
