"""PCIe links that are narrow or slow, ACS, IOMMU, and NUMA nodes that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from topo.case import Case, say
from topo.finding import Finding, Quote
from topo.merging.draft import address_of
from topo.merging.pcie import PortSaid, said_of, trees

if TYPE_CHECKING:
    from topo.captures import Output
    from topo.readers.lspci_facts import LspciFacts, PciFunction
    from topo.topology import Device

PCIE_WIDTH = "pcie-width"
PCIE_SPEED = "pcie-speed"
PCIE_IDLE = "pcie-idle"
ACS = "acs-redirect"
IOMMU = "iommu"
NUMA = "numa"

_TRANSLATED = ("DMA", "DMA-FQ")
"""Types of IOMMU groups (Linux) in which addresses are translated; identity passes them through."""


# --- links ---


def links(case: Case) -> Iterator[Finding]:
    """Links with fewer lanes than both ends have; slower ones, which GPUs make of theirs while idle."""
    ends = [*case.gpus, *(case.topology.of_kind("nic", "nic_card") if case.topology else ())]
    for device in ends:
        rows = said_of(case.captures, device.gpu.index if device.gpu else None, address_of(device))
        yield from _link(device.name, (device.id,), rows, is_gpu=device.kind == "gpu", case=case)
    if not ends:
        yield from _without_topology(case)


def shows_links(case: Case) -> bool:
    """Whether anything tells how a GPU's link runs, and how it could."""
    rows = [row for _, facts in case.facts("nvidia-smi-query") for row in facts.gpus]
    queried = any(row.pcie_width_current or row.pcie_generation_current for row in rows)
    listed = any(function.current for _, facts in case.facts("lspci") for function in facts.functions)
    return queried or listed or any(gpu.current.width for _, tree in trees(case.captures) for gpu in tree.gpus)


def _without_topology(case: Case) -> Iterator[Finding]:
    for _, facts in case.facts("nvidia-smi-query"):
        for row in facts.gpus:
            rows = said_of(case.captures, row.index, row.address)
            name = f"GPU{row.index}" if row.index is not None else f"the GPU at {row.address}"
            yield from _link(name, (name,), rows, is_gpu=True, case=case)
    for output, facts in case.facts("lspci"):
        for function in facts.functions:
            if (
                function.is_narrowed
                and not function.is_bridge
                and not (function.address and facts.bridges_above(function.address))
            ):
                assert function.current is not None, "narrowed is said of both"
                assert function.capable is not None, "narrowed is said of both"
                sentence = (
                    f"{function.address or 'a function'}: its link has {function.current.width} of its "
                    f"{function.capable.width} lanes; whether its slot has more is not shown"
                )
                yield say(PCIE_WIDTH, "note", sentence, output.quote(function.current.line))


def _link(
    name: str, subjects: tuple[str, ...], rows: tuple[PortSaid, ...], *, is_gpu: bool, case: Case
) -> Iterator[Finding]:
    narrow = next((row for row in rows if row.width and row.best_width and row.width < row.best_width), None)
    if narrow is not None:
        sentence = f"{name}: its PCIe link runs on {narrow.width} of {narrow.best_width} lanes"
        yield say(PCIE_WIDTH, "finding", sentence, narrow.quote(), subjects=subjects)
    slow = next((row for row in rows if _is_slow(row)), None)
    if slow is None:
        return
    ran = f"{name}: its PCIe link runs at generation {slow.generation} of {slow.best_generation}"
    busy = _busy(case, slow)
    if not is_gpu or busy:
        under = " under load" if busy else ""
        yield say(PCIE_SPEED, "finding", f"{ran}{under}", slow.quote(), subjects=subjects)
    else:
        yield say(
            PCIE_IDLE, "note", f"{ran}, as of an idle GPU: read again under load", slow.quote(), subjects=subjects
        )


def _is_slow(row: PortSaid) -> bool:
    return bool(row.generation and row.best_generation and row.generation < row.best_generation)


def _busy(case: Case, row: PortSaid) -> bool:
    """Whether the row of a query says that the GPU worked when it was asked."""
    if row.output.reader.name != "nvidia-smi-query":
        return False
    gpu = next((gpu for gpu in row.output.facts.gpus if gpu.line == row.line), None)
    said = dict(gpu.others) if gpu else {}
    digits = said.get("utilization.gpu", "").removesuffix("%").strip()
    return digits.isdecimal() and int(digits) >= 10


# --- ACS ---


