"""A TOPOLOGY argument becomes a topology: a file or folder of captures, a preset, `-`, or a synthetic description."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from topo.errors import CaptureError, NameChoiceError, TopologyError
from topo.synthetic import is_synthetic, synthetic
from topo.words import counted

if TYPE_CHECKING:
    from topo.cluster import Cluster
    from topo.topology import Topology

_LOOKS_LIKE_PATH = re.compile(r"[/\\]|\.[A-Za-z0-9]{1,5}$")


def load_topology(
    argument: str, *, nodes: int = 1, gpus: str | None = None, fabric: str | None = None
) -> Topology | Cluster:
    """The machine that a TOPOLOGY argument names, or `nodes` of it joined by `fabric`.

    `argument` is a preset's name, a synthetic description, `-` (standard input), or a file or folder of captures in
    any format of READERS; `gpus` ("0-3,6") picks the ranks that take part. Raises CaptureError for what cannot be
    read, NameChoiceError for a name that is neither file nor preset, TopologyError for GPUs that are not there.
    """
    topology = one_machine(argument)
    if gpus is not None:
        topology = topology.take_ranks(parse_gpus(gpus, topology.num_ranks))
    if nodes == 1 and fabric is None:
        return topology
    from topo.cluster import Cluster, Fabric, parse_fabric

    joined = Fabric() if fabric is None else parse_fabric(fabric)
    return topology if nodes == 1 else Cluster(topology, nodes, joined)


def parse_gpus(text: str, num_ranks: int) -> tuple[int, ...]:
    """The ranks that "0-3,6" names, in the order given; TopologyError where one is not there or stands twice."""
    chosen: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?", part)
        if match is None:
            raise TopologyError(f"--gpus {text}: {part.strip()!r} is no GPU, expected numbers and ranges such as 0-3,6")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise TopologyError(f"--gpus {text}: the range {part.strip()} runs backwards, write {last}-{first}")
        if last >= num_ranks:
            has = f"has {counted(num_ranks, 'GPU')}, 0 to {num_ranks - 1}" if num_ranks else "has no GPUs"
            raise TopologyError(f"--gpus {text}: there is no GPU {last}, this machine {has}")
        chosen.extend(range(first, last + 1))
    twice = next((rank for place, rank in enumerate(chosen) if rank in chosen[:place]), None)
    if twice is not None:
        raise TopologyError(f"--gpus {text}: GPU {twice} stands twice, each GPU is one rank")
    return tuple(chosen)


def one_machine(argument: str) -> Topology:
    """The machine that a TOPOLOGY argument names, with all its ranks; raises as `load_topology` does."""
    if is_synthetic(argument):
        return synthetic(argument)
    from topo import presets

    if argument in presets.PRESETS:
        return presets.preset(argument)
    path = Path(argument)
    if argument == "-" or exists(path):
        from topo.reading import read_argument

        return read_argument(argument)
    if _LOOKS_LIKE_PATH.search(argument):
        raise CaptureError("no such file or folder: check the path", source=argument)
    raise NameChoiceError("file or preset", argument, presets.PRESETS, listing=presets.LISTING)


def exists(path: Path) -> bool:
    """Whether there is such a file; what cannot be a path names none."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
