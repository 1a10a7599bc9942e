"""Who executes what: NCCL under forced settings, or schedules over point-to-point messages."""

from __future__ import annotations

import pytest

from sim.workload import Workload
from topo.errors import MeasurementError, NameChoiceError
from validate.measurement import Setting
from validate.request import NCCL_ALGORITHMS, NCCL_PROTOCOLS, Request, Way

REDUCE = (Workload("all_reduce", 4096),)


def request(*algorithms: str, **more: object) -> Request:
    return Request("nccl", 8, REDUCE, algorithms, **more)


def test_nccl_runs_what_it_knows_and_messages_run_the_rest() -> None:
    assert request("builtin", "ring", "nvls", "parameter-server").ways == (
        Way("builtin", "builtin"),
        Way("ring", "builtin"),
        Way("nvls", "builtin"),
        Way("parameter-server", "point-to-point"),
    )
    assert request("ring", executor="point-to-point").ways == (Way("ring", "point-to-point"),)
    assert Request("gloo", 8, REDUCE, ("ring",)).ways == (Way("ring", "point-to-point"),)


def test_each_protocol_is_a_run_of_its_own_where_nccl_executes() -> None:
    ways = request("builtin", "tree", "parameter-server", protocols=("ll", "simple")).ways
    assert [(way.algorithm, way.protocol) for way in ways] == [
        ("builtin", "ll"),
        ("builtin", "simple"),
        ("tree", "ll"),
        ("tree", "simple"),
        ("parameter-server", None),
    ]
    assert ways[0].settings == (Setting("NCCL_PROTO", "LL"),)
    assert ways[3].settings == (Setting("NCCL_ALGO", "Tree"), Setting("NCCL_PROTO", "Simple"))
    assert ways[4].settings == Way("builtin", "builtin").settings == ()


@pytest.mark.parametrize("name", NCCL_ALGORITHMS)
@pytest.mark.parametrize("protocol", [None, *NCCL_PROTOCOLS])
def test_every_algorithm_of_nccl_has_its_word(name: str, protocol: str | None) -> None:
    settings = {row.name: row.value for row in Way(name, "builtin", protocol).settings}
    assert settings["NCCL_ALGO"].lower() == name.replace("-", "")
    assert settings.get("NCCL_PROTO", "").lower() == (protocol or "")


@pytest.mark.parametrize(
    ("algorithms", "more", "complaint"),
    [
        (("pat",), {}, "pat runs all_gather, reduce_scatter, not all_reduce"),
        (("nvsl",), {}, "did you mean 'nvls'"),
        (("parameter-server",), {"executor": "builtin"}, "nccl has no parameter-server"),
        (("nvls",), {"executor": "point-to-point"}, "nvls runs inside a switch"),
        (("parameter-server",), {"protocols": ("ll",)}, "--protocol is for what NCCL executes by itself"),
        (("builtin",), {"num_chunks": 4}, "--chunks cuts schedules of ours"),
    ],
)
def test_what_nobody_executes_is_refused(algorithms: tuple[str, ...], more: dict, complaint: str) -> None:
    with pytest.raises((MeasurementError, NameChoiceError), match=complaint):
        request(*algorithms, **more)


def test_one_rank_is_measured_by_the_library_alone() -> None:
    assert Request("nccl", 1, REDUCE).ways == (Way("builtin", "builtin"),)
    with pytest.raises(MeasurementError, match="parameter-server over 1 rank sends nothing"):
        Request("nccl", 1, REDUCE, ("parameter-server",))
