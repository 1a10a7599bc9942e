"""What a log of NCCL says of its run that a plan has to share: machine, ranks and settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.planners.nccl_2_30.options import NcclOptions
from topo.cluster import Cluster
from topo.errors import TopoError
from topo.words import ranges

if TYPE_CHECKING:
    from topo.readers.nccl_log.facts import Communicator, NcclLog
    from topo.topology import Topology


def machine_as_logged(machine: Topology | Cluster, log: NcclLog) -> tuple[Topology | Cluster, tuple[str, ...]]:
    """As many nodes of the machine as the log has hosts, with the GPUs that its ranks run on, and a sentence on it."""
    main = log.main
    if main is None or main.num_ranks is None or isinstance(machine, Cluster):
        return machine, ()
    hosts = {place.host for place in main.places}
    count = (len(hosts) if main.complete and None not in hosts else main.num_nodes) or 1
    whole = machine.num_ranks == main.num_ranks
    spread = len({machine.device(gpu_id).host for gpu_id in machine.gpu_ids}) > 1
    if main.num_ranks % count or (whole and (count == 1 or spread)):
        return machine, ()
    size = main.num_ranks // count
    chosen = _gpus_of(main, size, machine.num_ranks)
    if chosen is None:
        return machine, ()
    node = machine if chosen == list(range(machine.num_ranks)) else machine.take_ranks(chosen)
    of_them = f"GPU{'s' if size > 1 else ''} {ranges(chosen)}"
    said = f"planned for {count} node{'s' if count > 1 else ''} with {of_them}, as the log shows its ranks"
    return (Cluster(node, count) if count > 1 else node), (said,)


def _gpus_of(main: Communicator, size: int, available: int) -> list[int] | None:
    """The GPUs of one host by rank: by NVML's numbers where all are known, else by CUDA's, else the first ones."""
    if size > available:
        return None
    first = sorted(main.places, key=lambda place: place.rank)[:size]
    for numbers in ([place.nvml_dev for place in first], [place.cuda_dev for place in first]):
        known = [number for number in numbers if number is not None and number < available]
        if len(known) == size == len(set(known)):
            return known
    return list(range(size))


def settings_of(log: NcclLog) -> tuple[dict[str, str], tuple[str, ...]]:
    """NCCL's variables that the log says it read and that plans follow; sentences about those that they cannot."""
    found: dict[str, str] = {}
    sentences: list[str] = []
    for setting in log.settings:
        try:
            followed = not NcclOptions.from_environment({setting.name: setting.value}).not_modelled
        except TopoError:
            sentences.append(f"{setting.name}={setting.value} of the log means nothing to NCCL 2.30: left out")
            continue
        if followed:
            found.setdefault(setting.name, setting.value)
    return found, tuple(dict.fromkeys(sentences))
