"""What of a published run can be scored, and in words why the rest cannot."""

from __future__ import annotations

import math

from topo.errors import NameChoiceError
from validate.published.document import Published, PublishedSample
from validate.published.runs import SetAside
from validate.words import counted, listed

SENDRECV = "sendrecv"
"""nccl-tests' exchange with neighbours: no collective, but published beside them."""


def name_of(run: Published) -> str:
    """The run's id and name, as reports call it."""
    return f"{run.id}-{run.name}"


def usable_samples(run: Published) -> tuple[tuple[PublishedSample, ...], list[SetAside]]:
    """The samples with a size and a positive, finite time, and the others set aside."""
    good: list[PublishedSample] = []
    bad: list[PublishedSample] = []
    for row in run.samples:
        usable = row.num_bytes > 0 and math.isfinite(row.time_s) and row.time_s > 0
        (good if usable else bad).append(row)
    if not bad:
        return tuple(good), []
    what = listed([f"{row.num_bytes} bytes in {row.time_s:g} s" for row in bad])
    return tuple(good), [SetAside(name_of(run), len(bad), f"no positive, finite size and time: {what}")]


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
    return ""
