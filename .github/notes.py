"""Print the part of CHANGELOG.md on one version: python .github/notes.py VERSION."""

import sys
from pathlib import Path

text = (Path(__file__).parents[1] / "CHANGELOG.md").read_text()
parts = [part for part in text.split("\n## ") if part.split()[0] == sys.argv[1]]
if len(parts) != 1:
    sys.exit(f"CHANGELOG.md has no part on {sys.argv[1]}")
print(parts[0].split("\n", 1)[1].strip())
