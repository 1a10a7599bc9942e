"""What NCCL writes beside a run, when asked to: its log, the topology it sees, and the graphs it builds from that."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from validate.jobs import Job
from validate.measurement import LibraryChoice, Measurement

LOG, TOPOLOGY, GRAPHS = "nccl.log", "nccl-topo.xml", "nccl-graph.xml"
SUBSYSTEMS = "INIT,ENV,GRAPH,TUNING"
MOST_CHARS = 4 * 2**20
"""Of a longer log the end is dropped: what it says of the machine and the first sizes stands at its beginning."""


@dataclass(frozen=True, slots=True)
class LibraryText:
    """A file that the library wrote, without what names the machine."""

    name: str
    text: str


def watched(backend: str, folder: Path) -> dict[str, str]:
    """The variables under which NCCL writes these files into the folder; what the user has set stays as it is."""
    if backend != "nccl":
        return {}
    wanted = {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": SUBSYSTEMS,
        "NCCL_DEBUG_FILE": str(folder / "nccl-%h-%p.log"),
        "NCCL_TOPO_DUMP_FILE": str(folder / TOPOLOGY),
        "NCCL_GRAPH_DUMP_FILE": str(folder / GRAPHS),
    }
    return {name: value for name, value in wanted.items() if name not in os.environ}


def texts_in(folder: Path) -> dict[str, str]:
    """What the library left in the folder, by name; the logs of all processes are one text."""
    found = {}
    for name in (TOPOLOGY, GRAPHS):
        path = folder / name
        if path.is_file():
            found[name] = path.read_text(encoding="utf-8", errors="replace")
    logs = [path.read_text(encoding="utf-8", errors="replace") for path in sorted(folder.glob("nccl-*.log"))]
    if logs:
        found[LOG] = "\n".join(logs)[:MOST_CHARS]
    return found


def kept(texts: Mapping[str, str]) -> tuple[LibraryText, ...]:
    """The texts as they are stored: host names, addresses and serial numbers replaced, the same in all of them."""
    from topo.redact import Redactor

    redact = Redactor([platform.node()])
    return tuple(LibraryText(name, redact(text)) for name, text in texts.items())


def with_choices(
    measurements: Mapping[int, Measurement], jobs: Mapping[int, Job], texts: Mapping[str, str]
) -> dict[int, Measurement]:
    """The measurements of the library's own collectives, each with what the log says that it chose.

    A log names collective and bytes of one rank's send buffer (NCCL's enqueue.cc). Where algorithms were forced, one
    line of a size stands for each of them: only what agrees with the job counts.
    """
    lines = _choices(texts)
    return {
        index: _with_choice(found, jobs[index], lines) if index in jobs else found
        for index, found in measurements.items()
    }


def _choices(texts: Mapping[str, str]) -> dict[tuple[str | None, int], list[LibraryChoice]]:
    from topo.readers import nccl_log

    text = texts.get(LOG, "")
    if not nccl_log.sniff(text):
        return {}
    found: dict[tuple[str | None, int], list[LibraryChoice]] = {}
    for line in nccl_log.read(text, LOG).choices:
        channels = None
        if line.first_channel is not None and line.last_channel is not None:
            channels = line.last_channel - line.first_channel + 1
        choice = LibraryChoice(line.algorithm, line.protocol, channels, line.nccl_estimate_s)
        found.setdefault((line.function, line.num_bytes), []).append(choice)
    return found


def _with_choice(
    found: Measurement, job: Job, lines: Mapping[tuple[str | None, int], list[LibraryChoice]]
) -> Measurement:
    if found.executor != "builtin":
        return found
    workload = found.workload
    sent = workload.num_bytes // found.num_ranks if workload.collective == "all_gather" else workload.num_bytes
    if workload.collective == "reduce_scatter":
        sent = workload.num_bytes // found.num_ranks
    forced = {"builtin"} if job.algorithm == "builtin" else {job.algorithm}
    for function in (workload.collective, None):
        fitting = [
            line
            for line in lines.get((function, sent), [])
            if ("builtin" in forced or line.algorithm in forced) and job.protocol in (None, line.protocol)
        ]
        if fitting:
            known = found.choice.estimate_s if found.choice else None
            return replace(found, choice=replace(fitting[-1], estimate_s=known or fitting[-1].estimate_s))
    return found
