"""What tests share: where the corpus of real captures lies, and why a test that needs it is skipped."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NO_CORPUS = "no corpus of captures (set TOPOSCOPE_CORPUS to run these)"

CI_FACTOR = 40


def examples(quick: int) -> int:
    """How many cases a property is tried on: `quick` at a desk, many times that in CI."""
    return quick * CI_FACTOR if os.environ.get("CI") == "true" else quick


def corpus_dir() -> Path | None:
    """The corpus' folder, or None where there is none."""
    path = Path(os.environ.get("TOPOSCOPE_CORPUS", ROOT.parent / "shared" / "corpus"))
    return path if path.is_dir() else None


def corpus_files(pattern: str) -> list[Path]:
    """The corpus' files that match the pattern, sorted; empty where there is no corpus."""
    root = corpus_dir()
    return sorted(root.glob(pattern)) if root else []
