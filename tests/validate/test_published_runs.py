"""Published runs: what is shipped is what was restated, and what cannot be scored is set aside with its reason."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.published_runs import lines_of
from tests.support import NO_CORPUS, corpus_files
from tests.validate.published_documents import cases_from, document
from topo.errors import MeasurementError
from topo.presets import preset
from topo.writers import write
from validate.published.document import read
from validate.published.machines import Machines
from validate.published.runs import SHIPPED, runs_in, shipped_runs
from validate.published.settings import nccl_version, settings_of

MEASUREMENTS = corpus_files("measurements/*.json")


@pytest.mark.corpus
@pytest.mark.skipif(not MEASUREMENTS, reason=NO_CORPUS)
def test_what_is_shipped_is_what_the_corpus_holds() -> None:
    assert SHIPPED.read_text() == lines_of(MEASUREMENTS), "rebuild it with `make runs`"


def test_every_shipped_run_is_read_and_says_where_it_is_from() -> None:
    runs = shipped_runs()
    assert len({(run.id, run.name) for run in runs}) == len(runs) == 224
    assert all(run.source and run.quality_basis for run in runs)
    assert sum(len(run.samples) for run in runs) == 2746


def test_every_machine_of_the_shipped_runs_is_a_preset_that_is_large_enough() -> None:
    machines = Machines()
    for run in shipped_runs():
        assert machines.machine_of(run).num_ranks == run.num_ranks


def test_a_run_becomes_a_case_with_the_choices_of_its_settings(tmp_path: Path) -> None:
    software = {"nccl": "2.30.7", "gpus_per_process": 2, "env": {"NCCL_ALGO": "Tree", "NCCL_IB_TC": 3, "FI_X": 1}}
    (case,) = cases_from(tmp_path, document(software=software)).cases
    assert {choice.algorithm for choice in case.choices if choice} == {"tree"}
    assert (case.name, case.collective, case.num_ranks, case.num_nodes) == ("900-mine", "all_reduce", 2, 1)
    assert (case.gpus_per_process, case.nccl_version, case.machine_class) == (2, (2, 30, 7), "A100-test")
    assert case.measured_s.tolist() == [1e-5, 5e-5]
    assert case.only([1]).num_bytes.tolist() == [1 << 20]


def test_what_a_run_forced_is_what_is_planned(tmp_path: Path) -> None:
    (case,) = cases_from(tmp_path, document(algorithm="ring", protocol="simple", num_channels=3)).cases
    ways = {(row.algorithm, row.protocol) for row in case.choices if row}
    assert ways == {("ring", "simple")}
    assert case.plan.wiring.num_channels == 3


@pytest.mark.parametrize(
    ("stated", "ours"),
    [("Ring", "ring"), ("NVLSTree", "nvls-tree"), ("NVLS_TREE", "nvls-tree"), ("nvls-tree", "nvls-tree")],
)
def test_what_was_forced_may_be_spelled_as_nccl_does(stated: str, ours: str) -> None:
    found = settings_of(read(json.dumps(document(algorithm=stated, protocol="LL128"))))
    assert found.algorithms == (ours,)
    assert found.environment == (("NCCL_PROTO", "ll128"),)


def test_a_forced_algorithm_in_capitals_is_what_is_planned(tmp_path: Path) -> None:
    made = cases_from(tmp_path, document(algorithm="TREE", protocol="Simple"))
    assert {(row.algorithm, row.protocol) for row in made.cases[0].choices if row} == {("tree", "simple")}
    assert made.remarks == ()


@pytest.mark.parametrize("dtype", ["float", "float32", "bfloat16", "half", "fp8_e4m3", "unknown"])
def test_every_known_type_of_elements_is_scored(tmp_path: Path, dtype: str) -> None:
    assert len(cases_from(tmp_path, document(dtype=dtype)).cases) == 1


def test_what_nccl_cannot_do_is_planned_as_its_own_choice_and_said(tmp_path: Path) -> None:
    made = cases_from(tmp_path, document(algorithm="nvls"))
    assert all(choice and choice.algorithm != "nvls" for choice in made.cases[0].choices)
    assert "NCCL 2.30 cannot do what was forced (NCCL has no algorithm left" in made.remarks[0]


@pytest.mark.parametrize("collective", ["all_to_all", "alltoall", "sendrecv"])
def test_sends_and_receives_are_cases_without_a_choice(tmp_path: Path, collective: str) -> None:
    (case,) = cases_from(tmp_path, document(collective=collective)).cases
    assert case.choices == (None, None)


def test_a_setting_that_the_planner_does_not_know_is_left_out_and_said() -> None:
    software = {"nccl": None, "gpus_per_process": None, "env": {"NCCL_AGLO": "Ring", "NCCL_NTHREADS": 256}}
    found = settings_of(read(json.dumps(document(software=software))))
    assert found.environment == (("NCCL_NTHREADS", "256"),)
    assert "did you mean 'NCCL_ALGO'" in found.remarks[0]


@pytest.mark.parametrize(
    ("changes", "num_rows", "reason"),
    [
        ({"num_ranks": 8}, 2, "8 ranks are stated, but 1 node of 2 GPUs are 2"),
        ({"machine": {"nodes": 2}}, 2, "2 ranks are stated, but 2 nodes of 2 GPUs are 4"),
        ({"machine": {"gpus_per_node": 9}, "num_ranks": 9}, 2, "9 GPUs of each node take part, but .* has 8"),
        ({"machine": {"gpus_per_node": 1}, "num_ranks": 1}, 2, "a single rank moves nothing"),
        ({"machine": {"nodes": 0}, "num_ranks": 0}, 2, "0 nodes of 2 GPUs"),
        ({"machine": {"topology": "machines/dgx-a1000.xml"}}, 2, "no preset is called 'dgx-a1000': .*--machines"),
        ({"collective": "all_reduec"}, 2, "unknown collective 'all_reduec': did you mean 'all_reduce'"),
        ({"samples": []}, 0, "no sample is left"),
        ({"samples": [{"num_bytes": 8, "time_s": 0}]}, 1, "no positive, finite size and time: 8 bytes in 0 s"),
        ({"samples": [{"num_bytes": 8, "time_s": 1e-5, "wrong": 3}]}, 0, r"\$\.samples\[0\]\.wrong is no key here"),
        ({"quality": "healty"}, 0, "did you mean 'healthy'"),
        ({"machine": {"nodes": 10**9}, "num_ranks": 2 * 10**9}, 2, "nodes 1000000000: .* at most [0-9,]+ nodes fit"),
        ({"algorithm": "rign"}, 2, "unknown algorithm that was forced 'rign': did you mean 'ring'"),
        ({"protocol": "LL256"}, 2, "unknown protocol that was forced 'LL256': did you mean"),
        ({"algorithm": ""}, 2, "unknown algorithm that was forced ''"),
        ({"dtype": "float999"}, 2, "unknown dtype 'float999': did you mean 'float"),
        ({"samples": [{"num_bytes": 8, "time_s": 5e-324}]}, 1, "less than 1e-09 s .*: 8 bytes in 4.94066e-324 s"),
        ({"samples": [{"num_bytes": 8, "time_s": 1e300}]}, 1, r"more than 1e\+06 s.*: 8 bytes in 1e\+300 s"),
        ({"samples": [{"num_bytes": 2**63, "time_s": 1.0}]}, 1, "more bytes than a buffer of"),
        ({"samples": [{"num_bytes": 10**30, "time_s": 1.0}]}, 1, "more bytes than a buffer of"),
        ({"software": {"nccl": None, "gpus_per_process": 0, "env": {}}}, 2, "gpus_per_process is 0: correct it"),
    ],
)
def test_a_run_that_cannot_be_trusted_is_set_aside(
    tmp_path: Path, changes: dict[str, Any], num_rows: int, reason: str
) -> None:
    made = cases_from(tmp_path, document(name="good"), document(**changes))
    assert [case.run.name for case in made.cases] == ["good"]
    assert re.search(reason, made.set_aside[0].reason)
    assert made.set_aside[0].num_rows == num_rows


def test_a_bad_sample_goes_alone(tmp_path: Path) -> None:
    samples = [{"num_bytes": 8, "time_s": -1.0}, {"num_bytes": 0, "time_s": 1.0}, {"num_bytes": 8, "time_s": 1.0}]
    made = cases_from(tmp_path, document(samples=samples))
    assert [len(case.samples) for case in made.cases] == [1]
    assert [row.num_rows for row in made.set_aside] == [2]


def test_a_machine_of_unlike_gpus_is_refused(tmp_path: Path) -> None:
    xml = mixed_machine()
    folder = tmp_path / "machines"
    folder.mkdir()
    (folder / "odd.xml").write_text(xml)
    plain = document(machine={"topology": "machines/odd.xml"})
    made = cases_from(tmp_path / "data", plain, machines=tmp_path)
    assert "mixes GPUs of compute capability 8.0 and 9.0" in made.set_aside[0].reason


def mixed_machine() -> str:
    """A DGX as NCCL's XML, of which the second GPU is of the next generation."""
    first, second, *rest = write(preset("dgx-a100"), "nccl-xml").split('sm="80"')
    return f'{first}sm="80"{second}sm="90"' + 'sm="80"'.join(rest)


