"""The parts of a machine that a log of NCCL shows: its system tree as devices and links, and ranks without a tree.

Ids follow those of NCCL's XML: `GPU0`, `numa0`, `numa0/switch1`, `NVS0`, NICs by their name; with several hosts, all
but GPUs carry the host in front (`node3/numa0`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from topo.gpu_models import gpu_model
from topo.log_nvlinks import nvlinks_in
from topo.readers.nccl_log.facts import NcclLog, RankPlace
from topo.readers.nccl_log.machine_facts import SystemLink, SystemNode, SystemTree
from topo.topology import Device, GpuFacts, Link, LinkKind, PciFacts

LINK_KINDS: Mapping[str, LinkKind] = {
    "NVL": "nvlink",
    "XGMI": "xgmi",
    "C2C": "c2c",
    "PCI": "pcie",
    "SYS": "cpu",
    "QPI": "cpu",
    "LOC": "local",
    "NET": "local",
}
"""NCCL's words for links; NET joins a card to its ports."""

HOW_TO_PRINT_IT = "NCCL_DEBUG_SUBSYS=INIT,GRAPH prints it"

_BOTH_WAYS = ("PCI", "NET", "LOC")
"""Links of which the tree prints only the way down; NVSwitches have no rows either, so theirs go both ways too."""


def number_of(text: str) -> int:
    """The number in a part's id, which is hexadecimal; 0 for an empty one."""
    return int(text or "0", 16)


def rank_in_tree(node: SystemNode) -> int | None:
    """The rank that a row of the system tree gives a GPU; None for other parts, and since NCCL 2.30."""
    said = node.details
    return int(said[0]) if node.kind == "GPU" and len(said) == 1 and said[0].isdecimal() else None


def bus_id_of(text: str) -> str:
    """NCCL's number of a PCI function ("101c0") as the bus id that it stands for ("0000:10:1c.0")."""
    number = number_of(text)
    return f"{number >> 20:04x}:{number >> 12 & 0xFF:02x}:{number >> 4 & 0xFF:02x}.{number & 0xF:x}"


