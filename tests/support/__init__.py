"""What the tests share: examples, references, checks, and programs that run in processes."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""
