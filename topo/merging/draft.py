"""A topology while the facts of further captures are worked in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from topo.finding import Finding
from topo.nccl_run import NcclRun
from topo.readers.pci_address import canonical
from topo.topology import Device, Link, LinkKind, LinkState, Provenance, Topology

LinkKey = tuple[str, str, LinkKind]


class Draft:
    """Devices and links that may still change; ids, ranks and order stay those of the topology it began with."""

    def __init__(self, base: Topology) -> None:
        self.findings: list[Finding] = list(base.findings)
        self.nccl: NcclRun | None = base.nccl
        self._base = base
        self._devices = {device.id: device for device in base.devices}
        self._links: dict[LinkKey, Link] = {(link.src, link.dst, link.kind): link for link in base.links}

    def topology(self, provenance: Iterable[Provenance]) -> Topology:
        """What has come of it."""
        return replace(
            self._base,
            devices=tuple(self._devices.values()),
            links=tuple(self._links.values()),
            findings=tuple(dict.fromkeys(self.findings)),
            provenance=tuple(provenance),
            nccl=self.nccl,
        )

    @property
    def kind(self) -> str:
        """The kind of source that the topology was made of."""
        return self._base.provenance[0].kind if self._base.provenance else ""

    def devices(self, *kinds: str) -> tuple[Device, ...]:
        """The devices of these kinds as they are now."""
        return tuple(device for device in self._devices.values() if device.kind in kinds)

    def device(self, device_id: str) -> Device:
        """The device of that id."""
        return self._devices[device_id]

    def gpu(self, index: int) -> Device | None:
        """The GPU that NVML calls by that number."""
        return next((gpu for gpu in self.devices("gpu") if gpu.gpu and gpu.gpu.index == index), None)

    def gpu_at(self, address: str) -> Device | None:
        """The GPU at a PCI address in Linux' form."""
        return next((gpu for gpu in self.devices("gpu") if address_of(gpu) == address), None)

    def put(self, device: Device) -> None:
        """The device, in place of the one of its id."""
        self._devices[device.id] = device

    def links_of(self, device_id: str, *kinds: LinkKind) -> Iterator[Link]:
        """The links of these kinds that leave a device."""
        return (link for link in tuple(self._links.values()) if link.src == device_id and link.kind in kinds)

    def links(self, kind: LinkKind) -> tuple[Link, ...]:
        """All links of one kind."""
        return tuple(link for link in self._links.values() if link.kind == kind)

    def link(self, src: str, dst: str, kind: LinkKind) -> Link | None:
        """The link from one device to the other, as it is now."""
        return self._links.get((src, dst, kind))

    def set_rate(self, link: Link, bytes_per_s: float, lanes: int) -> None:
        """Both directions of a connection at another rate, with that many lanes."""
        for key in ((link.src, link.dst, link.kind), (link.dst, link.src, link.kind)):
            if key in self._links:
                self._links[key] = replace(self._links[key], bandwidth_bytes_per_s=bytes_per_s, lanes=lanes)

    def set_lanes(self, link: Link, lanes: int) -> None:
        """Both directions of a connection with that many lanes of the rate that each has; without any it is down."""
        for key in ((link.src, link.dst, link.kind), (link.dst, link.src, link.kind)):
            known = self._links.get(key)
            if known is not None and known.lanes > lanes:
                state: LinkState = "active" if lanes else "inactive"
                rate = known.bandwidth_bytes_per_s / known.lanes * max(lanes, 1)
                self._links[key] = replace(known, lanes=max(lanes, 1), bandwidth_bytes_per_s=rate, state=state)

    def drop_notes(self, rule: str) -> None:
        """Takes away what was said under a rule: another source has told it."""
        self.findings = [finding for finding in self.findings if finding.rule != rule]


def address_of(device: Device) -> str | None:
    """A device's PCI address in Linux' form."""
    return canonical(device.pci.bus_id) if device.pci and device.pci.bus_id else None
