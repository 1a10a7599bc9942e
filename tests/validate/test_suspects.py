"""Whom to suspect of a LOW row, and that nobody is suspected without one."""

from __future__ import annotations

import pytest

from sim.prediction import LinkLoad, Prediction
from sim.workload import Workload
from validate.compare import Comparison
from validate.measurement import Measurement, Setting
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
        (("NCCL_MAX_NCHANNELS", "1"), "bounds the channels"),
    ],
)
def test_a_setting_that_costs_speed_is_suspected_of_a_low_row(setting: tuple[str, str], words: str) -> None:
    (sentence,) = suspects([row(0.6, setting)])
    assert sentence.startswith(f"suspect: {setting[0]}={setting[1]} ")
    assert words in sentence
    assert not suspects([row(1.0, setting)])


@pytest.mark.parametrize("setting", [("NCCL_P2P_DISABLE", "0"), ("NCCL_NVLS_ENABLE", "1"), ("NCCL_NET", "IB")])
def test_a_setting_that_costs_nothing_is_not(setting: tuple[str, str]) -> None:
    assert not suspects([row(0.6, setting)])


def test_what_is_far_below_takes_another_way() -> None:
    assert "P2P" in suspects([row(0.2)])[0]
    assert "sockets in place of RDMA" in suspects([row(0.2)], num_nodes=2)[0]
    assert not suspects([row(0.6)], num_nodes=2)
    assert not suspects([row(0.2, workload=Workload("all_reduce", 1024))])
    assert not suspects([row(0.2, backend="gloo")])
