"""Clocks, temperatures and other users of GPUs, from an nvidia-smi that is none."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from validate import gpu_state
from validate.gpu_state import findings, look, summary

FAKE = """#!/bin/sh
case "$1" in
--query-gpu=*) cat "{folder}/gpus" ;;
--query-compute-apps=*) cat "{folder}/apps" ;;
*) exit 2 ;;
esac
"""
GPUS = """0, GPU-aaaa, NVIDIA H100, 1980, 2619, 1980, 41, 302.5, 99, 0x0000000000000000
1, GPU-bbbb, NVIDIA H100, 1200, 2619, 1980, 88, [N/A], 99, 0x0000000000000040
"""


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an nvidia-smi that prints the files beside it; no other command is on PATH before it."""
    command = tmp_path / "nvidia-smi"
    command.write_text(FAKE.format(folder=tmp_path))
    command.chmod(0o755)
    (tmp_path / "gpus").write_text(GPUS)
    (tmp_path / "apps").write_text("")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path


def test_what_it_prints_is_what_is_noted(nvidia_smi: Path) -> None:
    first, second = look("after")
    assert (first.index, first.name, first.sm_clock_mhz, first.temperature_c) == (0, "NVIDIA H100", 1980.0, 41.0)
    assert (first.power_w, second.power_w) == (302.5, None)
    assert (first.slowed_by, second.slowed_by) == ((), ("hardware thermal slowdown",))
    assert summary((first, second)) == "GPUs at 1200 to 1980 MHz, 41 to 88 degrees after the run"
    (words,) = findings((first, second))
    assert words == "GPU 1 is slowed down by hardware thermal slowdown at 1200 MHz, 88 degrees"
    assert "GPU-" not in repr(first), "a GPU's id names the machine"


def test_a_second_user_is_a_finding(nvidia_smi: Path) -> None:
    (nvidia_smi / "apps").write_text("GPU-bbbb, 4242, 512 MiB\nGPU-bbbb, 4243, 512 MiB\n")
    states = look("before")
    assert [state.other_pids for state in states] == [(), (4242, 4243)]
    assert findings(states)[0].startswith(
        "GPU 1 was in use when the run began, by process 4242, 4243: its times are not"
    )
    assert not any(state.other_pids for state in look("after"))


@pytest.mark.parametrize(("visible", "indexes"), [("1", [1]), ("0,1", [0, 1]), ("GPU-aaaa", [0, 1]), ("", [0, 1])])
def test_only_gpus_that_cuda_may_use_count(
    nvidia_smi: Path, monkeypatch: pytest.MonkeyPatch, visible: str, indexes: list[int]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [state.index for state in look("after")] == indexes


@pytest.mark.parametrize("text", ["", "No devices were found\n", "0, GPU-a\n", "\x00\x01,\n"])
def test_odd_output_tells_nothing(nvidia_smi: Path, text: str) -> None:
    (nvidia_smi / "gpus").write_text(text)
    assert look("after") == ()
    assert (findings(()), summary(())) == ((), "")


def test_without_the_command_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert look("before") == ()
    assert gpu_state.findings(look("after")) == ()


class Nvml(ModuleType):
    """The functions of nvidia-ml-py that are asked, on one GPU that is hot and refuses to tell its power."""

    class NVMLError(Exception):
        pass

    def nvmlInit(self) -> None:  # noqa: N802
        self.calls = ["init"]

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.calls.append("shutdown")

    def __getattr__(self, name: str) -> Callable[..., object]:
        answers = {
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetHandleByIndex": "handle",
            "nvmlDeviceGetName": b"NVIDIA H100",
            "nvmlDeviceGetClockInfo": 1200,
            "nvmlDeviceGetMaxClockInfo": 1980,
            "nvmlDeviceGetTemperature": 88,
            "nvmlDeviceGetCurrentClocksThrottleReasons": 0x40,
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=99),
            "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=4242)],
        }
        if name == "nvmlDeviceGetPowerUsage":
            return self._refuse
        if name not in answers:
            raise AttributeError(name)
        return lambda *_: answers[name]

    def _refuse(self, *_: object) -> None:
        raise self.NVMLError


def test_nvml_tells_the_same_where_only_that_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = Nvml("pynvml")
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    (state,) = look("before")
    assert (state.name, state.sm_clock_mhz, state.temperature_c, state.power_w) == ("NVIDIA H100", 1200, 88, None)
    assert (state.slowed_by, state.other_pids) == (("hardware thermal slowdown",), (4242,))
    assert nvml.calls == ["init", "shutdown"]
