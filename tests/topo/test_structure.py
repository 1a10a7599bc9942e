"""Every structural rule of a topology refuses its own fault, in one sentence that names what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from topo.errors import TopologyError
from topo.topology import Device, GpuFacts, Link, NicFacts, Topology

DEVICES = (Device("GPU0", "gpu"), Device("NIC0", "nic"), Device("GPU1", "gpu"), Device("CPU0", "cpu"))
LINKS = tuple(
    Link(src, dst, "pcie", 1e9) for end in ("GPU0", "NIC0", "GPU1") for src, dst in (("CPU0", end), (end, "CPU0"))
)


def changed(items: Sequence[Any], place: int, **fields: object) -> tuple[Any, ...]:
    """The items, of which one has other values."""
    return tuple(replace(item, **fields) if index == place else item for index, item in enumerate(items))


FAULTS: dict[str, tuple[dict[str, object], str]] = {
    "empty id": ({"devices": changed(DEVICES, 1, id="")}, "a device of kind nic has an empty id: give it one"),
    "id of two": (
        {"devices": changed(DEVICES, 2, id="GPU0")},
        "two devices are called 'GPU0': ids must be unique, rename one",
    ),
    "kind of a device": ({"devices": changed(DEVICES, 3, kind="cpi")}, "CPU0: unknown kind 'cpi', one of gpu, "),
    "kind of a link": ({"links": changed(LINKS, 4, kind="pci")}, "CPU0->GPU1: unknown kind 'pci', one of nvlink, "),
    "state of a link": (
        {"links": changed(LINKS, 5, state="up")},
        "GPU1->CPU0: unknown state 'up', one of active, inactive",
    ),
    "compute capability": (
        {"devices": changed(DEVICES, 2, gpu=GpuFacts(compute_capability=-1))},
        "GPU GPU1 has a compute capability below 0: ",
    ),
    "rate of a NIC": (
        {"devices": changed(DEVICES, 1, nic=NicFacts(bandwidth_bytes_per_s=0))},
        "NIC NIC0 has bandwidth 0 B/s: it must be positive and finite",
    ),
    "rate of the last link": (
        {"links": changed(LINKS, 5, bandwidth_bytes_per_s=float("nan"))},
        "link GPU1->CPU0 has bandwidth nan B/s: it must be positive and finite",
    ),
    "the first of two latencies": (
        {"links": changed(changed(LINKS, 4, latency_s=-1.0), 1, latency_s=-1.0)},
        "link GPU0->CPU0 has latency -1.0 s: it must be finite and not negative",
    ),
    "lanes": ({"links": changed(LINKS, 2, lanes=0)}, "link CPU0->NIC0 has 0 lanes: at least 1, or leave the link out"),
    "an end nowhere": (
        {"links": changed(LINKS, 3, src="NIC7")},
        "link NIC7->CPU0 leads to 'NIC7', which is no device: known are CPU0, GPU0, GPU1, NIC0",
    ),
    "to itself": ({"links": changed(LINKS, 3, dst="NIC0")}, "link NIC0->NIC0 joins 'NIC0' to itself: remove it"),
    "twice the same": (
        {"links": (*LINKS, replace(LINKS[2], bandwidth_bytes_per_s=2e9))},
        "two pcie links CPU0->NIC0: give one link with the sum of their lanes",
    ),
    "rank of no kind": (
        {"gpu_ids": ("GPU0", "NIC0")},
        "rank 1 is 'NIC0', a nic: a rank is a gpu or a process",
    ),
    "rank nowhere": ({"gpu_ids": ("GPU2",)}, "rank 0 is 'GPU2', which is no device: known are CPU0, "),
    "rank of two": (
        {"gpu_ids": ("GPU0", "GPU1", "GPU0")},
        "'GPU0' stands for two ranks: each device is one rank",
    ),
    "no way back": (
        {"links": changed(LINKS, 1, state="inactive")},
        "no path from GPU0 to GPU1: add the missing links, or take the GPUs out with --gpus",
    ),
}


def test_the_machine_that_is_broken_is_sound() -> None:
    assert Topology(DEVICES, LINKS, ("GPU0", "GPU1")).num_ranks == 2


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_refused_by_its_own_rule(name: str) -> None:
    fault, sentence = FAULTS[name]
    machine: dict[str, Any] = {"devices": DEVICES, "links": LINKS, "gpu_ids": ("GPU0", "GPU1"), **fault}
    with pytest.raises(TopologyError) as caught:
        Topology(**machine)
    assert str(caught.value).startswith(sentence)
