"""Facts that readers found -> Topology, with a finding for all that the source left open.

A path matrix shows neither models nor rates. What is assumed is said in `findings`: the GPU generation that NV# points
to, PCIe x16 of that generation (else generation 4) at every link, and what joins NUMA nodes. The port from a host
bridge to its NUMA node carries what all its devices can send, so that nothing the source does not show limits a path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import combinations, pairwise

from topo import catalog
from topo.catalog import PCIE_WIDTH
from topo.gpu_models import GpuModel
from topo.matrix_notes import Understood, all_notes, stated
from topo.nvlink_groups import nvlink_groups
from topo.pcie_tree import Bridge, Node, Switch, smallest_tree
from topo.readers.nvidia_smi_topo import MatrixFacts
from topo.topology import CpuFacts, Device, GpuFacts, Link, LinkKind, NicFacts, Provenance, Topology

KIND = "nvidia-smi topo -m"
DEFAULT_GENERATION = 4
NVSWITCH_ID = "NVS"

_PCIE_OF_CAPABILITY = {60: 3, 70: 3, 75: 3, 80: 4, 86: 4, 90: 5, 100: 5}
"""PCIe generation of data-centre GPUs by compute capability (their data sheets)."""


def from_matrix(facts: MatrixFacts, models: Mapping[str, GpuModel] | None = None) -> Topology:
    """The topology of a path matrix: NVLinks as its NV# say, and the smallest PCIe tree that explains the rest.

    `topo.writers.matrix` of the result gives the same letters back. Ids are the matrix's labels, `numa0`,
    `numa0/bridge0`, `numa0/switch0`, `NVS0`; pairs that the text does not show are `hidden_pairs`. `models` are the
    products of the GPUs by label, as far as another source names them: they set rates that are assumed without.
    """
    return _Merge(facts, models or {}).topology()


class _Merge:
    """Builds devices and links in order; each method adds one kind of thing."""

    def __init__(self, facts: MatrixFacts, models: Mapping[str, GpuModel]) -> None:
        self._facts = facts
        self._models = models
        self._numa = dict(facts.numa)
        self._cpu_list = dict(facts.cpu_affinity)
        self._memory_nodes = {name: int(text) for name, text in facts.gpu_numa_id if text.isdigit()}
        self._tree = smallest_tree(facts.names, facts.pcie_letters, self._places())
        self._groups = nvlink_groups(
            facts.gpus,
            self._nvlink_counts(),
            own_cpu_memory=any(self._shares_memory(node) for node in self._tree.nodes),
            capabilities={name: model.compute_capability for name, model in models.items()},
        )
        self._generation = self._pcie_generation()
        self._pcie_bytes_per_s = catalog.pcie_bytes_per_s(self._generation, PCIE_WIDTH)
        self._devices: list[Device] = []
        self._links: list[Link] = []
        self._node_of: dict[str, tuple[str, int | None]] = {}

    def topology(self) -> Topology:
        node_ids = self._node_ids()
        parts: list[Device] = []
        for node_id, node in zip(node_ids, self._tree.nodes, strict=True):
            parts.extend(self._add_node(node_id, node))
        for one, other in combinations(node_ids, 2):
            self._join(one, other, "cpu", catalog.cpu_link_bytes_per_s(None, None, None))
        parts.extend(self._add_shortcuts())
        parts.extend(self._add_nvlinks())
        ends = [self._gpu(name) if name in self._facts.gpus else self._nic(name) for name in self._facts.names]
        return Topology(
            devices=tuple(ends + parts),
            links=tuple(self._links),
            gpu_ids=self._facts.gpus,
            provenance=(Provenance(KIND, self._facts.source),),
            complete=self._facts.complete,
            findings=all_notes(self._understood()),
            hidden_pairs=tuple(pair for pair, letters in self._facts.cells if letters is None),
        )

    def _understood(self) -> Understood:
        places = {name: node_id for name, (node_id, _) in self._node_of.items()}
        numbers = {name: number for name in self._facts.names if (number := self._numa_number(name)) is not None}
        placed = frozenset(self._places())
        return Understood(
            self._facts, self._tree, self._groups, places, numbers, placed, tuple(self._memory_nodes), self._generation
        )

    # --- what the facts say of places ---

    def _places(self) -> dict[str, tuple[str | None, str | None]]:
        """NUMA node and CPU list of each device that states one: what decides where letters do not."""
        known = {}
        for name in self._facts.names:
            numa, cpus = (stated(column.get(name)) for column in (self._numa, self._cpu_list))
            if numa or cpus:
                # The CPU list alone tells nodes apart where there is no NUMA column; beside one it may be cut.
                known[name] = (numa, None if numa else cpus)
        return known

    def _numa_number(self, name: str) -> int | None:
        """The NUMA node of a device's CPU. A list names it first where the others are GPU memory, else it is none."""
        text = self._numa.get(name, "")
        if text.isdigit():
            return int(text)
        return int(text.split(",")[0]) if name in self._memory_nodes and re.match(r"\d+,", text) else None

    def _node_ids(self) -> list[str]:
        """`numa0` by the number that the node's devices state, `numa0+1` where they differ, `cpu0` where none does."""
        ids: list[str] = []
        for place, node in enumerate(self._tree.nodes):
            numbers = sorted({n for name in node.all_devices() if (n := self._numa_number(name)) is not None})
            stem = "numa" + "+".join(map(str, numbers)) if numbers else f"cpu{place}"
            number = numbers[0] if len(numbers) == 1 else None
            twins = sum(taken.split(".")[0] == stem for taken in ids)
            ids.append(f"{stem}.{twins}" if twins else stem)
            self._node_of.update(dict.fromkeys(node.all_devices(), (ids[-1], number)))
        return ids

    # --- PCIe ---

    def _add_node(self, node_id: str, node: Node) -> list[Device]:
        members = node.all_devices()
        lists = {text for name in members if (text := self._cpu_list.get(name)) is not None}
        facts = CpuFacts(affinity=next(iter(lists)) if len(lists) == 1 else None)
        devices = [Device(node_id, "cpu", numa_node=self._node_of[members[0]][1], cpu=facts)]
        num_switches = 0
        for number, bridge in enumerate(node.bridges):
            if self._is_coherent(bridge, members):
                for name in bridge.devices:
                    self._join(name, node_id, "c2c", catalog.c2c_bytes_per_s(self._capability(name)))
                continue
            bridge_id = f"{node_id}/bridge{number}"
            devices.append(Device(bridge_id, "host_bridge", numa_node=devices[0].numa_node))
            ports = len(bridge.devices) + len(bridge.switches)
            self._join(bridge_id, node_id, "pcie", ports * self._pcie_bytes_per_s, ports * PCIE_WIDTH)
            self._plug(bridge.devices, bridge_id)
            for switch in bridge.switches:
                added = self._add_switch(switch, bridge_id, node_id, num_switches)
                num_switches += len(added)
                devices.extend(added)
        return devices

    def _add_switch(self, switch: Switch, above: str, node_id: str, number: int) -> list[Device]:
        switch_id = f"{node_id}/switch{number}"
        devices = [Device(switch_id, "pcie_switch", numa_node=self._node_of[switch.all_devices()[0]][1])]
        self._plug((switch_id,), above)
        self._plug(switch.devices, switch_id)
        for below in switch.below:
            devices.extend(self._add_switch(below, switch_id, node_id, number + len(devices)))
        return devices

    def _is_coherent(self, bridge: Bridge, members: Iterable[str]) -> bool:
        """Whether the bridge stands for GPUs that are NUMA nodes of their CPU: their way to it is C2C, no PCIe port.

        Not where letters put such a GPU on a host bridge of its own beside other devices of the node (NODE).
        """
        if bridge.switches or not all(name in self._memory_nodes for name in bridge.devices):
            return False
        return not any(self._facts.letters(name, other) == "NODE" for name in bridge.devices for other in members)

    def _add_shortcuts(self) -> list[Device]:
        """Parts of their own for each pair that no tree holds: what its letters say lies between the two."""
        devices: list[Device] = []
        for number, shortcut in enumerate(self._tree.shortcuts):
            stem = f"odd{number}"
            between = {
                "PIX": [Device(f"{stem}/switch0", "pcie_switch")],
                "PXB": [Device(f"{stem}/switch0", "pcie_switch"), Device(f"{stem}/switch1", "pcie_switch")],
                "PHB": [Device(f"{stem}/bridge0", "host_bridge")],
                "NODE": [
                    Device(f"{stem}/bridge0", "host_bridge"),
                    Device(f"{stem}/cpu", "cpu"),
                    Device(f"{stem}/bridge1", "host_bridge"),
                ],
            }[shortcut.letters]
            chain = [shortcut.one, *(device.id for device in between), shortcut.other]
            for one, other in pairwise(chain):
                self._plug((one,), other)
            devices.extend(between)
        return devices

    def _plug(self, device_ids: Iterable[str], into: str) -> None:
        for device_id in device_ids:
            self._join(device_id, into, "pcie", self._pcie_bytes_per_s, PCIE_WIDTH)

    def _join(self, one: str, other: str, kind: LinkKind, bytes_per_s: float, lanes: int = 1) -> None:
        self._links.append(Link(one, other, kind, bytes_per_s, lanes))
        self._links.append(Link(other, one, kind, bytes_per_s, lanes))

    # --- NVLink ---

    def _nvlink_counts(self) -> dict[tuple[str, str], int]:
        return {pair: int(found[2:]) for pair, found in self._facts.cells if found and found.startswith("NV")}

    def _add_nvlinks(self) -> list[Device]:
        switches: list[Device] = []
        for group in self._groups:
            per_link = catalog.nvlink_bytes_per_s(group.compute_capability)
            for one, other, count in group.pairs:
                self._join(one, other, "nvlink", count * per_link, count)
            if group.lanes:
                switches.append(Device(f"{NVSWITCH_ID}{len(switches)}", "nvswitch", vendor="nvidia"))
                for gpu, count in group.lanes:
                    self._join(gpu, switches[-1].id, "nvlink", count * per_link, count)
        return switches

    def _capability(self, gpu: str) -> int | None:
        return next((group.compute_capability for group in self._groups if gpu in group.gpus), None)

    def _shares_memory(self, node: Node) -> bool:
        return sum(name in self._memory_nodes for name in node.all_devices()) > 1

    def _pcie_generation(self) -> int:
        if self._models:
            return min(model.pcie_generation for model in self._models.values())
        known = [group.compute_capability for group in self._groups if group.compute_capability]
        return _PCIE_OF_CAPABILITY.get(max(known, default=0), DEFAULT_GENERATION)

    # --- ends ---

    def _gpu(self, name: str) -> Device:
        number = int(name.removeprefix("GPU"))
        numa = self._numa_number(name)
        model = self._models.get(name)
        facts = GpuFacts(index=number, compute_capability=model.compute_capability if model else None)
        return Device(name, "gpu", vendor="nvidia", numa_node=numa, label=name, gpu=facts)

    def _nic(self, name: str) -> Device:
        os_name = dict(self._facts.nic_legend).get(name)
        facts = NicFacts(index=self._facts.nics.index(name), os_name=os_name)
        return Device(name, "nic", numa_node=self._node_of[name][1], label=name, nic=facts)
