"""Which of many processes this one is, where torchrun, srun or mpirun has started the command once per GPU."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from topo.errors import EnvironmentMissing

FIRST_PORT, NUM_PORTS = 29_600, 1_000
"""Where processes of a job meet if nothing says where: a port that follows from the job's number."""


@dataclass(frozen=True, slots=True)
class Place:
    """This process among `num_ranks` of a launcher; all meet at rank 0's host, on `port` or one of the next few.

    `is_alone` where all processes run on one host.
    """

    launcher: str
    rank: int
    num_ranks: int
    local_rank: int
    address: str
    port: int
    is_alone: bool = False

    @property
    def meeting(self) -> str:
        """Where they meet, in words."""
        return f"{self.address}:{self.port}"


def place_here(variables: Mapping[str, str] | None = None) -> Place | None:
    """The place that the environment tells; None where no launcher has started several processes of this command.

    EnvironmentMissing where one has, but does not say where rank 0 is.
    """
    found = dict(os.environ) if variables is None else dict(variables)
    for sniff in (_torchrun, _srun, _open_mpi, _hydra):
        place = sniff(found)
        if place is not None and place.num_ranks > 1:
            return place
    return None


def _torchrun(found: Mapping[str, str]) -> Place | None:
    if not {"TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= set(found):
        return None
    num_ranks, num_local = int(found["WORLD_SIZE"]), int(found.get("LOCAL_WORLD_SIZE", "0"))
    # torchrun's own store has the port itself.
    port = int(found["MASTER_PORT"]) + 1
    local = int(found.get("LOCAL_RANK", "0"))
    return Place("torchrun", int(found["RANK"]), num_ranks, local, found["MASTER_ADDR"], port, num_local == num_ranks)


def _srun(found: Mapping[str, str]) -> Place | None:
    """Only srun sets the number of a step's tasks; in the batch script itself no task is one of several."""
    if not {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"} <= set(found):
        return None
    rank, num_ranks = int(found["SLURM_PROCID"]), int(found["SLURM_STEP_NUM_TASKS"])
    nodes = found.get("SLURM_STEP_NODELIST") or found.get("SLURM_NODELIST") or ""
    is_alone = found.get("SLURM_STEP_NUM_NODES") == "1"
    address = found.get("MASTER_ADDR") or ("127.0.0.1" if is_alone else first_host(nodes))
    port = _port(found, f"{found.get('SLURM_JOB_ID', '')}.{found.get('SLURM_STEP_ID', '')}")
    return Place("srun", rank, num_ranks, int(found.get("SLURM_LOCALID", "0")), address, port, is_alone)


def _open_mpi(found: Mapping[str, str]) -> Place | None:
    if not {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"} <= set(found):
        return None
    return _mpi(found, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_")


def _hydra(found: Mapping[str, str]) -> Place | None:
    """MPICH and Intel MPI."""
    if not {"PMI_RANK", "PMI_SIZE"} <= set(found):
        return None
    return _mpi(found, "PMI_RANK", "PMI_SIZE", "MPI_LOCAL")


def _mpi(found: Mapping[str, str], rank: str, size: str, local: str) -> Place:
    num_ranks = int(found[size])
    local_rank = found.get(f"{local}RANK") or found.get(f"{local}RANKID") or found[rank]
    num_local = found.get(f"{local}SIZE") or found.get(f"{local}NRANKS") or ""
    is_alone = num_local == found[size]
    address = found.get("MASTER_ADDR") or ("127.0.0.1" if is_alone else "")
    if not address and num_ranks > 1:
        raise EnvironmentMissing(
            "mpirun does not tell on which host rank 0 runs: give it with -x MASTER_ADDR=HOST (Open MPI) or "
            "-genv MASTER_ADDR HOST (MPICH, Intel MPI)"
        )
    job = found.get("PMIX_NAMESPACE") or found.get("OMPI_MCA_ess_base_jobid") or found.get("PMI_JOBID") or ""
    return Place("mpirun", int(found[rank]), num_ranks, int(local_rank), address, _port(found, job), is_alone)


def _port(found: Mapping[str, str], job: str) -> int:
    if found.get("MASTER_PORT", "").isdigit():
        return int(found["MASTER_PORT"])
    return FIRST_PORT + zlib.crc32(job.encode()) % NUM_PORTS


def first_host(nodes: str) -> str:
    """The first host of a list as Slurm writes it: `node[003-007,9],login` begins with node003.

    EnvironmentMissing where there is none.
    """
    match = re.match(r"([^\[,]+)(?:\[(\d+)[^\]]*\]([^,\[]*))?", nodes.strip())
    if match is None:
        raise EnvironmentMissing(
            "srun does not tell on which hosts it runs (SLURM_STEP_NODELIST): set MASTER_ADDR to rank 0's host"
        )
    return f"{match[1]}{match[2] or ''}{match[3] or ''}"
