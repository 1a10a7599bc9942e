"""What NCCL leaves beside a run: which choice belongs to which measurement, and that no name of the machine is kept."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from sim.workload import Workload
from validate.jobs import Job
from validate.library_files import GRAPHS, LOG, TOPOLOGY, kept, texts_in, watched, with_choices
from validate.measurement import LibraryChoice, Measurement

PREFIX = "node000:11:12 [0] NCCL INFO"
CHOICES = f"""{PREFIX} Channel 00/02 : 0 1 2 3
{PREFIX} AllReduce: 1048576 Bytes -> Algo RING proto LL channel{{Lo..Hi}}={{0..23}}
{PREFIX} AllReduce: 1048576 Bytes -> Algo NVLS proto SIMPLE channel{{Lo..Hi}}={{0..15}}
{PREFIX} AllGather: 262144 Bytes -> Algo RING proto LL128 channel{{Lo..Hi}}={{0..7}}
"""


def measured(collective: str, algorithm: str = "builtin", executor: str = "builtin", **more: object) -> Measurement:
    return Measurement(Workload(collective, 1 << 20), 4, "nccl", executor, algorithm, (1.0,), **more)


def choice(found: Measurement, protocol: str | None = None) -> LibraryChoice | None:
    job = Job(found.workload, found.algorithm, protocol=protocol)
    return with_choices({3: found}, {3: job}, {LOG: CHOICES})[3].choice


def test_a_choice_belongs_to_the_measurement_of_its_collective_size_and_algorithm() -> None:
    assert choice(measured("all_reduce", "ring")) == LibraryChoice("ring", "ll", 24)
    assert choice(measured("all_reduce", "nvls")) == LibraryChoice("nvls", "simple", 16)
    assert choice(measured("all_reduce"), "ll") == LibraryChoice("ring", "ll", 24)
    assert choice(measured("all_reduce", "tree")) is None
    assert choice(measured("all_reduce", "ring", executor="point-to-point")) is None


def test_a_log_names_what_one_rank_sends() -> None:
    assert choice(measured("all_gather")) == LibraryChoice("ring", "ll128", 8)
    assert choice(measured("reduce_scatter")) is None


def test_an_estimate_that_was_asked_for_stays() -> None:
    found = choice(measured("all_gather", choice=LibraryChoice(estimate_s=1e-5)))
    assert found == LibraryChoice("ring", "ll128", 8, 1e-5)


def test_without_a_log_measurements_stay_as_they_are() -> None:
    found = {0: measured("all_reduce")}
    assert with_choices(found, {}, {}) == found
    assert with_choices(found, {0: Job(found[0].workload, "builtin")}, {LOG: "nothing of NCCL's"}) == found


def test_files_are_found_and_logs_of_all_processes_are_one(tmp_path: Path) -> None:
    (tmp_path / "nccl-a-1.log").write_text("one")
    (tmp_path / "nccl-b-2.log").write_text("two")
    (tmp_path / TOPOLOGY).write_text("<system/>")
    assert texts_in(tmp_path) == {TOPOLOGY: "<system/>", LOG: "one\ntwo"}


def test_nccl_is_asked_to_write_them_unless_the_user_has_asked_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NCCL_DEBUG", raising=False)
    monkeypatch.setenv("NCCL_GRAPH_DUMP_FILE", "/elsewhere")
    found = watched("nccl", tmp_path)
    assert found["NCCL_TOPO_DUMP_FILE"] == str(tmp_path / TOPOLOGY)
    assert found["NCCL_DEBUG"] == "INFO"
    assert "NCCL_GRAPH_DUMP_FILE" not in found
    assert watched("gloo", tmp_path) == {}


def test_what_is_stored_names_no_machine() -> None:
    host = platform.node()
    address = "10.1.2.3"
    stored = kept({LOG: f"{host}:1:2 [0] NCCL INFO NET/Socket : Using [0]eth0:{address}<0>", GRAPHS: "<graphs/>"})
    assert [row.name for row in stored] == [LOG, GRAPHS]
    assert address not in stored[0].text
    assert len(host) < 4 or host not in stored[0].text
