"""Files of measurements in every format that is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sim.collective import COLLECTIVES
from sim.workload import Workload
from tests.support import NO_CORPUS, corpus_files
from topo.errors import CaptureError, MeasurementError, NameChoiceError
from topo.jsonio import encode
from validate import loopback
from validate.documents import SCHEMA, Hints, MeasurementSet, parse_measurements, read_measurements
from validate.loopback import PointToPoint
from validate.measurement import Measurement, Setting
from validate.published import document as published

PUBLISHED = corpus_files("measurements/*.json")
TITLES = "#  size  count  type  redop  root  time  algbw  busbw  #wrong"
RANKS = "#  Rank  0 Group  0 Pid 1 on a device  0 [0x1] X\n#  Rank  7 Group  0 Pid 8 on a device  7 [0x8] X"


def table(row: str, *, head: str = RANKS) -> str:
    return f"{head}\n{TITLES}\n{row}\n"


def parse(text: str, collective: str | None = None, num_ranks: int | None = None) -> MeasurementSet:
    return parse_measurements(text, "run.txt", Hints(collective, num_ranks))


@pytest.mark.corpus
@pytest.mark.skipif(not PUBLISHED, reason=NO_CORPUS)
def test_every_published_run_is_read_but_for_collectives_unknown_here() -> None:
    num_samples = 0
    for path in PUBLISHED:
        document = json.loads(path.read_text())
        if document["collective"] not in COLLECTIVES:
            with pytest.raises(NameChoiceError, match=f"unknown collective '{document['collective']}'"):
                read_measurements(path)
            continue
        found = read_measurements(path)
        expected = [(row["num_bytes"], row["time_s"]) for row in document["samples"]]
        assert [(row.workload.num_bytes, row.median_s) for row in found.measurements] == expected
        assert {row.num_ranks for row in found.measurements} == {document["num_ranks"]}
        num_samples += len(expected)
    assert num_samples > 2700


@pytest.mark.corpus
@pytest.mark.skipif(not PUBLISHED, reason=NO_CORPUS)
def test_a_published_run_with_an_unknown_key_is_refused() -> None:
    document = json.loads(PUBLISHED[0].read_text())
    with pytest.raises(CaptureError, match=r"\$\.machine\.nodse is no key here: did you mean 'nodes'"):
        published.read(json.dumps({**document, "machine": {**document["machine"], "nodse": 1}}))


def test_our_own_document_is_read_back_as_it_was() -> None:
    facts = PointToPoint(2, 1e-4, 2e-4, 1e9, 1e9)
    (row,) = parse(table("1000000 250000 float sum -1 1000 1.00 1.75 0")).measurements
    full = Measurement(
        row.workload, 2, "gloo", "point-to-point", "ring", (1.0, 2.0), 5, True, (Setting("torch", "2.1"),), (), "here"
    )
    found = MeasurementSet("x", (row, full), loopback.topology(facts), loopback.profile(facts), facts, "rank 1 died")
    text = encode(found, SCHEMA, derived={"rows": [], "backend": "gloo", "collective": "all_reduce", "num_ranks": 2})
    assert parse(text) == found


@pytest.mark.parametrize(
    ("collective", "num_ranks", "complaint"),
    [
        (None, 8, "run.txt holds a run of 2 ranks, but --ranks 8 was given"),
        ("broadcast", None, "run.txt holds all_reduce, but --collective broadcast was given"),
        ("allredcue", None, "unknown collective 'allredcue'"),
    ],
)
def test_what_contradicts_a_document_is_refused(collective: str | None, num_ranks: int | None, complaint: str) -> None:
    row = Measurement(Workload("all_reduce", 8), 2, "gloo", "builtin", "builtin", (1.0,))
    text = encode(MeasurementSet("x", (row,)), SCHEMA)
    assert parse(text, "allreduce", 2).measurements == (row,)
    with pytest.raises((MeasurementError, NameChoiceError), match=complaint):
        parse(text, collective, num_ranks)


@pytest.mark.parametrize(
    ("text", "what"),
    [("hello", "in no known format"), ('{"schema": "topology/1"}', "a document of schema 'topology/1'")],
)
def test_other_texts_are_refused_with_what_is_read(text: str, what: str) -> None:
    with pytest.raises(CaptureError, match=f"{what}: read are nccl-tests"):
        parse(text)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="nothing"):
        read_measurements(tmp_path / "nothing.txt")


def test_of_several_tables_the_collective_chooses_one() -> None:
    row = "1000000 250000 float sum -1 1000 1.00 1.75 0"
    head = "#  Rank  7 Group  0 Pid 8 on a device  7 [0x8] X\n"
    first = f"# Collective test starting: all_reduce_perf\n{head}{TITLES}\n{row}\n"
    second = f"# Collective test starting: reduce_scatter_perf\n{head}{TITLES}\n{row.replace('1.75', '0.88')}\n"
    found = parse_measurements(first + second, "run.txt", Hints("reduce_scatter"))
    assert [row.workload.collective for row in found.measurements] == ["reduce_scatter"]
    with pytest.raises(CaptureError, match=r"holds 2 tables of nccl-tests \(all_reduce, reduce_scatter\): choose one"):
        parse_measurements(first + second, "run.txt", Hints())
