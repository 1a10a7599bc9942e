"""How the GPUs are doing while something is measured on them: clocks, temperature, what slows them, who else is there.

nvidia-smi is asked, or NVML through nvidia-ml-py where only that is installed; what neither tells is None.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from topo.commands import RawText, run_command

Moment = Literal["before", "after"]

QUERY = (
    "index,uuid,name,clocks.sm,clocks.mem,clocks.max.sm,temperature.gpu,power.draw,utilization.gpu,"
    "clocks_throttle_reasons.active"
)
APPS = "gpu_uuid,pid,used_memory"
TIMEOUT_S = 10.0

SM_CLOCK, MEMORY_CLOCK = 1, 2
"""NVML's numbers of clocks."""

SLOWING = {
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
"""Bits of NVML's throttle reasons that mean trouble (nvml.h); idle and application clocks are none."""


@dataclass(frozen=True, slots=True)
class GpuState:
    """One GPU at one moment: MHz, degrees Celsius, watts and percent as NVML counts them.

    `other_pids` are processes on it before the run began; `throttle` are NVML's bits.
    """

    index: int
    moment: Moment
    name: str | None = None
    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    max_sm_clock_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    utilization_percent: float | None = None
    throttle: int | None = None
    other_pids: tuple[int, ...] = ()

    @property
    def slowed_by(self) -> tuple[str, ...]:
        """What holds the clock down, in words."""
        return tuple(words for bit, words in SLOWING.items() if (self.throttle or 0) & bit)


def look(moment: Moment) -> tuple[GpuState, ...]:
    """The state of every GPU of this machine; empty where nobody can tell. Processes are listed before a run only."""
    gpus = run_command("gpus", ("nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"), TIMEOUT_S)
    if gpus.problem:
        return _of_visible(_by_nvml(moment))
    pids: dict[str, list[int]] = {}
    if moment == "before":
        apps = run_command("apps", ("nvidia-smi", f"--query-compute-apps={APPS}", "--format=csv,noheader"), TIMEOUT_S)
        for uuid, pid, *_ in _rows(apps):
            if pid.isdigit():
                pids.setdefault(uuid, []).append(int(pid))
    return _of_visible(_state(row, moment, pids) for row in _rows(gpus) if len(row) == QUERY.count(",") + 1)


def _of_visible(states: Iterable[GpuState]) -> tuple[GpuState, ...]:
    visible = _visible()
    return tuple(state for state in states if visible is None or state.index in visible)


def _visible() -> frozenset[int] | None:
    """The GPUs that CUDA may use; None for all of them, or where they are named in another way than by number."""
    words = os.environ.get("CUDA_VISIBLE_DEVICES", "").replace(" ", "").split(",")
    return frozenset(map(int, words)) if all(word.isdigit() for word in words) else None


def _by_nvml(moment: Moment) -> list[GpuState]:
    """The same from NVML itself; empty where it is not installed, or has no driver to ask."""
    try:
        import pynvml
    except ImportError:
        return []
    nvml: Any = pynvml
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return []
    try:
        return [_nvml_state(nvml, index, moment) for index in range(nvml.nvmlDeviceGetCount())]
    except nvml.NVMLError:
        return []
    finally:
        nvml.nvmlShutdown()


def _nvml_state(nvml: Any, index: int, moment: Moment) -> GpuState:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)

    def ask(name: str, *arguments: Any) -> Any:
        try:
            return getattr(nvml, name)(handle, *arguments)
        except (nvml.NVMLError, AttributeError):
            return None

    milliwatts, use = ask("nvmlDeviceGetPowerUsage"), ask("nvmlDeviceGetUtilizationRates")
    processes = ask("nvmlDeviceGetComputeRunningProcesses") if moment == "before" else None
    name = ask("nvmlDeviceGetName")
    return GpuState(
        index=index,
        moment=moment,
        name=name.decode(errors="replace") if isinstance(name, bytes) else name,
        sm_clock_mhz=ask("nvmlDeviceGetClockInfo", SM_CLOCK),
        memory_clock_mhz=ask("nvmlDeviceGetClockInfo", MEMORY_CLOCK),
        max_sm_clock_mhz=ask("nvmlDeviceGetMaxClockInfo", SM_CLOCK),
        temperature_c=ask("nvmlDeviceGetTemperature", 0),
        power_w=None if milliwatts is None else milliwatts / 1e3,
        utilization_percent=None if use is None else use.gpu,
        throttle=ask("nvmlDeviceGetCurrentClocksThrottleReasons"),
        other_pids=tuple(process.pid for process in processes or ()),
    )


def _rows(found: RawText) -> Iterator[list[str]]:
    if not found.problem:
        for row in csv.reader(io.StringIO(found.text)):
            if row:
                yield [cell.strip() for cell in row]


def _state(row: Sequence[str], moment: Moment, pids: dict[str, list[int]]) -> GpuState:
    index, uuid, name, *figures, throttle = row
    sm, memory, sm_max, temperature, power, utilization = (_number(word) for word in figures)
    return GpuState(
        index=int(_number(index) or 0),
        moment=moment,
        name=name,
        sm_clock_mhz=sm,
        memory_clock_mhz=memory,
        max_sm_clock_mhz=sm_max,
        temperature_c=temperature,
        power_w=power,
        utilization_percent=utilization,
        throttle=_bits(throttle),
        other_pids=tuple(pids.get(uuid, ())),
    )


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def _bits(word: str) -> int | None:
    try:
        return int(word, 16)
    except ValueError:
        return None


def findings(states: Sequence[GpuState]) -> tuple[str, ...]:
    """What must not be overlooked when times are judged: somebody else on the GPUs, and clocks held down."""
    found = []
    for state in states:
        if state.other_pids:
            pids = ", ".join(map(str, state.other_pids))
            found.append(
                f"GPU {state.index} was in use when the run began, by process {pids}: its times are not the machine's "
                "own, end that first"
            )
    for state in states:
        if state.moment == "after" and state.slowed_by:
            clock = "" if state.sm_clock_mhz is None else f" at {state.sm_clock_mhz:g} MHz"
            warm = "" if state.temperature_c is None else f", {state.temperature_c:g} degrees"
            found.append(f"GPU {state.index} is slowed down by {' and '.join(state.slowed_by)}{clock}{warm}")
    return tuple(found)


def summary(states: Sequence[GpuState]) -> str:
    """Clocks and temperatures in one line; "" where nothing is known."""
    after = [state for state in states if state.moment == "after"] or list(states)
    parts = [
        _span([state.sm_clock_mhz for state in after], "MHz"),
        _span([state.temperature_c for state in after], "degrees"),
    ]
    told = [part for part in parts if part]
    return f"GPUs at {', '.join(told)} after the run" if told else ""


def _span(values: Sequence[Any], unit: str) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    return f"{low:g} {unit}" if low == high else f"{low:g} to {high:g} {unit}"