class MachineParts:
    """Collects devices and links, tree by tree; `num_hosts` decides whether names need the host in front."""

    def __init__(self, log: NcclLog, places: Mapping[int, RankPlace], ranks: Sequence[int], num_hosts: int) -> None:
        self.devices: list[Device] = []
        self.links: dict[tuple[str, str, LinkKind], Link] = {}
        self.without_links: list[int] = []
        self._log = log
        self._places = places
        self._ranks = ranks
        self._many_hosts = num_hosts > 1
        self._gpu_names = self._names_of_ranks()
        self._of_rank: dict[int, str] = {}
        self._taken: set[str] = set()
        self._not_counted: list[str] = []
        self._no_rate: list[str] = []
        self._no_part: list[str] = []
        self._unknown: list[str] = []
        self._vendor = _vendor(log)
        self._capability: dict[str, int | None] = {}

    def add_links(self, tree: SystemTree, ids: Mapping[str, str]) -> None:
        """The links of a tree whose parts are devices already: `ids` by their names in the tree."""
        for link in tree.links:
            src, dst = ids.get(link.src), ids.get(link.dst)
            if src is not None and dst is not None and src != dst:
                self._add_link(link, src, dst)

    def gpu_ids(self) -> tuple[str, ...]:
        """The device of each rank; ranks that no tree shows get one without links here."""
        for rank in self._ranks:
            if rank not in self._of_rank:
                place = self._places.get(rank, RankPlace(rank))
                self.without_links.append(rank)
                self.add_gpu(rank, place.host, place.bus_id)
        return tuple(self._of_rank[rank] for rank in self._ranks)

    def add_gpu(self, rank: int | None, host: str | None, bus_id: str | None) -> str:
        """A GPU, with what the log says of its rank."""
        place = self._places.get(rank, RankPlace(rank)) if rank is not None else RankPlace(-1)
        name = self.take(f"GPU-{bus_id}" if rank is None else self._gpu_names[rank])
        if rank is None:
            self._no_part.append(name)
        else:
            self._of_rank[rank] = name
        known = gpu_model(place.model) if place.model else None
        facts = GpuFacts(place.nvml_dev, known.compute_capability if known else None, rank)
        self._capability[name] = facts.compute_capability
        bus = bus_id or place.bus_id
        pci = None if bus is None else PciFacts(bus_id=bus_id_of(bus))
        self.devices.append(
            Device(name, "gpu", self._vendor, host or place.host, label=name, model=place.model, pci=pci, gpu=facts)
        )
        return name

    def add(self, device: Device) -> str:
        """A part that is no GPU."""
        self.devices.append(device)
        return device.id

    def take(self, name: str) -> str:
        """That name, or with `#2`, `#3`... behind it where it is taken."""
        chosen, copies = name, 1
        while chosen in self._taken:
            copies += 1
            chosen = f"{name}#{copies}"
        self._taken.add(chosen)
        return chosen

    def prefix(self, host: str | None) -> str:
        """What stands in front of a name on that host."""
        return f"{host or 'host'}/" if self._many_hosts else ""

    def rank_of(self, node: SystemNode, host: str | None) -> int | None:
        """The rank of a GPU of a tree: as its row says, else by its bus id."""
        rank = rank_in_tree(node)
        if rank is None:
            fits = [p.rank for p in self._places.values() if p.bus_id == node.local_id and p.host in (host, None)]
            rank = fits[0] if len(fits) == 1 else None
        return rank if rank in self._gpu_names and rank not in self._of_rank else None

    def hosts_of(self, tree: SystemTree) -> dict[str, str | None]:
        """The host of each system in a tree. NCCL numbers the hosts of an NVLink domain by their first rank."""
        systems = list(dict.fromkeys(node.system for node in tree.nodes))
        if len(systems) == 1:
            return {systems[0]: tree.host}
        hosts = list(dict.fromkeys(self._places[rank].host for rank in sorted(self._places)))
        whole = len(hosts) == len(systems) and None not in hosts
        return {name: hosts[at] if whole else f"system{name}" for at, name in enumerate(sorted(systems, key=number_of))}

    def nic_name(self, host: str | None, index: int) -> str:
        """What the log calls the network interface of that number on a host; `NET0` where it names none."""
        for device in self._log.networks:
            if device.index == index and device.host in (host, None) and device.kind != "Socket":
                return device.name
        return f"NET{index}"

    def findings(self) -> list[str]:
        """What stays open, or was taken in one of several ways, a sentence each."""
        found = []
        if self.links:
            found.append("rates are those that NCCL counts (its system tree): nominal ones are higher")
        if any(device.cpu is not None and device.cpu.model is not None for device in self.devices):
            found.append("processors are known by NCCL's class alone: Skylake stands for Ice Lake, too")
        for names, remark in (
            (self._not_counted, "NVLinks whose number does not follow from the rate: one link is shown"),
            (self._no_rate, "printed with a rate of 0: the link is left out"),
            (self._no_part, "in the tree without a rank: takes no part"),
            (self._unknown, "a kind of link that is not known here: left out"),
            ([f"rank {rank}" for rank in self.without_links], f"no system tree shows its links ({HOW_TO_PRINT_IT})"),
        ):
            if names:
                more = f" and {len(names) - 4} more" if len(names) > 4 else ""
                found.append(f"{', '.join(names[:4])}{more}: {remark}")
        return found

    def _add_link(self, link: SystemLink, src: str, dst: str) -> None:
        kind, rate = LINK_KINDS.get(link.kind), link.bandwidth_bytes_per_s
        if kind is None:
            self._unknown.append(f"{src}-{dst} ({link.kind})")
            return
        if rate <= 0:
            self._no_rate.append(f"{src}-{dst}")
            return
        lanes: int | None = 1
        if kind == "nvlink":
            lanes = nvlinks_in(rate, self._capability.get(src) or self._capability.get(dst))
            if lanes is None:
                self._not_counted.append(f"{src}-{dst}")
        self.links.setdefault((src, dst, kind), Link(src, dst, kind, rate, lanes or 1))
        if link.kind in _BOTH_WAYS or link.dst.startswith("NVS/"):
            self.links.setdefault((dst, src, kind), Link(dst, src, kind, rate, lanes or 1))

    def _names_of_ranks(self) -> dict[int, str]:
        """`GPU{nvml index}` on a single host where all are known and distinct, else `GPU{rank}`."""
        numbers = [self._places[rank].nvml_dev if rank in self._places else None for rank in self._ranks]
        by_index = not self._many_hosts and None not in numbers and len(set(numbers)) == len(numbers)
        pairs = zip(self._ranks, numbers, strict=True)
        return {rank: f"GPU{number if by_index else rank}" for rank, number in pairs}


def _vendor(log: NcclLog) -> str | None:
    """Who made the GPUs, as far as links and versions tell."""
    words = {link.kind for tree in log.systems for link in tree.links}
    if "XGMI" in words or any("hip" in version for version in log.versions):
        return "amd"
    known = "NVL" in words or any("cuda" in version for version in log.versions)
    return "nvidia" if known else None
