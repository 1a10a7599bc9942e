"""A topology as NCCL's topology XML, to be given to NCCL by NCCL_TOPO_FILE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from xml.sax.saxutils import quoteattr

from topo import catalog
from topo.containment import Containment, containment
from topo.errors import TopologyError
from topo.topology import Device, Link, PciFacts, Topology

ANY_NVSWITCH = "fffffff:ffff:ff"
"""What NCCL writes as the target of links to switches that are not visible one by one."""

_GCN_OF_ARCHITECTURE = {"gfx90a": "910"}
_CLASSES = {"gpu": "0x030200", "nic": "0x020000", "nic_card": "0x020000", "pcie_switch": "0x060400"}
_INVENTED = "bus ids are placeholders: the source of this topology named none"


def render(topology: Topology) -> str:
    """The XML; read again it gives the same devices and links.

    PCIe roots have no element of their own and are left out, as in NCCL. Bus ids that the topology lacks are made up,
    and a comment says so. TopologyError where there is no NUMA node that holds the GPUs, and for nodes that a network
    joins: of several hosts NCCL writes only those of one NVLink domain into one file, told apart by their host hash.
    """
    return _render(topology, bare=False)


def render_for_vm(topology: Topology) -> str:
    """The XML with processors and PCIe functions alone: what a virtual machine hides of where its devices sit.

    NCCL finds GPUs and NICs by itself, by their bus ids, and takes from the file what lies above them. TopologyError
    where the bus id of one of them would be made up.
    """
    return _render(topology, bare=True)


def _render(topology: Topology, *, bare: bool) -> str:
    _refuse_what_has_no_words(topology)
    writer = _Writer(topology, containment(topology), bare)
    nameless = [device_id for device_id in writer.invented if topology.device(device_id).kind != "pcie_switch"]
    if bare and nameless:
        raise TopologyError(
            f"{topology.name or 'this topology'} does not say the PCI address of {nameless[0]}, by which NCCL finds "
            "it: add nvidia-smi --query-gpu or lspci -vv to the capture"
        )
    writer.lines.append(f'<system version="{"2" if any(link.kind == "xgmi" for link in topology.links) else "1"}">')
    for cpu in topology.of_kind("cpu"):
        writer.add_cpu(cpu)
    writer.lines.append("</system>")
    comment = [f"<!-- {_INVENTED} -->"] if writer.invented else []
    return "\n".join([*comment, *writer.lines]) + "\n"


def _refuse_what_has_no_words(topology: Topology) -> None:
    name = topology.name or "this topology"
    cpus = topology.of_kind("cpu")
    if not cpus:
        raise TopologyError(f"{name} has no NUMA node, and NCCL's XML nests all devices in one: write json instead")
    hosts = {cpu.host for cpu in cpus}
    is_one_system = len(hosts) == 1 or all(cpu.cpu and cpu.cpu.host_hash for cpu in cpus)
    if topology.of_kind("net_switch") or not is_one_system:
        raise TopologyError(
            f"{name} is {len(hosts)} nodes on a network, and the file that NCCL_TOPO_FILE names describes one: write "
            "the node, without --nodes, or write json"
        )


@dataclass
class _Writer:
    topology: Topology
    tree: Containment
    bare: bool = False
    lines: list[str] = field(default_factory=list)
    invented: dict[str, str] = field(default_factory=dict)
    ranks: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Bus ids first, since links name their targets by them."""
        self.ranks = _ranks(self.topology)
        taken = {device.pci.bus_id for device in self.topology.devices if device.pci}
        free = (bus for number in count(1) if (bus := f"{number >> 8:04x}:{number & 255:02x}:00.0") not in taken)
        for device in self.topology.devices:
            if device.kind in _CLASSES and not (device.pci and device.pci.bus_id) and self._needs_pci(device):
                self.invented[device.id] = next(free)

    def add_cpu(self, cpu: Device) -> None:
        """One NUMA node with all that hangs below it."""
        facts = cpu.cpu
        said = {
            "host_hash": facts.host_hash if facts and not self.bare else None,
            "numaid": -1 if cpu.numa_node is None else cpu.numa_node,
            "affinity": facts.affinity if facts else None,
            "arch": facts.arch if facts else None,
            "vendor": cpu.vendor,
            "familyid": facts.family if facts else None,
            "modelid": facts.model if facts else None,
        }
        self._element(1, "cpu", said, self._children(cpu.id))

    def _children(self, parent: str) -> list[str]:
        return [child for child in self.tree.children.get(parent, ()) if self._is_written(child)]

    def _is_written(self, device_id: str) -> bool:
        return self.topology.device(device_id).kind not in ("host_memory", "process")

    def _element(self, depth: int, tag: str, said: Mapping[str, object], children: list[str]) -> None:
        """A container with its devices below it."""
        self.lines.append(_tag(depth, tag, said, closed=not children))
        for child in children:
            self._add(depth + 1, self.topology.device(child))
        if children:
            self.lines.append(f"{'  ' * depth}</{tag}>")

    def _add(self, depth: int, device: Device) -> None:
        if device.kind == "host_bridge":
            for child in self._children(device.id):
                self._add(depth, self.topology.device(child))
        elif device.kind in ("nic", "nic_card") and not self._needs_pci(device):
            if not self.bare:
                self._add_nic(depth, device)
        elif device.kind in _CLASSES:
            self._add_pci(depth, device)
        else:
            raise TopologyError(f"{device.id} is a {device.kind}, for which NCCL's XML has no element")

    def _add_pci(self, depth: int, device: Device) -> None:
        """One PCI function: what it is, then the functions behind it."""
        behind = [child for child in self._children(device.id) if self.tree.up_link[child].kind == "pcie"]
        has_nothing = device.gpu is None and device.nic is None and device.kind != "nic_card"
        is_bare = self.bare or device.kind == "pcie_switch" or has_nothing
        self.lines.append(_tag(depth, "pci", self._pci(device), closed=is_bare and not behind))
        if is_bare and not behind:
            return
        if device.kind == "gpu" and not is_bare:
            self._add_gpus(depth + 1, device)
        elif device.kind in ("nic", "nic_card") and not is_bare:
            self._add_nic(depth + 1, device)
        for child in behind:
            self._add(depth + 1, self.topology.device(child))
        self.lines.append(f"{'  ' * depth}</pci>")

    def _needs_pci(self, device: Device) -> bool:
        """Whether the device is a PCI function of its own: not the ports of a card, nor NICs without a PCI device."""
        if device.pci is not None or device.kind not in ("nic", "nic_card"):
            return True
        link = self.tree.up_link.get(device.id)
        return link is not None and link.kind == "pcie" and self.topology.device(link.dst).kind != "cpu"

    def _add_gpus(self, depth: int, owner: Device) -> None:
        """The ranks of one physical GPU, the owner of its links first."""
        for gpu in (owner, *self._sharing(owner)):
            links = [link for link in self.topology.links if link.src == gpu.id and link.kind in _LINK_ELEMENTS]
            self.lines.append(_tag(depth, "gpu", self._gpu(gpu), closed=not links))
            self.lines.extend(_tag(depth + 1, *self._gpu_link(link), closed=True) for link in links)
            if links:
                self.lines.append(f"{'  ' * depth}</gpu>")

    def _add_nic(self, depth: int, device: Device) -> None:
        nets = [device] if device.kind == "nic" else self._sharing(device)
        self.lines.append(_tag(depth, "nic", {}, closed=False))
        self.lines.extend(_tag(depth + 1, "net", _net(net, place), closed=True) for place, net in enumerate(nets))
        self.lines.append(f"{'  ' * depth}</nic>")

    def _sharing(self, owner: Device) -> list[Device]:
        """What shares a device's PCI function: further ranks of a GPU, the ports of a card."""
        children = [child for child in self._children(owner.id) if self.tree.up_link[child].kind == "local"]
        return [self.topology.device(child) for child in children]

    def _bus_id(self, device_id: str) -> str:
        facts = self.topology.device(device_id).pci
        return (facts.bus_id if facts else None) or self.invented.get(device_id, "")

    def _pci(self, device: Device) -> dict[str, object]:
        facts = device.pci or PciFacts()
        link = self.tree.up_link[device.id]
        return {
            "busid": self._bus_id(device.id),
            "class": facts.device_class
            or (None if device.pci and device.kind == "pcie_switch" else _CLASSES[device.kind]),
            "vendor": facts.vendor_id,
            "device": facts.device_id,
            "subsystem_vendor": facts.subsystem_vendor_id,
            "subsystem_device": facts.subsystem_device_id,
            "link_speed": facts.link_speed if device.pci else _speed(link),
            "link_width": facts.link_width if device.pci else link.lanes,
        }

    def _gpu(self, device: Device) -> dict[str, object]:
        facts = device.gpu
        in_order = self.topology.gpu_ids.index(device.id) if device.id in self.topology.gpu_ids else None
        amd = device.model if device.vendor == "amd" else None
        return {
            "dev": in_order if facts is None or facts.index is None else facts.index,
            "sm": facts.compute_capability if facts else None,
            "gcn": _GCN_OF_ARCHITECTURE.get(amd, amd.removeprefix("gfx")) if amd else None,
            "rank": self.ranks.get(device.id),
            "gdr": None if facts is None or facts.gdr is None else int(facts.gdr),
            "mlopart": facts.mlopart if facts else None,
        }

    def _gpu_link(self, link: Link) -> tuple[str, dict[str, object]]:
        if link.kind == "c2c":
            return "c2c", {"bw": round(link.bandwidth_bytes_per_s / link.lanes / 1e6), "count": link.lanes}
        peer = self.topology.device(link.dst)
        if peer.kind == "nvswitch":
            return "nvlink", {"target": ANY_NVSWITCH, "count": link.lanes, "tclass": "0x068000"}
        if peer.kind == "cpu":
            return "nvlink", {"target": ANY_NVSWITCH, "count": link.lanes, "tclass": "0x068001"}
        peer_class = (peer.pci.device_class if peer.pci else None) or _CLASSES["gpu"]
        return link.kind, {"target": self._bus_id(peer.id), "count": link.lanes, "tclass": peer_class}


