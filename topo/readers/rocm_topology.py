"""rocm-smi's tables -> Topology: XGMI links at the catalog's rates, PCIe for all else, a finding per assumption."""

from __future__ import annotations

from itertools import combinations

from topo import catalog
from topo.catalog import PCIE_WIDTH
from topo.errors import CaptureError
from topo.finding import notes
from topo.gpu_models import amd_architecture
from topo.merge import DEFAULT_GENERATION
from topo.readers.rocm_facts import UNKNOWN_TYPE, Pair, RocmFacts, RocmGpu
from topo.topology import Device, GpuFacts, Link, LinkKind, PciFacts, Provenance, Topology

KIND = "rocm-smi --showtopo"

_SEVEN_LINKS = "gfx942"
"""What a GPU with seven XGMI neighbours is taken for: no product before MI300X has so many links."""


_PCIE_OF_ARCHITECTURE = {"gfx906": 4, "gfx908": 4, "gfx90a": 4, "gfx942": 5, "gfx950": 5}
"""PCIe generation by architecture (AMD's data sheets)."""


def to_topology(facts: RocmFacts) -> Topology:
    """The topology of rocm-smi's tables: one XGMI link per pair of direct neighbours, and a PCIe port per GPU.

    Ids are the labels (`GPU0`), `numa0` and `numa0/bridge0`; pairs of unknown type are `hidden_pairs`. CaptureError
    where the text holds no link types.
    """
    if len(facts.gpus) > 1 and facts.table("type") is None:
        raise CaptureError(
            f"no link types between the GPUs: give the whole output of {KIND}, not only weights or hops",
            source=facts.source,
            line=facts.tables[0].line if facts.tables else None,
        )
    return _Machine(facts).topology()


