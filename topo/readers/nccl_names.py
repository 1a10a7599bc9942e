"""How the devices of an NCCL topology file are called here.

A GPU is `GPU{dev}` and a NUMA node `CPU{numaid}` as long as those numbers are distinct; otherwise (several hosts,
several ranks on one GPU) `GPU{rank}`, and the place in the document. NICs keep the name the file gives them; PCIe
switches (`SW`), cards (`CARD`) and switches of NVLink (`NVS`) are counted in document order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from topo.readers.xml_tree import Element


class Names:
    """Gives each device of one document an id of its own; `of` holds those that are known before the walk."""

    def __init__(self, root: Element, ranked: Sequence[Element], hosts: Mapping[str, int]) -> None:
        self._taken: set[str] = set()
        self._counts: dict[str, int] = {}
        self.of: dict[Element, str] = {}
        self._name_gpus(ranked)
        self._name_cpus(root.of("cpu"))
        for cpu in root.of("cpu"):
            prefix = f"host{hosts[cpu.attributes.get('host_hash', '')]}/" if len(hosts) > 1 else ""
            for net in (element for element in cpu.walk() if element.tag == "net"):
                name = net.attributes.get("name") or f"net{net.attributes.get('dev', '')}"
                self.of[net] = self.take(prefix + name)

    def take(self, name: str) -> str:
        """That name, or with `#2`, `#3`... behind it where it is taken."""
        chosen, copies = name, 1
        while chosen in self._taken:
            copies += 1
            chosen = f"{name}#{copies}"
        self._taken.add(chosen)
        return chosen

    def count(self, stem: str) -> str:
        """The next of `stem` 0, 1, 2..."""
        number = self._counts.get(stem, 0)
        self._counts[stem] = number + 1
        return self.take(f"{stem}{number}")

    def _name_gpus(self, ranked: Sequence[Element]) -> None:
        by_dev = _distinct([gpu.attributes.get("dev", "") for gpu in ranked])
        for rank, gpu in enumerate(ranked):
            self.of[gpu] = self.take(f"GPU{gpu.attributes['dev'] if by_dev else rank}")

    def _name_cpus(self, cpus: Sequence[Element]) -> None:
        by_numa = _distinct([cpu.attributes.get("numaid", "") for cpu in cpus])
        for place, cpu in enumerate(cpus):
            self.of[cpu] = self.take(f"CPU{cpu.attributes['numaid'] if by_numa else place}")


def _distinct(numbers: Sequence[str]) -> bool:
    """Whether the texts are natural numbers and no two are the same."""
    return len(set(numbers)) == len(numbers) and all(number.isdecimal() for number in numbers)
