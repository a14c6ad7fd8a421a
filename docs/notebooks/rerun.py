"""Run the notebooks of this folder, and keep what they print and draw.

`python docs/notebooks/rerun.py NAME.ipynb` writes the file again; without a name, all of them.
Jupyter does the same. A test runs them, too.
"""

import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

HERE = Path(__file__).parent


def run(path: Path, dpi: int = 75) -> dict[str, Any]:
    """The notebook with the outputs of its cells, which run in order and in the current folder."""
    notebook = json.loads(path.read_text())
    scope: dict[str, Any] = {"__name__": "__main__"}
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(code, 1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), scope)
        text, pictures = printed.getvalue(), map(plt.figure, plt.get_fignums())
        shown = {"name": "stdout", "output_type": "stream", "text": text.splitlines(True)}
        drawn = [_drawn(figure, dpi) for figure in pictures]
        plt.close("all")
        cell |= {"execution_count": number, "outputs": [shown] * bool(text) + drawn}
    return notebook


def _drawn(figure: Any, dpi: int) -> dict[str, Any]:
    file = io.BytesIO()
    figure.savefig(file, dpi=dpi)
    data = {"image/png": base64.b64encode(file.getvalue()).decode()}
    return {"data": data, "metadata": {}, "output_type": "display_data"}


if __name__ == "__main__":
    plt.switch_backend("agg")
    names = sys.argv[1:] or sorted(path.name for path in HERE.glob("*.ipynb"))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in names:
            path = HERE / Path(name).name
            path.write_text(json.dumps(run(path), indent=1, ensure_ascii=False) + "\n")
            print(f"wrote {path}")
