"""Fixtures for all tests, and the rule that in CI a skipped test is a failure."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.support import NO_CORPUS, corpus_dir

# How long an example takes says more of the machine than of the code.
settings.register_profile("patient", settings(), deadline=None)
settings.load_profile("patient")


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real captures; the test is skipped where it is missing."""
    root = corpus_dir()
    if root is None:
        pytest.skip(NO_CORPUS)
    return root


def _forbid_skip(report: Any) -> None:
    """Turns a skip into a failure under CI=true, unless its reason says that it needs a GPU."""
    if os.environ.get("CI") != "true" or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if "GPU" not in reason:
        report.outcome = "failed"
        report.longrepr = f"{reason} (in CI only a test that needs a GPU may be skipped)"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    """Applies the rule to a test that skips, or that has no parameters to run with."""
    report = yield
    _forbid_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    """Applies the rule to a module that skips while it is imported."""
    report = yield
    _forbid_skip(report)
    return report