def acs(case: Case) -> Iterator[Finding]:
    """Bridges that send peer-to-peer traffic up to the root, where GPUs or NICs need it to go straight across."""
    for output, facts in case.facts("lspci"):
        bridges = _redirecting(case, facts)
        if not bridges:
            continue
        if not _needs_pcie(case):
            sentence = f"ACS redirects at {_places(bridges)}: of no matter here, since the GPUs meet over NVLink"
            yield say(ACS, "note", sentence, *_acs_quotes(output, bridges))
            continue
        subjects = tuple(gpu.id for gpu in case.gpus)
        sentence = f"ACS redirects peer-to-peer traffic through the root complex at {_places(bridges)}"
        yield say(ACS, "finding", sentence, *_acs_quotes(output, bridges), subjects=subjects)


def _redirecting(case: Case, facts: LspciFacts) -> list[PciFunction]:
    """The bridges above GPUs and NICs whose ACS redirects; in an excerpt without addresses, all that redirect."""
    known = [address for device in case.gpus if (address := address_of(device))] or list(facts.gpus)
    above = {bridge.line for address in known for bridge in facts.bridges_above(address)}
    if above:
        return [function for function in facts.redirecting if function.line in above]
    return [function for function in facts.redirecting if function.is_bridge or not function.kind]


def _needs_pcie(case: Case) -> bool:
    """Whether some GPUs meet over PCIe, or NICs read GPU memory."""
    has_nics = bool(case.topology and case.topology.of_kind("nic"))
    return has_nics or not case.gpus or any(not (letters or "").startswith("NV") for _, _, letters in case.pairs)


def _places(bridges: list[PciFunction]) -> str:
    names = [bridge.address or f"line {bridge.line}" for bridge in bridges]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more bridges" if len(names) > 4 else "")


def _acs_quotes(output: Output, bridges: list[PciFunction]) -> list[Quote]:
    return [output.quote(bridge.acs.line) for bridge in bridges[:3] if bridge.acs]


def shows_acs(case: Case) -> bool:
    """Whether lspci ran with the right to read ACS."""
    return any(function.acs for _, facts in case.facts("lspci") for function in facts.functions)


# --- IOMMU ---


def iommu(case: Case) -> Iterator[Finding]:
    """GPUs whose addresses the IOMMU translates; that it is merely on is noted."""
    for output, tree in trees(case.captures):
        for gpu in tree.gpus:
            group = tree.iommu_group(gpu.address)
            kind = tree.iommu_type(group) if group else None
            if kind in _TRANSLATED:
                quote = output.text.find(rf"iommu_groups/{group}/type")
                sentence = f"the IOMMU translates what the GPU at {gpu.address} sends (group {group} is of type {kind})"
                yield say(IOMMU, "finding" if _needs_pcie(case) else "note", sentence, quote)
                return
    for output, facts in case.facts("lspci"):
        grouped = [function for function in facts.functions if function.iommu_group is not None]
        if grouped:
            quote = output.text.find(r"IOMMU group:\s*\d", after=grouped[0].line)
            yield say(IOMMU, "note", "an IOMMU is on; whether it translates peer-to-peer traffic is not shown", quote)


def shows_iommu(case: Case) -> bool:
    """Whether anything tells of an IOMMU."""
    in_lspci = any(f.iommu_group is not None for _, facts in case.facts("lspci") for f in facts.functions)
    return in_lspci or any(tree.iommu_group(gpu.address) for _, tree in trees(case.captures) for gpu in tree.gpus)


# --- NUMA ---


def numa(case: Case) -> Iterator[Finding]:
    """GPUs that two sources put on different NUMA nodes."""
    for gpu in case.gpus:
        said = list(_numa_of(case, gpu))
        for node, quote in said[1:]:
            if node != said[0][0]:
                sentence = f"{gpu.name} is on NUMA node {said[0][0]} by one source and on {node} by another"
                yield say(NUMA, "finding", sentence, said[0][1], quote, subjects=(gpu.id,))
                break


def _numa_of(case: Case, gpu: Device) -> Iterator[tuple[int, Quote | None]]:
    """The NUMA node that each source states for a GPU."""
    address = address_of(gpu)
    for output, facts in case.facts("nvidia-smi-topo"):
        text = dict(facts.numa).get(gpu.name, "")
        if text.isdecimal():
            yield int(text), output.quote(facts.line(gpu.name))
    for output, facts in case.facts("lspci"):
        function = facts.function(address) if address else None
        if function is not None and function.numa_node is not None:
            yield function.numa_node, output.text.find(r"NUMA node:", after=function.line)
    for output, tree in trees(case.captures):
        found = tree.functions.get(address or "")
        if found is not None and found.numa_node is not None:
            yield found.numa_node, output.text.find(rf"{found.address}/numa_node")


def shows_numa(case: Case) -> bool:
    """Whether two sources state NUMA nodes of GPUs."""
    return any(len(list(_numa_of(case, gpu))) > 1 for gpu in case.gpus)