def _ranks(topology: Topology) -> dict[str, int]:
    """The rank of each GPU that takes part: as its source states it where those of all are in order, else counted."""
    gpus = [topology.device(gpu_id).gpu for gpu_id in topology.gpu_ids]
    stated = [gpu.rank for gpu in gpus if gpu is not None and gpu.rank is not None]
    in_order = len(stated) == len(gpus) and stated == sorted(set(stated))
    return dict(zip(topology.gpu_ids, stated if in_order else range(len(gpus)), strict=True))


_LINK_ELEMENTS = ("nvlink", "xgmi", "c2c")


def _net(device: Device, place: int) -> dict[str, object]:
    facts = device.nic
    speed = facts.bandwidth_bytes_per_s if facts else None
    latency = facts.latency_s if facts else None
    flags = {name: getattr(facts, key, None) for name, key in (("gdr", "gdr"), ("coll", "collnet"))}
    return {
        "name": device.name.split("#", maxsplit=1)[0].rpartition("/")[2],
        "dev": place if facts is None or facts.index is None else facts.index,
        "latency": None if latency is None else f"{latency * 1e6:.6f}",
        "speed": None if speed is None else round(speed * 8 / 1e6),
        "port": facts.port if facts else None,
        "guid": facts.guid if facts else None,
        "maxconn": facts.max_connections if facts else None,
        **{name: None if flag is None else int(flag) for name, flag in flags.items()},
        "rail": facts.rail if facts else None,
        "plane": facts.plane if facts else None,
    }


def _speed(link: Link) -> str | None:
    """NCCL's words for the PCIe generation that a link's rate shows, None where it shows none."""
    words = {1: "2.5 GT/s", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}
    generation = catalog.pcie_generation_of(link.bandwidth_bytes_per_s, link.lanes)
    if generation is None:
        return None
    return words[generation] if generation == 1 else f"{words[generation]} GT/s PCIe"


def _tag(depth: int, tag: str, said: Mapping[str, object], *, closed: bool) -> str:
    """An opening (or empty) tag; what is None is left out."""
    attributes = "".join(f" {name}={quoteattr(str(value))}" for name, value in said.items() if value is not None)
    return f"{'  ' * depth}<{tag}{attributes}{'/>' if closed else '>'}"
