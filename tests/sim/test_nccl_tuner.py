"""Tuner, choices and chunks against the reference runs, field by field."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.planners.nccl_2_30.chunks import Split
from sim.planners.nccl_2_30.estimate import supports
from sim.planners.nccl_2_30.options import NcclOptions
from sim.planners.nccl_2_30.planner import plan_nccl
from sim.planners.nccl_2_30.spec import SystemSpec
from tests.sim.nccl_support import (
    ALGORITHMS,
    COLLECTIVES,
    FULL,
    GIGA,
    PROTOCOLS,
    REFERENCES,
    Reference,
    machine_text,
    plan_of,
    spec_of,
)
from topo.errors import NameChoiceError, TopoError, TopologyError

TOLERANCE = 1e-3


@pytest.mark.corpus
@pytest.mark.parametrize("reference", REFERENCES, ids=str)
def test_choices(reference: Reference) -> None:
    plan = plan_of(reference)
    for function, rows in reference.result["ops"].items():
        for row in rows:
            choice = plan.choose(COLLECTIVES[function], row["bytes"])
            where = f"{function} of {row['bytes']} bytes"
            assert choice.algorithm == ALGORITHMS[row["algo"]], where
            assert choice.protocol == PROTOCOLS[row["proto"]], where
            assert choice.num_channels == row["nMaxChannels"], where
            assert choice.estimate_s * 1e6 == pytest.approx(row["time_us"], rel=TOLERANCE), where


@pytest.mark.corpus
@pytest.mark.parametrize("reference", FULL, ids=str)
class TestFull:
    def test_table(self, reference: Reference) -> None:
        table = plan_of(reference).table
        for function, algorithms in reference.result["tuner"].items():
            for algorithm, expected in algorithms.items():
                for index, protocol in enumerate(PROTOCOLS.values()):
                    where = (COLLECTIVES[function], ALGORITHMS[algorithm], protocol)
                    cost = table.get(where)
                    latency, bandwidth = (cost.latency_s, cost.bytes_per_s) if cost else (0.0, 0.0)
                    assert latency * 1e6 == pytest.approx(expected["lat_us"][index], rel=TOLERANCE), where
                    assert bandwidth / GIGA == pytest.approx(expected["algbw_GBs"][index], rel=TOLERANCE), where

    def test_times_of_all_ways(self, reference: Reference) -> None:
        plan = plan_of(reference)
        for function, rows in reference.result["ops"].items():
            for row in rows:
                times = {way: time * 1e6 for way, time in plan.choose(COLLECTIVES[function], row["bytes"]).times_s}
                expected = {
                    (ALGORITHMS[way.split("/")[0]], PROTOCOLS[way.split("/")[1]]): pytest.approx(time, rel=TOLERANCE)
                    for way, time in row["times"].items()
                }
                assert times == expected, f"{function} of {row['bytes']} bytes"

    def test_split(self, reference: Reference) -> None:
        plan = plan_of(reference)
        for function, rows in reference.result["ops"].items():
            for row in rows:
                choice = plan.choose(COLLECTIVES[function], row["bytes"])
                where = f"{function} of {row['bytes']} bytes"
                assert choice.num_warps == row["nWarps"], where
                assert [0, choice.split.num_channels - 1] == row["channels"], where
                parts = (choice.split.first, choice.split.middle, choice.split.last)
                assert [part.num_elements if part else 0 for part in parts] == row["countLoMidHi"], where
                assert [part.chunk_bytes if part else 0 for part in parts] == row["chunkLoMidHi"], where

    def test_communicator(self, reference: Reference) -> None:
        result, plan = reference.result, plan_of(reference)
        comm, pairs = plan.communicator, plan.wiring.point_to_point
        shape = {
            "nvlsSupport": int(comm.machine.nvls),
            "nvlsChannels": comm.nvls_num_channels,
            "nvlsChunkSize": comm.nvls_chunk_bytes,
            "nvlsTreeMaxChunkSize": comm.nvls_tree_max_chunk_bytes,
            "nvlsHeads": comm.nvls_num_heads,
            "collChannels": comm.num_channels,
            "p2pnChannels": pairs.num_channels,
            "p2pnChannelsPerPeer": pairs.num_channels_per_peer,
            "p2pChunkSize": pairs.chunk_bytes,
            "isAllNvlink": int(pairs.all_nvlink),
            "minNetBw": pytest.approx(pairs.net_bytes_per_s / GIGA),
            "buffSizes": [comm.buffer_bytes[protocol] for protocol in PROTOCOLS.values()],
            "maxThreads": limits(comm.max_threads),
            "threadThresholds": limits(comm.thresholds),
        }
        assert {name: result[name] for name in shape} == shape


def limits(table: Any) -> list[list[int]]:
    return [[table[algorithm, protocol] for protocol in PROTOCOLS.values()] for algorithm in ALGORITHMS.values()]


def total_elements(split: Split) -> int:
    if split.middle is None and split.last is None:
        return split.first.num_elements
    assert split.last is not None
    middle = split.middle.num_elements * (split.num_channels - 2) if split.middle else 0
    return split.first.num_elements + middle + split.last.num_elements


@pytest.mark.corpus
@pytest.mark.skipif(not FULL, reason="no corpus of captures")
@settings(max_examples=300)
@given(data=st.data())
def test_split_loses_nothing(data: st.DataObject) -> None:
    plan = plan_of(data.draw(st.sampled_from(FULL)))
    collective = data.draw(st.sampled_from(sorted(COLLECTIVES.values())))
    scale = plan.wiring.num_ranks if collective in ("all_gather", "reduce_scatter") else 1
    num_elements = data.draw(st.one_of(st.integers(1, 1 << 14), st.integers(1, 1 << 31)))
    choice = plan.choose(collective, num_elements * scale * 4)
    assert total_elements(choice.split) == num_elements
    parts = [part for part in (choice.split.first, choice.split.middle, choice.split.last) if part]
    assert all(part.num_elements > 0 and part.chunk_bytes > 0 for part in parts)
    assert choice.split.num_channels <= choice.num_channels


@pytest.mark.corpus
@pytest.mark.skipif(not FULL, reason="no corpus of captures")
class TestChoose:
    def spec(self) -> SystemSpec:
        return spec_of(machine_text("dgx-h100"))

    def test_nothing_left_is_one_sentence(self) -> None:
        options = NcclOptions.from_environment({"NCCL_ALGO": "tree"})
        plan = plan_nccl(self.spec(), options=options)
        assert plan.choose("all_reduce", 1 << 20).algorithm == "tree"
        with pytest.raises(TopoError, match="no algorithm left for broadcast"):
            plan.choose("broadcast", 1 << 20)

    def test_unknown_collective_and_dtype(self) -> None:
        plan = plan_nccl(self.spec())
        with pytest.raises(NameChoiceError, match="all_reduce"):
            plan.choose("allreduce", 1 << 20)
        with pytest.raises(NameChoiceError, match="float32"):
            plan.choose("all_reduce", 1 << 20, dtype="float31")

    def test_ll128_by_hand(self) -> None:
        spec = spec_of(machine_text("pcie-8xl40s-amd"))
        assert all(way[1] != "ll128" for way, _ in plan_nccl(spec).choose("all_reduce", 1 << 20).times_s)
        options = NcclOptions.from_environment({"NCCL_PROTO": "LL128"})
        assert {way[1] for way, _ in plan_nccl(spec, options=options).choose("all_reduce", 1 << 20).times_s} == {
            "ll128"
        }

    def test_channel_limits(self) -> None:
        def channels(**environment: str) -> int:
            options = NcclOptions.from_environment({f"NCCL_{name}": value for name, value in environment.items()})
            return plan_nccl(self.spec(), options=options).wiring.num_channels

        assert channels(MAX_NCHANNELS="8") == 8
        assert channels(MAX_CTAS="4") == 4
        assert channels(MIN_NCHANNELS="32") == 32
        assert channels(MAX_NCHANNELS="8", MIN_NCHANNELS="12") == 12
        assert channels(MIN_CTAS="64", MAX_CTAS="16") == 16

    def test_buffer_size_changes_chunks(self) -> None:
        options = NcclOptions.from_environment({"NCCL_BUFFSIZE": str(8 << 20), "NCCL_ALGO": "allreduce:ring"})
        choice = plan_nccl(self.spec(), options=options).choose("all_reduce", 1 << 32)
        assert (choice.protocol, choice.split.first.chunk_bytes) == ("simple", 4 << 20)

    def test_collnet_on_sharp(self) -> None:
        options = NcclOptions.from_environment({"NCCL_COLLNET_ENABLE": "1"})
        plan = plan_nccl(spec_of(machine_text("dgx-h100-sharp")), num_copies=4, options=options)
        ways = {way for way, _ in plan.choose("all_reduce", 1 << 30).times_s}
        assert {("collnet-direct", "simple"), ("collnet-chain", "simple"), ("nvls", "simple")} <= ways
        assert plan.wiring.graphs["collnet_direct"].num_channels == 8

    def test_ranks_must_count_from_zero(self) -> None:
        with pytest.raises(TopologyError, match="no GPU that takes part"):
            plan_nccl(SystemSpec(()))


@pytest.mark.parametrize(
    ("collective", "algorithm", "dtype", "reduction", "expected"),
    [
        ("all_reduce", "nvls", "float32", "sum", True),
        ("all_reduce", "nvls", "float32", "max", False),
        ("all_reduce", "nvls", "bfloat16", "max", True),
        ("all_reduce", "nvls", "bfloat16", "avg", False),
        ("all_reduce", "nvls-tree", "int8", "sum", False),
        ("all_gather", "nvls", "int8", "sum", True),
        ("reduce_scatter", "pat", "float32", "avg", False),
        ("all_reduce", "ring", "int8", "avg", True),
    ],
)
def test_supported_reductions(collective: str, algorithm: str, dtype: str, reduction: str, expected: bool) -> None:
    assert supports(collective, algorithm, dtype, reduction) is expected