class _Machine:
    """Builds devices and links in order; each method adds one kind of thing."""

    def __init__(self, facts: RocmFacts) -> None:
        self._facts = facts
        self._links: list[Link] = []
        self._direct = tuple(pair for pair in facts.pairs if self._is_direct(pair))
        self._architecture, self._architecture_words = self._find_architecture()
        self._generation, self._generation_words = self._find_generation()

    def topology(self) -> Topology:
        """All devices and links, with what is assumed of them."""
        places: dict[str, list[RocmGpu]] = {}
        for gpu in sorted(self._facts.gpus, key=lambda gpu: (_node(gpu) is None, _node(gpu) or 0)):
            places.setdefault("cpu0" if _node(gpu) is None else f"numa{_node(gpu)}", []).append(gpu)
        parts = [device for node_id, gpus in places.items() for device in self._add_node(node_id, gpus)]
        for one, other in combinations(places, 2):
            self._join(one, other, "cpu", catalog.cpu_link_bytes_per_s(None, None, None))
        for pair in self._direct:
            lanes = self._lanes(pair)
            self._join(*pair, "xgmi", lanes * catalog.xgmi_bytes_per_s(self._architecture), lanes)
        return Topology(
            devices=(*(self._gpu(gpu) for gpu in self._facts.gpus), *parts),
            links=tuple(self._links),
            gpu_ids=tuple(gpu.label for gpu in self._facts.gpus),
            provenance=(Provenance(KIND, self._facts.source),),
            complete=self._facts.complete,
            findings=notes(self._findings(len(places))),
            hidden_pairs=tuple(pair for pair in self._facts.pairs if self._type(pair) in (None, UNKNOWN_TYPE)),
        )

    def _gpu(self, gpu: RocmGpu) -> Device:
        pci = PciFacts(bus_id=gpu.address) if gpu.address else None
        return Device(
            gpu.label,
            "gpu",
            vendor="amd",
            numa_node=_node(gpu),
            label=gpu.label,
            model=gpu.name,
            pci=pci,
            gpu=GpuFacts(index=gpu.number),
        )

    def _add_node(self, node_id: str, gpus: list[RocmGpu]) -> list[Device]:
        """A NUMA node with its GPUs on one host bridge, whose port carries what all of them can send."""
        bridge_id, number = f"{node_id}/bridge0", _node(gpus[0])
        rate = catalog.pcie_bytes_per_s(self._generation, PCIE_WIDTH)
        self._join(bridge_id, node_id, "pcie", len(gpus) * rate, len(gpus) * PCIE_WIDTH)
        for gpu in gpus:
            self._join(gpu.label, bridge_id, "pcie", rate, PCIE_WIDTH)
        return [Device(node_id, "cpu", numa_node=number), Device(bridge_id, "host_bridge", numa_node=number)]

    def _join(self, one: str, other: str, kind: LinkKind, bytes_per_s: float, lanes: int = 1) -> None:
        self._links.append(Link(one, other, kind, bytes_per_s, lanes))
        self._links.append(Link(other, one, kind, bytes_per_s, lanes))

    # --- what the tables say of a pair ---

    def _type(self, pair: Pair) -> str | None:
        return self._facts.cell("type", *pair)

    def _is_direct(self, pair: Pair) -> bool:
        """Whether XGMI joins the two without another GPU between: one hop, or no word on hops."""
        return self._type(pair) == "XGMI" and self._facts.cell("hops", *pair) in (None, "1")

    def _lanes(self, pair: Pair) -> int:
        """How many XGMI links join the two: their bandwidth by that of one, where the text has bandwidths."""
        words = (self._facts.cell("bandwidth", *pair) or "").rpartition("-")[2]
        bytes_per_s = int(words) * 1e6 if words.isdigit() else 0.0
        return max(1, round(bytes_per_s / catalog.xgmi_bytes_per_s(self._architecture)))

    # --- what is assumed ---

    def _find_architecture(self) -> tuple[str | None, str]:
        """The architecture that sets the rate of XGMI, and a sentence where it is assumed."""
        for gpu in self._facts.gpus:
            named = amd_architecture(gpu.name or "")
            if gpu.architecture or named:
                return gpu.architecture or named, ""
        neighbours = max((sum(gpu.label in pair for pair in self._direct) for gpu in self._facts.gpus), default=0)
        assumed = _SEVEN_LINKS if neighbours >= 7 else None
        rate = catalog.xgmi_bytes_per_s(assumed) / 1e9
        reason = "with seven neighbours each GPU is taken for an MI300X" if assumed else "MI200's rate is assumed"
        return assumed, f"which GPUs these are is not shown: {reason}, {rate:g} GB/s per XGMI link and direction"

    def _find_generation(self) -> tuple[int, str]:
        """The PCIe generation, and a sentence where it is assumed."""
        models = [catalog.gpu_model(gpu.name) for gpu in self._facts.gpus if gpu.name]
        known = min((model.pcie_generation for model in models if model), default=None)
        generation = known or _PCIE_OF_ARCHITECTURE.get(self._architecture or "", DEFAULT_GENERATION)
        return generation, f"PCIe rates are not shown: generation {generation} x{PCIE_WIDTH} is assumed at every link"

    def _findings(self, num_nodes: int) -> list[str]:
        found = [f"rocm-smi says in line {note.line}: {note.words}" for note in self._facts.notes]
        indirect = [pair for pair in self._facts.pairs if self._type(pair) == "XGMI" and pair not in self._direct]
        if indirect:
            found.append(
                f"{len(indirect)} pairs reach each other over XGMI through other GPUs ({'-'.join(indirect[0])} ...): "
                "no link of their own"
            )
        torn = [gpu.label for gpu in self._facts.gpus if _nodes_differ(gpu)]
        if torn:
            found.append(f"{', '.join(torn)}: NUMA node and affinity differ, the affinity is taken")
        if any(_node(gpu) is None for gpu in self._facts.gpus):
            found.append("NUMA nodes of some GPUs are not shown: those GPUs are placed together")
        if self._direct:
            found += [self._architecture_words] if self._architecture_words else []
            if self._facts.table("bandwidth") is None:
                found.append("how many XGMI links join two GPUs is not shown: one per pair is assumed")
        found.append(self._generation_words)
        found.append("PCIe switches are not shown: the GPUs of a NUMA node are placed on one host bridge")
        if num_nodes > 1:
            found.append("what joins the NUMA nodes is not shown: the catalog's unknown processor is assumed")
        return found


def _node(gpu: RocmGpu) -> int | None:
    """The NUMA node: as Linux says of the PCI device, which is what RCCL goes by, else as the driver says."""
    return gpu.numa_node if gpu.numa_affinity is None else gpu.numa_affinity


def _nodes_differ(gpu: RocmGpu) -> bool:
    return None not in (gpu.numa_node, gpu.numa_affinity) and gpu.numa_node != gpu.numa_affinity
