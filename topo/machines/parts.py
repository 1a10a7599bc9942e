"""What well-known machines are made of: GPUs, NICs, processors and PCIe ports, each as its own PCI function says."""

from __future__ import annotations

from dataclasses import dataclass

GEN3, GEN4, GEN5, GEN6 = "8.0 GT/s PCIe", "16.0 GT/s PCIe", "32.0 GT/s PCIe", "64.0 GT/s PCIe"
"""PCIe speeds in the words of Linux."""


@dataclass(frozen=True, slots=True)
class Port:
    """A PCIe port: its speed as the source words it, and its lanes."""

    speed: str
    width: int = 16


@dataclass(frozen=True, slots=True)
class Processor:
    """One NUMA node's processor as NCCL dumps CPUID, and how many NUMA nodes its socket is divided into.

    NCCL adds AMD's extended family without moving it down, so that family 25 reads 175.
    """

    vendor: str
    family: int
    model: int
    nodes_per_socket: int = 1
    arch: str = "x86_64"


@dataclass(frozen=True, slots=True)
class GpuPart:
    """A GPU by the name that nvidia-smi prints, and its PCI device id; `gdr`: whether NICs may read its memory."""

    name: str
    device_id: str
    device_class: str = "0x030200"
    gdr: bool = True


@dataclass(frozen=True, slots=True)
class NicPart:
    """A network interface: its rate in one direction, its PCI ids, and what NCCL's network plugin says of it.

    `name` and `guid` are those of the first one of a node; the number in the braces, and the guid, count up.
    """

    bytes_per_s: float
    device_id: str
    vendor_id: str = "0x15b3"
    vendor: str | None = "mellanox"
    device_class: str = "0x020700"
    name: str = "mlx5_{}"
    guid: int = 0x1000
    latency_s: float = 0.0
    max_connections: int = 131072
    gdr: bool = True
    collnet: bool | None = None
    first_index: int = 0


@dataclass(frozen=True, slots=True)
class SwitchPart:
    """A PCIe switch: vendor, device and both subsystem ids, by which NCCL knows the parts of one Broadcom chip."""

    vendor_id: str
    device_id: str
    subsystem_vendor_id: str
    subsystem_device_id: str
    vendor: str | None = None


BROADCOM = SwitchPart("0x1000", "0xc030", "0x1000", "0x0001")
NITRO = SwitchPart("0x1d0f", "0x0200", "0x1d0f", "0x0200", vendor="amazon")
UNNAMED_SWITCH = SwitchPart("0x0000", "0x0000", "0x0000", "0x0000")
MASKED_SWITCH = SwitchPart("0xffff", "0xffff", "0xffff", "0xffff")

BROADWELL = Processor("GenuineIntel", 6, 79)
SKYLAKE = Processor("GenuineIntel", 6, 85)
ICE_LAKE = Processor("GenuineIntel", 6, 106)
SAPPHIRE_RAPIDS = Processor("GenuineIntel", 6, 143)
EMERALD_RAPIDS = Processor("GenuineIntel", 6, 207)
ROME_NPS2 = Processor("AuthenticAMD", 23, 49, nodes_per_socket=2)
EPYC = Processor("AuthenticAMD", 175, 1)
EPYC_NPS2 = Processor("AuthenticAMD", 175, 1, nodes_per_socket=2)
EPYC_NPS4 = Processor("AuthenticAMD", 175, 1, nodes_per_socket=4)
GRACE = Processor("ARM", 0, 0, arch="arm64")

V100_SXM = GpuPart("Tesla V100-SXM2-16GB", "0x1db1")
V100_SXM_32GB = GpuPart("Tesla V100-SXM2-32GB", "0x1db5")
V100_PCIE = GpuPart("Tesla V100-PCIE-16GB", "0x1db4")
T4 = GpuPart("Tesla T4", "0x1eb8")
RTX_2080_TI = GpuPart("NVIDIA GeForce RTX 2080 Ti", "0x1e07")
A100_SXM_40GB = GpuPart("NVIDIA A100-SXM4-40GB", "0x20b0")
A100_SXM = GpuPart("NVIDIA A100-SXM4-80GB", "0x20b2")
A100_PCIE = GpuPart("NVIDIA A100 80GB PCIe", "0x20b5")
A40 = GpuPart("NVIDIA A40", "0x2235")
RTX_A6000 = GpuPart("NVIDIA RTX A6000", "0x2230")
L40S = GpuPart("NVIDIA L40S", "0x26b9")
RTX_4070_TI_SUPER = GpuPart("NVIDIA GeForce RTX 4070 Ti SUPER", "0x2705")
H100_SXM = GpuPart("NVIDIA H100 80GB HBM3", "0x2330")
H100_NVL = GpuPart("NVIDIA H100 NVL", "0x2321")
H200_SXM = GpuPart("NVIDIA H200", "0x2335")
GH200 = GpuPart("NVIDIA GH200 120GB", "0x2342")
B200 = GpuPart("NVIDIA B200", "0x2901")
B300 = GpuPart("NVIDIA B300 SXM6 AC", "0x3182")
GB200 = GpuPart("NVIDIA GB200", "0x2941")
GB300 = GpuPart("NVIDIA GB300", "0x31c2")
RTX_PRO_6000 = GpuPart("NVIDIA RTX PRO 6000 Blackwell Server Edition", "0x2bb5")
GB10 = GpuPart("NVIDIA GB10", "0x2e12", device_class="0x030000", gdr=False)

CONNECTX_4 = NicPart(12.5e9, "0x1013")
CONNECTX_5 = NicPart(12.5e9, "0x1017")
CONNECTX_6 = NicPart(25e9, "0x101b")
CONNECTX_6_DX = NicPart(12.5e9, "0x101d")
CONNECTX_7 = NicPart(50e9, "0x1021")
CONNECTX_7_200G = NicPart(25e9, "0x1021")
CONNECTX_8 = NicPart(100e9, "0x1023")
TEN_GIGABIT = NicPart(1.25e9, "0x1015")
SLINGSHOT = NicPart(25e9, "0x0501", vendor_id="0x17db", vendor=None, device_class="0x020000", name="cxi{}")


def efa(bytes_per_s: float, device_id: str, latency_us: float) -> NicPart:
    """Amazon's Elastic Fabric Adapter, with the latency that its plugin states."""
    return NicPart(
        bytes_per_s,
        device_id,
        vendor_id="0x1d0f",
        vendor="amazon",
        device_class="0x020000",
        name="rdmap{}s0",
        latency_s=latency_us * 1e-6,
        max_connections=262144,
    )
