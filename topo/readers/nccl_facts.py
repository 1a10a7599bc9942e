"""What the attributes of NCCL's XML elements say, as facts of a device; units are converted here and nowhere else."""

from __future__ import annotations

import math
import re

from topo import catalog
from topo.errors import CaptureError, UnitError
from topo.readers.xml_tree import Element
from topo.topology import CpuFacts, GpuFacts, NicFacts, PciFacts

DEFAULT_WIDTH = 16
DEFAULT_NET_MBIT_PER_S = 10_000
"""What NCCL assumes where link_width or a net's speed is empty or zero."""

GPU_CLASSES = ("0x03", "0x12")
NIC_CLASS = "0x02"
NVSWITCH_CLASS = "0x068000"
IBM_BRIDGE_CLASS = "0x068001"
"""PCI classes, matched as prefixes: display and processing accelerators, network, NVSwitch, IBM's NVLink bridge."""

VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x15b3": "mellanox", "0x1d0f": "amazon", "0x8086": "intel"}

GCN_TO_ARCHITECTURE = {"910": "gfx90a"}
"""RCCL writes AMD's architecture as a number; this one is not the name's own digits."""


def is_gpu_class(device_class: str | None) -> bool:
    """Whether a PCI class ("0x030200") is a GPU's."""
    return (device_class or "").startswith(GPU_CLASSES)


def optional_whole(element: Element, name: str, source: str) -> int | None:
    """The attribute as a whole number (decimal, or hexadecimal after 0x), None where it is absent or empty."""
    text = element.attributes.get(name, "").strip()
    if not text:
        return None
    try:
        return int(text, 16) if text.lower().startswith("0x") else int(text)
    except ValueError:
        raise CaptureError(
            f'<{element.tag} {name}="{text}">: expected a whole number', source=source, line=element.line
        ) from None


def whole_number(element: Element, name: str, source: str) -> int:
    """The attribute as a whole number; CaptureError where it is absent."""
    number = optional_whole(element, name, source)
    if number is None:
        raise CaptureError(f"<{element.tag}> lacks {name}=: expected a whole number", source=source, line=element.line)
    return number


def optional_real(element: Element, name: str, source: str) -> float | None:
    """The attribute as a finite number that is not negative, None where it is absent or empty."""
    text = element.attributes.get(name, "").strip()
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise CaptureError(
            f'<{element.tag} {name}="{text}">: expected a number, 0 or more', source=source, line=element.line
        )
    return number


def optional_flag(element: Element, name: str, source: str) -> bool | None:
    """The attribute as yes or no: 0 is no, any other whole number yes, None where it is absent."""
    number = optional_whole(element, name, source)
    return None if number is None else bool(number)


def bus_number(bus_id: str) -> int | None:
    """A PCI bus id as one number, as NCCL compares them ("0000:1B:00.0" equals "1b:00.0"); None if it is none."""
    digits = bus_id.replace(":", "").replace(".", "")
    return int(digits, 16) if re.fullmatch(r"[0-9a-fA-F]{1,32}", digits) else None


def pci_facts(element: Element, source: str) -> PciFacts:
    """What a <pci> says of itself, verbatim; CaptureError where it has no readable bus id."""
    said = element.attributes
    if bus_number(said.get("busid", "")) is None:
        raise CaptureError(
            f'<pci busid="{said.get("busid", "")}">: expected domain:bus:device.function in hexadecimal',
            source=source,
            line=element.line,
        )
    return PciFacts(
        bus_id=said["busid"],
        device_class=said.get("class"),
        vendor_id=said.get("vendor"),
        device_id=said.get("device"),
        subsystem_vendor_id=said.get("subsystem_vendor"),
        subsystem_device_id=said.get("subsystem_device"),
        link_speed=said.get("link_speed"),
        link_width=said.get("link_width"),
    )


def pcie_generation(link_speed: str | None) -> int | None:
    """The PCIe generation of words such as "16.0 GT/s PCIe"; None where they name no known speed."""
    try:
        return catalog.pcie_generation(link_speed or "")
    except UnitError:
        return None


def pcie_width(link_width: str | None) -> int | None:
    """The number of lanes of words such as "16"; None where they name none (empty and 0 included)."""
    return int(link_width) if link_width and link_width.isdecimal() and 1 <= int(link_width) <= 32 else None


def amd_architecture(element: Element) -> str | None:
    """AMD's architecture name of a <gpu> (`gfx90a`), from RCCL's `gcn`; None for other vendors."""
    gcn = element.attributes.get("gcn")
    return GCN_TO_ARCHITECTURE.get(gcn, f"gfx{gcn.removeprefix('gfx')}") if gcn else None


def gpu_facts(element: Element, source: str) -> GpuFacts:
    """What a <gpu> says of itself; AMD's `sm` is no CUDA compute capability and is left out."""
    is_amd = "gcn" in element.attributes
    return GpuFacts(
        index=optional_whole(element, "dev", source),
        compute_capability=None if is_amd else optional_whole(element, "sm", source),
        rank=optional_whole(element, "rank", source),
        gdr=optional_flag(element, "gdr", source),
        mlopart=optional_whole(element, "mlopart", source),
    )


def cpu_facts(element: Element, source: str) -> CpuFacts:
    """What a <cpu> says of its processor."""
    said = element.attributes
    return CpuFacts(
        arch=said.get("arch"),
        family=optional_whole(element, "familyid", source),
        model=optional_whole(element, "modelid", source),
        affinity=said.get("affinity"),
        host_hash=said.get("host_hash"),
    )


def nic_facts(element: Element, source: str) -> NicFacts:
    """What a <net> says of itself: speed (Mb/s in the file) in bytes per second, latency (us in the file) in s."""
    mbit_per_s = optional_whole(element, "speed", source)
    if mbit_per_s is None or mbit_per_s <= 0:
        mbit_per_s = DEFAULT_NET_MBIT_PER_S
    latency_us = optional_real(element, "latency", source)
    return NicFacts(
        index=optional_whole(element, "dev", source),
        bandwidth_bytes_per_s=mbit_per_s * 1e6 / 8,
        latency_s=None if latency_us is None else latency_us * 1e-6,
        port=optional_whole(element, "port", source),
        guid=element.attributes.get("guid"),
        max_connections=optional_whole(element, "maxconn", source),
        gdr=optional_flag(element, "gdr", source),
        collnet=optional_flag(element, "coll", source),
        rail=optional_whole(element, "rail", source),
        plane=optional_whole(element, "plane", source),
    )
