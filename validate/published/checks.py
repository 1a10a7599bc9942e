"""What of a published run can be scored, and in words why the rest cannot."""

from __future__ import annotations

import math

from topo.errors import NameChoiceError
from topo.words import counted
from validate.published.document import Published, PublishedSample
from validate.published.runs import SetAside
from validate.words import listed

SENDRECV = "sendrecv"
"""nccl-tests' exchange with neighbours: no collective, but published beside them."""


SHORTEST_S, LONGEST_S = 1e-9, 1e6
"""Times outside are no collective's: a slip of units or of the pen."""

MOST_BYTES = 2**63 - 1
"""The largest size that a process can address, and that whole numbers of 64 bits hold."""


def name_of(run: Published) -> str:
    """The run's id and name, as reports call it."""
    return f"{run.id}-{run.name}"


def usable_samples(run: Published) -> tuple[tuple[PublishedSample, ...], list[SetAside]]:
    """The samples with a size and a time that can be, and the others set aside, those of one reason together."""
    groups: dict[str, list[PublishedSample]] = {"": []}
    for row in run.samples:
        groups.setdefault(_why_no_sample(row), []).append(row)
    good = tuple(groups.pop(""))
    return good, [
        SetAside(name_of(run), len(bad), f"{reason}: {listed([_sample_text(row) for row in bad])}")
        for reason, bad in groups.items()
    ]


def _why_no_sample(row: PublishedSample) -> str:
    """Why a sample cannot be scored; empty where it can."""
    if row.num_bytes <= 0 or not math.isfinite(row.time_s) or row.time_s <= 0:
        return "no positive, finite size and time"
    if row.num_bytes > MOST_BYTES:
        return "more bytes than a buffer of 2^63 - 1 holds"
    if not SHORTEST_S <= row.time_s <= LONGEST_S:
        return f"no collective takes less than {SHORTEST_S:g} s or more than {LONGEST_S:g} s, time_s is in seconds"
    return ""


def _sample_text(row: PublishedSample) -> str:
    return f"{row.num_bytes} bytes in {row.time_s:g} s"


def why_unusable(run: Published, samples: tuple[PublishedSample, ...]) -> str:
    """Why the whole run cannot be scored; empty where it can."""
    from sim.collective import collective

    machine = run.machine
    if not samples:
        return "no sample is left to score"
    if min(machine.nodes, machine.gpus_per_node) < 1:
        return f"{counted(machine.nodes, 'node')} of {machine.gpus_per_node} GPUs: at least 1 of each is needed"
    ranks = machine.nodes * machine.gpus_per_node
    if run.num_ranks != ranks:
        nodes = counted(machine.nodes, "node")
        return f"{run.num_ranks} ranks are stated, but {nodes} of {machine.gpus_per_node} GPUs are {ranks}"
    if run.num_ranks < 2:
        return "a single rank moves nothing between GPUs, so that there is nothing to predict"
    if run.collective != SENDRECV:
        try:
            collective(run.collective)
        except NameChoiceError as error:
            return str(error)
    return _why_no_dtype(run.dtype) or _why_no_processes(run)


def _why_no_dtype(dtype: str) -> str:
    """Why a type of elements is none; empty for nccl-tests' names, torch's, and `unknown`."""
    from sim.workload import ELEMENT_BYTES
    from validate.measurement_set import DTYPES

    known = {*DTYPES, *ELEMENT_BYTES}
    return "" if dtype in known else str(NameChoiceError("dtype", dtype, known))


def _why_no_processes(run: Published) -> str:
    """Why the number of GPUs per process can be none; empty where it can, or nothing is stated."""
    share = run.software.gpus_per_process
    if share is None or share > 0:
        return ""
    return f"gpus_per_process is {share}: correct it, or leave it null"
