"""What tests share: where the real captures lie, why a test that needs them is skipped, how work is counted."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NO_CORPUS = "no corpus of captures (set TOPOSCOPE_CORPUS to run these)"

CI_FACTOR = 12


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


def calls(run: Callable[[], Any]) -> int:
    """How many Python functions `run` calls: the measure of work where a clock would depend on the machine."""
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count
