"""What a doctor looks at: a machine with all that was captured on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from topo.captures import Captures, Output
from topo.finding import Finding, Quote, Severity
from topo.gpu_models import GpuModel, gpu_model
from topo.merging.draft import address_of
from topo.merging.gpus import KnownGpus, known_gpus, num_gpus
from topo.paths import letters_from
from topo.topology import Device, Link, Topology


@dataclass(frozen=True)
class Case:
    """A machine and its captures; `topology` is None where they tell facts about it, but not how it is built.

    `log` is a log of NCCL that was given beside them: it may be of another machine, which is then a finding.
    """

    topology: Topology | None
    captures: Captures = field(default_factory=Captures)
    log: Output | None = None

    @cached_property
    def gpus(self) -> tuple[Device, ...]:
        """The physical GPUs of a single host; () where there is no topology, or several hosts."""
        if self.topology is None or len({device.host for device in self.topology.devices}) > 1:
            return ()
        gpus = self.topology.of_kind("gpu")
        return tuple(gpu for gpu in gpus if _is_first(gpu, gpus))

    @cached_property
    def known(self) -> KnownGpus:
        """What all outputs say of the GPUs."""
        return known_gpus(self.captures)

    @cached_property
    def logs(self) -> tuple[Output, ...]:
        """All logs of NCCL."""
        return (*self.captures.of("nccl-log"), *([self.log] if self.log else []))

    @cached_property
    def num_gpus(self) -> int | None:
        """How many GPUs the machine has, None where nothing tells."""
        if self.gpus:
            return len(self.gpus)
        counts = (num_gpus(output) for output in self.captures.outputs)
        return next((count for count in counts if count is not None), None)

    @cached_property
    def letters(self) -> dict[tuple[str, str], str | None]:
        """The path letters between every two GPUs, and from each GPU to each NIC, by their ids."""
        if self.topology is None or not self.gpus:
            return {}
        ends = [device.id for device in (*self.gpus, *self.topology.of_kind("nic"))]
        return {
            (gpu.id, other): letters
            for gpu in self.gpus
            for other, letters in letters_from(self.topology, gpu.id, [end for end in ends if end != gpu.id]).items()
        }

    @property
    def pairs(self) -> Iterator[tuple[Device, Device, str | None]]:
        """Every two GPUs, each pair once, with their letters."""
        for place, one in enumerate(self.gpus):
            for other in self.gpus[place + 1 :]:
                yield one, other, self.letters[one.id, other.id]

    def facts(self, form: str) -> Iterator[tuple[Output, Any]]:
        """The outputs in one format, each with its facts."""
        return self.captures.facts(form)

    def gpu(self, index: int | None) -> Device | None:
        """The GPU of that NVML index."""
        return (
            next((gpu for gpu in self.gpus if gpu.gpu and gpu.gpu.index == index), None) if index is not None else None
        )

    def model(self, index: int | None, name: str | None = None) -> GpuModel | None:
        """The product of a GPU: by the name that stands beside it, else by what other outputs call it."""
        if name and (own := gpu_model(name)) is not None:
            return own
        found = self.known.find(index, None)
        if found is not None and found.model is not None:
            return found.model
        device = self.gpu(index)
        return gpu_model(device.model) if device is not None and device.model else None

    def model_of(self, device: Device) -> GpuModel | None:
        """The product of a GPU of the topology."""
        return self.model(device.gpu.index if device.gpu else None, device.model)

    def name_quote(self, device: Device) -> Quote | None:
        """The line that names a GPU's product."""
        found = self.known.find(device.gpu.index if device.gpu else None, address_of(device))
        return next((word.quote() for word in found.words if word.model), None) if found else None

    def quote(self, device: Device) -> Quote:
        """The line in which the topology's own source shows a device."""
        for output in self.captures.of("nvidia-smi-topo"):
            line = output.facts.line(device.label or device.id)
            if line is not None:
                return output.quote(line)
        address = address_of(device)
        for output in self.captures.of("nccl-xml", "topology-json", "hwloc-xml", "lstopo"):
            own = output.text.find(f"(?i){address}") if address else None
            if own is not None:
                return own
        return Quote(self.topology.name if self.topology else "", None, device.name)

    def nvlinks(self, device: Device) -> tuple[Link, ...]:
        """The active NVLinks that leave a GPU."""
        links = self.topology.adjacency[device.id] if self.topology else ()
        return tuple(link for link in links if link.kind == "nvlink")

    @property
    def shows_nvlinks(self) -> bool:
        """Whether the topology's source would show NVLinks, if there were any."""
        kinds = {source.kind for source in self.topology.provenance} if self.topology else set()
        return bool(kinds & {"nvidia-smi topo -m", "NCCL topology XML", "preset"}) or any(map(self.nvlinks, self.gpus))


def _is_first(gpu: Device, gpus: Sequence[Device]) -> bool:
    """Whether no GPU before it stands at the same address: several ranks may share one."""
    return address_of(gpu) is None or next(one for one in gpus if address_of(one) == address_of(gpu)) is gpu


def say(rule: str, severity: Severity, sentence: str, *quotes: Quote | None, subjects: tuple[str, ...] = ()) -> Finding:
    """A finding or note, with each quote once."""
    return Finding(rule, severity, sentence, tuple(dict.fromkeys(quote for quote in quotes if quote)), subjects)
