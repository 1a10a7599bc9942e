"""In CI a skipped test is a failure, save one that needs a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

TESTS = """
import pytest

def test_passes():
    pass

def test_skips():
    pytest.skip("no corpus")

def test_skips_for_want_of_a_gpu():
    pytest.skip("needs a GPU")

@pytest.mark.skipif(True, reason="no corpus")
def test_marked():
    pass

@pytest.mark.skipif(True, reason="needs a GPU")
def test_marked_for_want_of_a_gpu():
    pass

@pytest.mark.parametrize("nothing", [])
def test_without_parameters(nothing):
    pass

@pytest.mark.xfail(strict=True)
def test_expected_to_fail():
    assert 0
"""
MODULE = "import pytest\npytest.skip('no corpus', allow_module_level=True)\n"
MODULE_FOR_GPU = "import pytest\npytest.skip('needs a GPU', allow_module_level=True)\n"


@pytest.mark.parametrize(
    ("ci", "expected"),
    [
        ("true", "1 failed, 1 passed, 3 skipped, 1 xfailed, 3 errors"),
        ("", "1 passed, 7 skipped, 1 xfailed"),
    ],
)
def test_a_skip_fails_in_ci_unless_it_needs_a_gpu(tmp_path: Path, ci: str, expected: str) -> None:
    for name, source in {"it": TESTS, "module": MODULE, "module_for_gpu": MODULE_FOR_GPU}.items():
        (tmp_path / f"test_{name}.py").write_text(source)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p tests.conftest -p no:cacheprovider\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--continue-on-collection-errors", str(tmp_path)],
        cwd=tmp_path,
        env={"CI": ci, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert expected in done.stdout.splitlines()[-1], done.stdout + done.stderr
    assert done.returncode == (1 if ci else 0)
