"""A log of NCCL -> Topology: the parts of its system tree, or else its ranks, with the run's rings and trees.

Links carry the rates that NCCL counts, as it prints them: they lie below nominal ones. What the log leaves open is
said in `findings`; where it prints no tree, GPUs have no links, and `complete` is False.
"""

from __future__ import annotations

from collections.abc import Sequence

from topo.errors import CaptureError
from topo.finding import notes
from topo.log_machine import MachineParts, rank_in_tree
from topo.log_tree import TreeParts
from topo.readers.nccl_log.facts import NcclLog, RankPlace
from topo.readers.nccl_log.machine_facts import SystemTree
from topo.readers.nccl_log.run import run_of
from topo.topology import Device, Link, Provenance, Topology

KIND = "NCCL log"
FABRIC_ID = "fabric"
MAX_UNSEEN_RANKS = 1024


def from_log(log: NcclLog) -> Topology:
    """The topology that the log shows; `gpu_ids` are the ranks of its main communicator, in order.

    CaptureError where the log names no rank and prints no system tree.
    """
    trees = _trees_by_host(log.systems)
    ranks, places = _ranks(log, trees)
    if not ranks:
        raise CaptureError(
            "the log shows no rank: run with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH and keep all of its lines",
            source=log.source,
        )
    parts = MachineParts(log, places, ranks, _num_hosts(trees, places))
    for tree in trees:
        parts.add_links(tree, TreeParts(tree, parts).added())
    gpu_ids = parts.gpu_ids()
    fabric = _fabric(parts.devices) if len(trees) > 1 else ([], [])
    hosts = {place.host for place in places.values()}
    complete = (
        len(trees) == 1
        and trees[0].complete
        and len(hosts) <= 1
        and log.main is not None
        and log.main.complete
        and not parts.without_links
    )
    return Topology(
        devices=(*parts.devices, *fabric[0]),
        links=(*parts.links.values(), *fabric[1]),
        gpu_ids=gpu_ids,
        provenance=(Provenance(KIND, log.source),),
        complete=complete,
        findings=notes((*parts.findings(), *_findings(log, ranks, has_fabric=bool(fabric[0])))),
        nccl=run_of(log),
    )


def _trees_by_host(systems: Sequence[SystemTree]) -> list[SystemTree]:
    """One tree for each host, the one with the most GPUs; hosts of one NVLink domain print the same tree: once."""
    best: dict[str | None, SystemTree] = {}
    for tree in systems:
        known = best.get(tree.host)
        if tree.nodes and (known is None or _weight(tree) > _weight(known)):
            best[tree.host] = tree
    chosen: list[SystemTree] = []
    for tree in best.values():
        names = {node.name for node in tree.nodes}
        systems_in_it = {node.system for node in tree.nodes}
        twin = any(len(systems_in_it) > 1 and names == {node.name for node in other.nodes} for other in chosen)
        if not twin:
            chosen.append(tree)
    return chosen


def _weight(tree: SystemTree) -> tuple[bool, int]:
    return (tree.complete, sum(node.kind == "GPU" for node in tree.nodes))


def _ranks(log: NcclLog, trees: Sequence[SystemTree]) -> tuple[tuple[int, ...], dict[int, RankPlace]]:
    """The ranks that become devices, in order, and where each of them runs.

    All of the main communicator, or, where no line says how many they are, all up to the highest that is named. Of a
    run with more than `MAX_UNSEEN_RANKS` only those that the log names: a few lines do not make thousands of devices.
    """
    main = log.main
    places = {place.rank: place for place in main.places} if main else {}
    named = {rank for tree in trees for node in tree.nodes if (rank := rank_in_tree(node)) is not None} | places.keys()
    if main is not None:
        named.update(rank for tree in main.trees[:1] for rank in range(len(tree.up)))
        named.update(end for c in main.connections for end in (c.src, c.dst) if end is not None)
    stated = main.num_ranks if main else None
    count = stated if stated is not None else max(named, default=-1) + 1
    shown = range(count) if count <= MAX_UNSEEN_RANKS else sorted(rank for rank in named if rank < count)
    return tuple(shown), places


def _num_hosts(trees: Sequence[SystemTree], places: dict[int, RankPlace]) -> int:
    systems = {(tree.host, node.system) for tree in trees for node in tree.nodes}
    return max(len(systems), len({place.host for place in places.values()}), 1)


def _fabric(devices: Sequence[Device]) -> tuple[list[Device], list[Link]]:
    """A switch that joins all network interfaces of known rate."""
    links = []
    for device in devices:
        rate = device.nic.bandwidth_bytes_per_s if device.nic else None
        if rate:
            links += [Link(device.id, FABRIC_ID, "network", rate), Link(FABRIC_ID, device.id, "network", rate)]
    return ([Device(FABRIC_ID, "net_switch")], links) if links else ([], [])


def _findings(log: NcclLog, ranks: Sequence[int], *, has_fabric: bool) -> list[str]:
    """What the log leaves open, a sentence each."""
    main = log.main
    found = []
    if has_fabric:
        found.append("what joins the hosts is not shown: a switch that every NIC reaches at its own rate is assumed")
    if main is None or main.num_ranks is None:
        found.append(f"the log does not say how many ranks there are: at least {ranks[-1] + 1}")
    elif len(ranks) < main.num_ranks:
        found.append(f"of {main.num_ranks} ranks only the {len(ranks)} that the log names are shown")
    if main is not None and main.num_tree_lines and not main.trees:
        found.append("trees are left out: lines of less than half of the ranks show them")
    if len(log.communicators) > 1 and main is not None:
        sizes = ", ".join("?" if c.num_ranks is None else str(c.num_ranks) for c in log.communicators[:12])
        found.append(
            f"the log holds {len(log.communicators)} communicators (ranks: {sizes}): the run shown is the largest, the "
            "first whole one of several"
        )
    if main is not None and main.ambiguous:
        found.append(f"several communicators have {main.num_ranks} ranks, and no commId tells their lines apart")
    if main is not None and main.open_rings:
        channels = ", ".join(map(str, main.open_rings[:8]))
        found.append(f"the rings of channels {channels} are shown only in part, and left out")
    if log.unread:
        lines = ", ".join(str(line) for line in dict.fromkeys(row.line for row in log.unread[:12]))
        found.append(f"{len(log.unread)} records could not be read, in lines {lines}: {log.unread[0].reason}")
    return found