def test_a_second_run_of_one_name_and_a_text_that_is_none_are_set_aside(tmp_path: Path) -> None:
    (tmp_path / "zz.json").write_text("")
    made = cases_from(tmp_path, document(), document())
    assert len(made.cases) == 1
    assert ["a second run of id 900" in row.reason or "empty" in row.reason for row in made.set_aside] == [True, True]


@pytest.mark.parametrize("name", ["nothing", "empty"])
def test_a_folder_without_runs_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(MeasurementError, match=name):
        runs_in(tmp_path / name)


@pytest.mark.parametrize("machines", ["", "machines"])
def test_machines_lie_where_their_paths_start(tmp_path: Path, machines: str) -> None:
    (tmp_path / "machines").mkdir()
    (tmp_path / "machines" / "my-box.xml").write_text(write(preset("dgx-h100"), "nccl-xml"))
    plain = document(machine={"topology": "machines/my-box.xml"})
    (case,) = cases_from(tmp_path / "data", plain, machines=tmp_path / machines).cases
    assert case.num_ranks == 2
    elsewhere = cases_from(tmp_path / "data", plain, machines=tmp_path / "data")
    assert "has no machines/my-box.xml" in elsewhere.set_aside[0].reason


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("2.22.3 in the log (v2.20.3-1)", (2, 22, 3)), ("2.27.7?", (2, 27, 7)), ("2.18", (2, 18)), ("unknown", None)],
)
def test_versions_are_read_out_of_what_people_write(text: str, numbers: tuple[int, ...] | None) -> None:
    assert nccl_version(text) == numbers


