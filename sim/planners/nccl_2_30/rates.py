"""Link rates as NCCL takes them from the words of its topology file, one direction, in bytes/s (topo.h, topo.cc)."""

from __future__ import annotations

from sim.planners.nccl_2_30 import facts
from sim.planners.nccl_2_30.spec import CpuSpec


def pcie_bytes_per_s(link_speed: str, link_width: int) -> float:
    """One direction of a PCIe link as NCCL reads its words, in bytes/s."""
    units = facts.PCIE_DEFAULT_UNITS
    for prefix, value in facts.PCIE_LANE_UNITS:
        if link_speed.startswith(prefix):
            units = value
            break
    return float(units * (link_width or facts.PCIE_DEFAULT_WIDTH) * facts.PCIE_UNIT_BYTES_PER_S)


def port_of(bytes_per_s: float) -> tuple[str, int] | None:
    """The words and the width of a PCIe link that NCCL counts at this rate, the widest one; None where none is."""
    for width in (16, 8, 4, 2, 1, 32):
        for words, units in facts.PCIE_LANE_UNITS:
            if units * width * facts.PCIE_UNIT_BYTES_PER_S == round(bytes_per_s):
                return words, width
    return None


def nvlink_bytes_per_s(compute_capability: int) -> float:
    """One NVLink of a GPU of that compute capability, one direction, in bytes/s."""
    return next(rate for since, rate in facts.NVLINK_BYTES_PER_S if compute_capability >= since)


def pci_class(device_class: str) -> str:
    """What a PCI function is: bridge, gpu, nic, nvswitch or cpu."""
    return next((kind for prefix, kind in facts.PCI_CLASSES if device_class.startswith(prefix)), "bridge")


def cpu_bytes_per_s(cpu: CpuSpec) -> float:
    """Between this CPU and another of its host, in bytes/s."""
    if cpu.arch == "arm64":
        return facts.ARM_CPU_BYTES_PER_S
    if cpu.arch == "ppc64":
        return facts.POWER_CPU_BYTES_PER_S
    if cpu.arch != "x86_64":
        return cpu.peer_bytes_per_s or facts.LOCAL_BYTES_PER_S
    if cpu.vendor == "GenuineIntel":
        model = cpu.model if cpu.family == 6 else 0
        return next(rate for since, rate in facts.INTEL_CPU_BYTES_PER_S if model >= since)
    if cpu.vendor == "AuthenticAMD":
        return facts.AMD_CPU_BYTES_PER_S
    if cpu.vendor in ("CentaurHauls", "  Shanghai  "):
        yongfeng = cpu.family == 7 and cpu.model == 0x5B
        return facts.YONGFENG_CPU_BYTES_PER_S if yongfeng else facts.ZHAOXIN_CPU_BYTES_PER_S
    return facts.LOCAL_BYTES_PER_S
