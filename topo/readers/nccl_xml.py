"""NCCL's topology XML (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE; RCCL's version 2 too) as a topology.

Devices stand in document order and each one's link upwards comes before the link back, so that NCCL's own system
graph, whose ties are broken by that order, can be built again from what is returned.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from topo.errors import CaptureError
from topo.finding import notes
from topo.readers.nccl_facts import is_gpu_class, whole_number
from topo.readers.nccl_names import Names
from topo.readers.nccl_walk import Walk
from topo.readers.xml_tree import Element, parse
from topo.topology import Provenance, Topology

FORMAT = "NCCL topology XML"

PARENTS: Mapping[str, tuple[str, ...]] = {
    "cpu": ("system",),
    "pci": ("cpu", "pci"),
    "gpu": ("pci",),
    "nic": ("pci", "cpu"),
    "net": ("nic",),
    "nvlink": ("gpu",),
    "xgmi": ("gpu",),
    "c2c": ("gpu",),
    "pcilink": ("pci",),
}
"""Which elements may stand where; a file with others describes something else and is refused."""

VERSIONS = ("1", "2")
"""NCCL writes version 1, RCCL (AMD) version 2."""

_ROOT = re.compile(r"<system[\s>/]")
_BEFORE_ROOT = re.compile(r"(?:<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?>|\s+)*", re.DOTALL)


def sniff(text: str) -> bool:
    """Whether the text opens like a topology file: its first element is `system`."""
    body = text.removeprefix("\ufeff")
    opening = _BEFORE_ROOT.match(body)
    return opening is not None and _ROOT.match(body, opening.end()) is not None


def read(text: str, source: str = "") -> Topology:
    """The topology that the text describes; `source` (a file's name) stands in errors and provenance.

    Raises CaptureError with file and line where the text is cut off or is no topology of NCCL's. A file without a
    single <gpu> is a skeleton: its PCI functions of a GPU's class become GPUs of unknown kind, and `complete` is
    False, since nothing is known of their NVLinks.
    """
    root = parse(text, source)
    _check_vocabulary(root, source)
    gpus = [element for element in root.walk() if element.tag == "gpu"]
    skeleton = not gpus
    hosts = _number_hosts(root)
    ranked = _bare_gpus(root) if skeleton else _rank_order(root, hosts, source)
    walk = Walk(Names(root, ranked, hosts), hosts, source)
    for cpu in root.of("cpu"):
        walk.add_cpu(cpu)
    walk.add_gpu_links()
    walk.join_cpus()
    if skeleton:
        remark = "the file names no <gpu>: its GPUs are known by PCI class alone, and their NVLinks are unknown"
        walk.findings.extend(notes([remark]))
    return Topology(
        devices=tuple(walk.devices),
        links=tuple(walk.links.values()),
        gpu_ids=tuple(walk.names.of[gpu] for gpu in ranked),
        name=root.attributes.get("name", ""),
        provenance=(Provenance(FORMAT, source),),
        complete=not skeleton,
        findings=walk.all_findings(),
    )


def _check_vocabulary(root: Element, source: str) -> None:
    """The root is a system of a known version, every element stands where NCCL puts it, and there is a cpu."""
    if root.tag != "system":
        raise CaptureError(f"the root is <{root.tag}>, expected <system>", source=source, line=root.line)
    version = root.attributes.get("version", "1")
    if version not in VERSIONS:
        raise CaptureError(
            f'<system version="{version}">: known are versions {" and ".join(VERSIONS)}', source=source, line=root.line
        )
    for element in root.walk():
        for child in element.children:
            if element.tag not in PARENTS.get(child.tag, ()):
                allowed = ", ".join(f"<{tag}>" for tag, parents in PARENTS.items() if element.tag in parents)
                raise CaptureError(
                    f"<{child.tag}> inside <{element.tag}>, where NCCL's topology has only {allowed or 'nothing'}: "
                    "this file is of another format",
                    source=source,
                    line=child.line,
                )
    if not root.of("cpu"):
        raise CaptureError("the file holds no <cpu>: nothing to read", source=source, line=root.line)


def _number_hosts(root: Element) -> dict[str, int]:
    """Each host hash with its number, in order of first appearance."""
    hosts: dict[str, int] = {}
    for cpu in root.of("cpu"):
        hosts.setdefault(cpu.attributes.get("host_hash", ""), len(hosts))
    return hosts


def _bare_gpus(root: Element) -> list[Element]:
    return [e for e in root.walk() if e.tag == "pci" and not e.of("nic") and is_gpu_class(e.attributes.get("class"))]


def _rank_order(root: Element, hosts: Mapping[str, int], source: str) -> list[Element]:
    """The gpu elements that take part: by rank where any has one, else by host and dev, else as they stand."""
    placed = [
        (hosts[cpu.attributes.get("host_hash", "")], gpu)
        for cpu in root.of("cpu")
        for gpu in cpu.walk()
        if gpu.tag == "gpu"
    ]
    gpus = [gpu for _, gpu in placed]
    if any("rank" in gpu.attributes for gpu in gpus):
        return _by_rank([gpu for gpu in gpus if "rank" in gpu.attributes], source)
    if all("dev" in gpu.attributes for gpu in gpus):
        placed.sort(key=lambda pair: (pair[0], whole_number(pair[1], "dev", source)))
    return [gpu for _, gpu in placed]


def _by_rank(gpus: Sequence[Element], source: str) -> list[Element]:
    at_rank: dict[int, Element] = {}
    for gpu in gpus:
        rank = whole_number(gpu, "rank", source)
        if rank in at_rank:
            raise CaptureError(
                f"two <gpu> have rank {rank} (the other on line {at_rank[rank].line}): each rank is one GPU",
                source=source,
                line=gpu.line,
            )
        at_rank[rank] = gpu
    return [at_rank[rank] for rank in sorted(at_rank)]