@pytest.mark.parametrize("machine", [None, "dgx-a100", [], ["class"], 3])
def test_a_machine_that_is_no_object_is_set_aside(tmp_path: Path, machine: object) -> None:
    made = cases_from(tmp_path, document(name="good"), {**document(), "machine": machine})
    assert [case.run.name for case in made.cases] == ["good"]
    assert re.match(r"\$\.machine: expected `object`", made.set_aside[0].reason)


@pytest.mark.parametrize("bad", ["\x1b[2J", "\n", "\a", "\x9b1m", "\u202e", "\u2028", "\x7f"])
@pytest.mark.parametrize("key", ["id", "name", "collective", "dtype"])
def test_what_steers_a_terminal_never_reaches_it(tmp_path: Path, bad: str, key: str) -> None:
    made = cases_from(tmp_path, document(name="good"), document(**{key: f"a{bad}b"}))
    assert [case.run.name for case in made.cases] == ["good"]
    assert re.match(rf"\$\.{key} is 'a.*b': a name has no control characters", made.set_aside[0].reason)
    assert made.set_aside[0].reason.isprintable()


def test_keys_and_machines_steer_no_terminal_and_free_text_may_have_lines(tmp_path: Path) -> None:
    odd = document(name="key") | {"\x1b[2J": 1}
    where = document(name="where", machine={"class": "A100\x1b[0m"})
    made = cases_from(tmp_path, document(name="good", explanation="two\nlines"), odd, where)
    assert [case.run.name for case in made.cases] == ["good"]
    assert [row.reason.split(":")[0] for row in made.set_aside] == [
        r"a key of $ is '\x1b[2J'",
        r"$.machine.class is 'A100\x1b[0m'",
    ]


def test_the_place_of_what_cannot_be_read_is_said_once(tmp_path: Path) -> None:
    good, bad = json.dumps(document()), json.dumps(document(quality="healty"))
    (tmp_path / "a.jsonl").write_text(f"{good}\n{bad}\n{{\n")
    (tmp_path / "b.json").write_text("{\n1")
    (tmp_path / "c.json").write_text("")
    found = runs_in(tmp_path).set_aside
    places = ["a.jsonl, line 2", "a.jsonl, line 3", "b.json, line 2", "c.json"]
    assert [row.run for row in found] == [str(tmp_path / name) for name in places]
    assert not any("line" in row.reason or str(tmp_path) in row.reason for row in found)
    (tmp_path / "a.jsonl").unlink()
    with pytest.raises(MeasurementError, match=r"such as .*b\.json, line 2: malformed"):
        runs_in(tmp_path)
