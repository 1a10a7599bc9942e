"""JSON lines of NCCL's Inspector, invented after its documented fields: read whole, or refused with the line."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo.errors import CaptureError
from topo.readers.nccl_inspector import read, sniff


def line(rank: int = 0, *, flat: bool = False, **figures: object) -> str:
    header = {"id": "0x1f", "rank": rank, "n_ranks": 4, "nnodes": 1}
    coll = {
        "coll": "AllReduce",
        "coll_sn": 7,
        "coll_msg_size_bytes": 1_000_000,
        "coll_exec_time_us": 100,
        "coll_timing_source": "kernel_gpu",
        "coll_algobw_gbs": 10.0,
        "coll_busbw_gbs": 15.0,
        **figures,
    }
    whole = {**(header if flat else {"header": header}), "metadata": {"hostname": "node000"}, "coll_perf": coll}
    return json.dumps(whole)


@pytest.mark.parametrize("flat", [False, True])
def test_a_record_says_what_stands_in_it(flat: bool) -> None:
    text = line(3, flat=flat)
    assert sniff(text)
    (record,) = read(text, "a.jsonl").records
    assert (record.communicator, record.rank, record.num_ranks, record.num_nodes) == ("0x1f", 3, 4, 1)
    assert (record.collective, record.number, record.msg_bytes, record.time_s) == ("AllReduce", 7, 1_000_000, 1e-4)
    assert (record.algbw_bytes_per_s, record.busbw_bytes_per_s) == (10e9, 15e9)
    assert (record.timing_source, record.algorithm) == ("kernel_gpu", None)


def test_files_of_several_ranks_laid_out_or_not_are_read_one_after_the_other() -> None:
    marker = json.dumps({"header": {"id": "0x1f", "rank": 0}, "dump_stats": {"dropped_total": 0}})
    pretty = json.dumps(json.loads(line(1)), indent=1)
    found = read("\n".join([marker, line(0), pretty, line(2)]))
    assert [record.rank for record in found.records] == [0, 1, 2]
    assert (found.num_other, found.is_cut) == (1, False)


@given(st.integers(1, len(line()) - 1))
def test_a_last_record_that_is_cut_off_is_left_out(length: int) -> None:
    found = read(f"{line(0)}\n{line(1)[:length]}")
    assert ([record.rank for record in found.records], found.is_cut) == ([0], True)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{}", "no collective of the Inspector"),
        ('{"coll_perf": 3}', "line 1: a record that cannot be read"),
        (f"{line()}\n{line()[:50]}\n{line()}", "line 2: no JSON"),
        (line(9), "line 1: rank 9 of 4"),
        (line(coll_exec_time_us=0), "1000000 bytes in 0.0 s"),
        (line(coll_exec_time_us="long"), "cannot be read"),
        (line().replace("10.0", "NaN"), "NaN is no number"),
        ("[" * 100_000, "line 1: "),
    ],
)
def test_what_is_no_record_is_refused_with_its_line(text: str, complaint: str) -> None:
    with pytest.raises(CaptureError, match=complaint):
        read(text, "a.jsonl")


def test_other_documents_are_not_taken_for_it() -> None:
    assert not sniff('{"schema": "topology/1"}')
    assert not sniff("# size count type")
