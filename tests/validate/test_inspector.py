"""Records of the Inspector as measurements: the slowest rank of each collective counts."""

from __future__ import annotations

import pytest

from tests.topo.test_nccl_inspector import line
from topo.errors import MeasurementError
from validate.documents import Hints, MeasurementSet, parse_measurements


def parse(*lines: str, hints: Hints | None = None) -> MeasurementSet:
    return parse_measurements("\n".join(lines), "inspector.log", hints or Hints())


def test_a_sample_is_the_slowest_rank_of_one_collective() -> None:
    lines = [
        line(rank, coll_sn=number, coll_exec_time_us=100 + 10 * rank, coll_algobw_gbs=1e3 / (100 + 10 * rank))
        for number in (1, 2, 3)
        for rank in range(4)
    ]
    found = parse(*lines)
    (row,) = found.measurements
    assert row.samples_s == (130e-6,) * 3
    assert (row.workload.collective, row.workload.num_bytes, row.num_ranks) == ("all_reduce", 1_000_000, 4)
    assert (row.backend, row.executor, row.correct) == ("nccl-inspector", "builtin", None)
    assert not any("join the files" in remark for remark in found.remarks)


@pytest.mark.parametrize(("algbw", "num_bytes"), [(10.0, 1_000_000), (40.0, 4_000_000)])
def test_time_and_algbw_tell_whether_the_message_is_one_ranks_or_all_ranks(algbw: float, num_bytes: int) -> None:
    found = parse(line(coll="ReduceScatter", coll_algobw_gbs=algbw))
    assert found.measurements[0].workload.num_bytes == num_bytes
    assert any("of 1 rank of 4" in remark for remark in found.remarks)


def test_what_contradicts_itself_is_refused() -> None:
    with pytest.raises(MeasurementError, match="line 1: 1000000 bytes in 100 us and algbw 20 GB/s contradict"):
        parse(line(coll_algobw_gbs=20.0))


def test_hints_choose_and_unknown_operations_are_named() -> None:
    lines = [line(), line(coll="AllGather", coll_sn=8), line(coll="Fancy", coll_sn=9)]
    found = parse(*lines, hints=Hints("all_gather"))
    assert [row.workload.collective for row in found.measurements] == ["all_gather"]
    assert found.remarks[0].startswith("passed over: Fancy")
    with pytest.raises(MeasurementError, match="no collective of what --collective and --ranks ask for"):
        parse(*lines, hints=Hints("broadcast"))
