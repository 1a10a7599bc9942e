"""Fixtures for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import NO_CORPUS, corpus_dir


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real captures; the test is skipped where it is missing."""
    root = corpus_dir()
    if root is None:
        pytest.skip(NO_CORPUS)
    return root
