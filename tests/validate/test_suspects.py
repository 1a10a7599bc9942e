"""Whom to suspect of a LOW row, and that nobody is suspected without one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sim.prediction import LinkLoad, Prediction
from sim.workload import Workload
from topo.load import load_topology
from validate.compare import Comparison
from validate.documents import read_measurements
from validate.measurement import Measurement, Setting
from validate.predicting import hold_against
from validate.suspects import suspects

LARGE = Workload("all_reduce", 64 << 20)


def row(ratio: float, *settings: tuple[str, str], workload: Workload = LARGE, backend: str = "nccl") -> Comparison:
    prediction = Prediction(
        workload, 8, "ring", "simple", 1, "event", "x", 1e-3, (LinkLoad("GPU0->NVS0", 1e6, 1e9, 1.0),)
    )
    environment = tuple(Setting(*setting) for setting in settings)
    found = Measurement(workload, 8, backend, "builtin", "builtin", (1e-3 / ratio,), environment=environment)
    return Comparison(prediction, found)


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
    assert not suspects([row(0.6, setting)])


def test_what_is_far_below_takes_another_way() -> None:
    assert "P2P" in suspects([row(0.2)])[0]
    assert "sockets in place of RDMA" in suspects([row(0.2)], num_nodes=2)[0]
    assert not suspects([row(0.6)], num_nodes=2)
    assert not suspects([row(0.2, workload=Workload("all_reduce", 1024))])
    assert not suspects([row(0.2, backend="gloo")])


CAUSES = {
    "050": "sockets in place of RDMA",
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
    (sentence,) = suspects(rows, machine["nodes"])
    assert CAUSES[number] in sentence
