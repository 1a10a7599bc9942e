"""The place of a process among those of torchrun, srun and mpirun, from their variables."""

from __future__ import annotations

import pytest

from topo.errors import EnvironmentMissing
from validate.place import Place, first_host, place_here

TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none",
    "RANK": "5",
    "WORLD_SIZE": "16",
    "LOCAL_RANK": "5",
    "LOCAL_WORLD_SIZE": "8",
    "MASTER_ADDR": "node1",
    "MASTER_PORT": "29500",
}
SRUN = {
    "SLURM_PROCID": "9",
    "SLURM_STEP_NUM_TASKS": "16",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_NODELIST": "node[003-004]",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_JOB_ID": "77",
    "MASTER_PORT": "4000",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "MASTER_ADDR": "node1",
    "MASTER_PORT": "4000",
}
HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2", "MASTER_PORT": "4000"}


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        (TORCHRUN, Place("torchrun", 5, 16, 5, "node1", 29501)),
        (SRUN, Place("srun", 9, 16, 1, "node003", 4000)),
        ({**SRUN, "SLURM_STEP_NUM_NODES": "1"}, Place("srun", 9, 16, 1, "127.0.0.1", 4000, is_alone=True)),
        (OPEN_MPI, Place("mpirun", 3, 4, 1, "node1", 4000)),
        (HYDRA, Place("mpirun", 1, 2, 1, "127.0.0.1", 4000, is_alone=True)),
        ({}, None),
        ({"SLURM_PROCID": "0", "SLURM_JOB_ID": "7", "SLURM_NTASKS": "16"}, None),
        ({**SRUN, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}, None),
        ({"RANK": "0", "WORLD_SIZE": "2"}, None),
    ],
)
def test_each_launcher_tells_the_place_in_its_own_words(variables: dict[str, str], place: Place | None) -> None:
    assert place_here(variables) == place


def test_mpirun_on_several_hosts_must_be_told_where_rank_0_is() -> None:
    silent = {name: value for name, value in OPEN_MPI.items() if name != "MASTER_ADDR"}
    with pytest.raises(EnvironmentMissing, match="-x MASTER_ADDR=HOST"):
        place_here(silent)
    assert place_here({**silent, "OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0"}) is None


def test_processes_of_one_job_agree_on_a_port_without_being_told() -> None:
    silent = {name: value for name, value in SRUN.items() if name != "MASTER_PORT"}
    one, other, elsewhere = (
        place_here({**silent, **more}) for more in ({}, {"SLURM_PROCID": "2"}, {"SLURM_JOB_ID": "8"})
    )
    assert one is not None
    assert other is not None
    assert elsewhere is not None
    assert one.port == other.port != elsewhere.port


@pytest.mark.parametrize(
    ("nodes", "host"),
    [
        ("node1", "node1"),
        ("node1,node2", "node1"),
        ("node[003-007,9],login", "node003"),
        ("rack[1-2]-gpu", "rack1-gpu"),
        ("a-[12],b", "a-12"),
    ],
)
def test_the_first_host_of_a_list(nodes: str, host: str) -> None:
    assert first_host(nodes) == host


def test_an_empty_list_has_no_first_host() -> None:
    with pytest.raises(EnvironmentMissing, match="set MASTER_ADDR"):
        first_host(" ")
