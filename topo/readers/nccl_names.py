"""How the devices of an NCCL topology file are called here.

A GPU is `GPU{dev}` as long as those numbers are distinct; otherwise (several hosts, several ranks on one GPU)
`GPU{rank}`. A NUMA node is `numa{numaid}`, and what has no name of its own counts below it: `numa0/switch1`. NICs keep
the name the file gives them. Where there are several hosts, all but GPUs carry theirs in front: `host1/mlx5_0`.
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
        self._name_cpus(root.of("cpu"), hosts)
        for cpu in root.of("cpu"):
            prefix = _host_prefix(cpu, hosts)
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

    def count(self, stem: str, below: str) -> str:
        """The next of `stem` 0, 1, 2... below a NUMA node: "numa0/switch0"."""
        name = f"{below}/{stem}"
        number = self._counts.get(name, 0)
        self._counts[name] = number + 1
        return self.take(f"{name}{number}")

    def _name_gpus(self, ranked: Sequence[Element]) -> None:
        by_dev = _distinct([gpu.attributes.get("dev", "") for gpu in ranked])
        for rank, gpu in enumerate(ranked):
            self.of[gpu] = self.take(f"GPU{gpu.attributes['dev'] if by_dev else rank}")

    def _name_cpus(self, cpus: Sequence[Element], hosts: Mapping[str, int]) -> None:
        """By NUMA id where those of a host are distinct, else by their place on the host."""
        of_host: dict[str, list[Element]] = {}
        for cpu in cpus:
            of_host.setdefault(_host_prefix(cpu, hosts), []).append(cpu)
        for prefix, nodes in of_host.items():
            by_numa = _distinct([cpu.attributes.get("numaid", "") for cpu in nodes])
            for place, cpu in enumerate(nodes):
                self.of[cpu] = self.take(f"{prefix}numa{cpu.attributes['numaid'] if by_numa else place}")


def _host_prefix(cpu: Element, hosts: Mapping[str, int]) -> str:
    """What stands in front of names where there are several hosts: "host1/"."""
    return f"host{hosts[cpu.attributes.get('host_hash', '')]}/" if len(hosts) > 1 else ""


def _distinct(numbers: Sequence[str]) -> bool:
    """Whether the texts are natural numbers and no two are the same."""
    return len(set(numbers)) == len(numbers) and all(number.isdecimal() for number in numbers)
