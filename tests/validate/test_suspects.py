"""Whom to suspect of a LOW row, and that nobody is suspected without one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sim.cases import Case, changed
from sim.prediction import LinkLoad, Prediction
from sim.workload import Workload
from topo.change_verbs import named_changes
from topo.load import load_topology
from validate.causes import fits
from validate.compare import Comparison
from validate.documents import read_measurements
from validate.measurement import Measurement, Setting
from validate.measurement_set import MeasurementSet
from validate.predicting import hold_against
from validate.suspects import NOTHING_KNOWN, Machine, harmless, suspects

LARGE = Workload("all_reduce", 64 << 20)


def row(
    ratio: float,
    *settings: tuple[str, str],
    workload: Workload = LARGE,
    backend: str = "nccl",
    num_nodes: int = 1,
    predicted_s: float = 1e-3,
) -> Comparison:
    load = LinkLoad("GPU0->NVS0", 1e6, 1e9, 1.0)
    prediction = Prediction(workload, 8, "ring", "simple", 1, "event", "x", predicted_s, (load,))
    environment = tuple(Setting(*setting) for setting in settings)
    found = Measurement(workload, 8, backend, "builtin", "builtin", (predicted_s / ratio,), environment=environment)
    return Comparison(prediction, found, num_nodes=num_nodes)


def of_size(num_bytes: int, ratio: float, predicted_s: float = 1e-3) -> Comparison:
    return row(ratio, workload=Workload("all_reduce", num_bytes), predicted_s=predicted_s)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (("NCCL_P2P_DISABLE", "1"), "through host memory"),
        (("NCCL_P2P_LEVEL", "SYS"), "in place of NCCL's own rule"),
        (("NCCL_NVLS_ENABLE", "0"), "keeps NVSwitch from reducing"),
        (("NCCL_NET", "Socket"), "sockets"),
        (("NCCL_NET_GDR_LEVEL", "LOC"), "keeps NICs from reading GPUs"),
    ],
)
def test_a_setting_that_costs_speed_is_suspected_of_a_low_row(setting: tuple[str, str], words: str) -> None:
    (sentence,) = suspects([row(0.6, setting)])
    assert sentence.startswith(f"suspect: {setting[0]}={setting[1]} ")
    assert words in sentence
    assert not suspects([row(1.0, setting)])


@pytest.mark.parametrize(
    "setting", [("NCCL_P2P_DISABLE", "0"), ("NCCL_NVLS_ENABLE", "1"), ("NCCL_NET", "IB"), ("NCCL_ALGO", "Ring")]
)
def test_a_setting_that_costs_nothing_is_not(setting: tuple[str, str]) -> None:
    assert suspects([row(0.6, setting)]) == [NOTHING_KNOWN]


def test_a_setting_that_costs_no_row_anything_is_told_as_such() -> None:
    (sentence,) = harmless([row(1.0, ("NCCL_P2P_DISABLE", "1"))])
    assert sentence.endswith("through host memory: no row is LOW for it")
    assert not harmless([row(0.5, ("NCCL_P2P_DISABLE", "1"))])
    assert not harmless([row(1.0)])


def test_what_is_far_below_takes_another_way() -> None:
    assert "P2P" in suspects([row(0.2)])[0]
    assert "sockets in place of RDMA" in suspects([row(0.2, num_nodes=2)])[0]
    assert suspects([row(0.6, num_nodes=2)]) == [NOTHING_KNOWN]
    assert suspects([row(0.2, workload=Workload("all_reduce", 1024))]) == [NOTHING_KNOWN]
    assert not suspects([row(0.2, backend="gloo")])


@pytest.mark.parametrize(("small", "first"), [(1.0, "NICs that do not"), (0.4, "sockets in place")])
def test_small_messages_tell_sockets_from_nics_that_do_not_reach_gpus(small: float, first: str) -> None:
    few = row(small, workload=Workload("all_reduce", 1024), num_nodes=2, predicted_s=2e-5)
    (sentence,) = suspects([few, row(0.2, num_nodes=2)])
    assert sentence.split("as predicted: ")[1].startswith(first)


@pytest.mark.parametrize(
    ("low", "fine", "words"),
    [
        ((1 << 10, 2 << 10), (1 << 28, 1 << 29), "only small messages are LOW, by about 4000 us each"),
        ((1 << 20, 4 << 20), (1 << 10, 1 << 28), "2 sizes between small and large are LOW: another algorithm"),
        ((1 << 28,), (1 << 27, 1 << 29, 1 << 30), "only 256 MiB is LOW, no other size is: measure it again"),
    ],
)
def test_the_sizes_that_are_slow_tell_what_it_is_not(low: tuple[int, ...], fine: tuple[int, ...], words: str) -> None:
    found = suspects([*(of_size(size, 0.2) for size in low), *(of_size(size, 1.0) for size in fine)])
    assert any(sentence.startswith(words) for sentence in found), found


def as_if(change: str, name: str, num_bytes: tuple[int, ...], **where: Any) -> tuple[list[Comparison], Machine]:
    """Rows of a machine that is changed so, held against the machine as it should be."""
    machine = load_topology(name, **where)
    times_s = _simulated(change, machine, num_bytes)
    rows = [
        Measurement(Workload("all_reduce", size), machine.num_ranks, "nccl", "builtin", "builtin", (time_s,))
        for size, time_s in zip(num_bytes, times_s, strict=True)
    ]
    return list(hold_against(MeasurementSet("x", tuple(rows)), machine)), Machine(machine)


def _simulated(change: str, machine: Any, num_bytes: tuple[int, ...]) -> list[float]:
    simulator = changed(Case(machine), named_changes(change)).simulator()
    return [simulator.run(Workload("all_reduce", size)).duration_s for size in num_bytes]


SIZES = (1 << 10, 1 << 20, 16 << 20, 256 << 20, 1 << 30)


@pytest.mark.parametrize(
    ("change", "words", "name", "where"),
    [
        ("p2p off", "GPUs do not reach each other directly", "dgx-a100", {}),
        ("p2p off", "GPUs do not reach each other directly", "dgx-h100", {}),
        ("env NCCL_MAX_NCHANNELS=2", "NCCL runs on 2 channels", "dgx-a100", {}),
        ("scale nic bandwidth x0.5", "only half of the NICs", "dgx-h100", {"nodes": 4}),
        ("scale nic bandwidth x0.25", "only a quarter of the NICs", "dgx-a100", {"nodes": 2}),
    ],
)
def test_a_fault_of_the_machine_is_the_first_suspect(change: str, words: str, name: str, where: dict[str, int]) -> None:
    rows, machine = as_if(change, name, SIZES, **where)
    found = suspects(rows, machine)
    assert found[0].startswith(f"suspect: {words}"), found
    assert f"--change '{change}'" in found[0]


@pytest.mark.parametrize("name", ["dgx-a100", "dgx-h100"])
def test_a_machine_as_it_should_be_has_no_suspect(name: str) -> None:
    assert not suspects(*as_if("env NCCL_DEBUG=INFO", name, SIZES))


def test_a_cause_that_would_slow_sizes_that_are_fine_is_none() -> None:
    rows, machine = as_if("p2p off", "dgx-a100", SIZES[:3])
    fine, _ = as_if("env NCCL_DEBUG=INFO", "dgx-a100", SIZES[3:])
    assert any(fit.cause.change == "p2p off" for fit in fits(rows, machine.topology, None))
    assert not any(fit.cause.change == "p2p off" for fit in fits([*rows, *fine], machine.topology, None))


def test_a_setting_is_held_against_the_times() -> None:
    rows, machine = as_if("env NCCL_P2P_DISABLE=1", "dgx-a100", SIZES)
    off = (Setting("NCCL_P2P_DISABLE", "1"), Setting("NCCL_NET", "Socket"))
    rows = [replace(one, measurement=replace(one.measurement, environment=off)) for one in rows]
    first, second = suspects(rows, machine)
    assert "NCCL_P2P_DISABLE=1 sends what GPUs have for each other through host memory: with it 1.00 of" in first
    assert "NCCL_NET=Socket has sockets carry the network's traffic; measure" in second


CAUSES = {
    "050": "sockets in place of RDMA",
    "061": "sockets in place of RDMA",
    "227": "NCCL_P2P_DISABLE=1 sends what GPUs have for each other through host memory",
    "236": "NCCL_P2P_DISABLE=1 sends what GPUs have for each other through host memory",
    "238": "NCCL_P2P_DISABLE=1 sends what GPUs have for each other through host memory",
}
"""What the sources of degraded runs name as the cause, by number of the run."""


@pytest.mark.corpus
@pytest.mark.parametrize("number", CAUSES)
def test_of_degraded_runs_the_cause_that_their_source_names_is_suspected(corpus: Path, number: str) -> None:
    (path,) = corpus.glob(f"measurements/{number}-*.json")
    machine = json.loads(path.read_text())["machine"]
    gpus = f"0-{machine['gpus_per_node'] - 1}"
    topology = load_topology(str(corpus / machine["topology"]), nodes=machine["nodes"], gpus=gpus)
    found = read_measurements(path)
    large = tuple(row for row in found.measurements if row.workload.num_bytes >= 4 << 20)
    rows = hold_against(replace(found, measurements=large[-4:]), topology)
    assert {row.verdict for row in rows} == {"LOW"}
    assert CAUSES[number] in suspects(rows, Machine(topology))[0]
