"""The table of hardware facts by vendor and generation, each row with its source. All rates are one direction, bytes/s.

Nominal and effective rates are two different things. A *nominal* rate is what a data sheet or a signalling standard
gives (`nvlink_bytes_per_s`); it is what a `Link` carries. An *effective* rate is what NCCL's own tables assume a
collective can get (`nvlink_effective_bytes_per_s`); it is what a planner that repeats NCCL's choices needs. NCCL's
figures are those of NCCL 2.30, src/graph/topo.h and topo.cc. What a machine really reaches is a calibrated profile's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from topo.errors import NameChoiceError, TopologyError, UnitError
from topo.gpu_models import GpuModel, gpu_model

__all__ = [
    "DEFAULT_NVLINK_BYTES_PER_S",
    "DEFAULT_PCIE_GENERATION",
    "LOOPBACK_BYTES_PER_S",
    "PCIE_WIDTH",
    "CpuModel",
    "GpuModel",
    "c2c_bytes_per_s",
    "cpu_link_bytes_per_s",
    "cpu_link_effective_bytes_per_s",
    "cpu_memory_bytes_per_s",
    "cpu_model",
    "gpu_model",
    "nvlink_bytes_per_s",
    "nvlink_effective_bytes_per_s",
    "pcie_bytes_per_s",
    "pcie_effective_bytes_per_s",
    "pcie_generation",
    "pcie_generation_of",
    "pcie_speed_words",
    "pcie_width_words",
    "xgmi_bytes_per_s",
]

_GB = 1e9

LOOPBACK_BYTES_PER_S = 5.0 * _GB
"""Assumed rate at which two processes of one machine exchange bytes through the loopback interface or shared memory.

An assumption, not a data sheet: the order of what one core copies through a TCP socket. Calibrate to replace it.
"""

DEFAULT_NVLINK_BYTES_PER_S = 25.0 * _GB
"""Nominal rate of an NVLink of unknown generation: that of NVLink 2, 3 (A100) and 4, which most machines have."""

PCIE_WIDTH = 16
"""Lanes of the widest slot that products have, and what is assumed where a source does not show them."""

DEFAULT_PCIE_GENERATION = 3
"""What NCCL takes where `link_speed` is missing or unknown: 8 GT/s (NCCL 2.30, src/graph/topo.cc)."""


@dataclass(frozen=True, slots=True)
class _ByCapability:
    """One rate for GPUs whose compute capability (times ten) is at least `from_capability`."""

    from_capability: int
    bytes_per_s: float
    source: str


_NVLINK_NOMINAL = (
    _ByCapability(100, 50.0 * _GB, "NVLink 5: B200 data sheet, 1.8 TB/s both ways over 18 links"),
    _ByCapability(90, 25.0 * _GB, "NVLink 4: H100 data sheet, 900 GB/s both ways over 18 links"),
    _ByCapability(89, 25.0 * _GB, "no product has NVLink; the rate of NVLink 3 and 4 stands in"),
    _ByCapability(86, 14.0625 * _GB, "NVLink 3 of GA102: A40 data sheet, 112.5 GB/s both ways over 4 links"),
    _ByCapability(80, 25.0 * _GB, "NVLink 3: A100 data sheet, 600 GB/s both ways over 12 links"),
    _ByCapability(70, 25.0 * _GB, "NVLink 2: V100 data sheet, 300 GB/s both ways over 6 links"),
    _ByCapability(60, 20.0 * _GB, "NVLink 1: P100 data sheet, 160 GB/s both ways over 4 links"),
)

_NVLINK_EFFECTIVE = (
    _ByCapability(100, 40.1 * _GB, "NCCL 2.30 src/graph/topo.h"),
    _ByCapability(90, 20.6 * _GB, "NCCL 2.30 src/graph/topo.h"),
    _ByCapability(87, 20.0 * _GB, "NCCL 2.30 src/graph/topo.h"),
    _ByCapability(86, 12.0 * _GB, "NCCL 2.30 src/graph/topo.h"),
    _ByCapability(70, 20.0 * _GB, "NCCL 2.30 src/graph/topo.h"),
    _ByCapability(60, 18.0 * _GB, "NCCL 2.30 src/graph/topo.h"),
    _ByCapability(0, 20.0 * _GB, "NCCL 2.30 src/graph/topo.h, where no row fits"),
)


def nvlink_bytes_per_s(compute_capability: int | None) -> float:
    """Nominal bytes/s of one NVLink in one direction, by the GPU's compute capability times ten (H100: 90).

    None, and GPUs older than NVLink, give `DEFAULT_NVLINK_BYTES_PER_S`.
    """
    rows = (row for row in _NVLINK_NOMINAL if (compute_capability or 0) >= row.from_capability)
    return next((row.bytes_per_s for row in rows), DEFAULT_NVLINK_BYTES_PER_S)


def nvlink_effective_bytes_per_s(compute_capability: int | None) -> float:
    """Bytes/s that NCCL 2.30 counts for one NVLink in one direction (src/graph/topo.h); None gives 20e9."""
    capability = compute_capability or 0
    return next(row.bytes_per_s for row in _NVLINK_EFFECTIVE if capability >= row.from_capability)


_XGMI_NOMINAL = {
    "gfx906": (46.0 * _GB, "MI50 and MI60: 92 GB/s both ways per link"),
    "gfx908": (46.0 * _GB, "MI100 data sheet: 92 GB/s both ways per link"),
    "gfx90a": (50.0 * _GB, "MI210 and MI250 data sheets: 100 GB/s both ways per link"),
    "gfx942": (64.0 * _GB, "MI300X data sheet: 128 GB/s both ways per link"),
    "gfx950": (76.8 * _GB, "MI350X data sheet: 153.6 GB/s both ways per link"),
}


def xgmi_bytes_per_s(architecture: str | None) -> float:
    """Nominal bytes/s of one xGMI link in one direction, by AMD's architecture name (`gfx942`); unknown: as gfx90a."""
    return _XGMI_NOMINAL.get(architecture or "", _XGMI_NOMINAL["gfx90a"])[0]


def c2c_bytes_per_s(compute_capability: int | None) -> float:
    """Nominal bytes/s of the NVLink-C2C between a GPU and its Grace CPU in one direction.

    GH200 data sheet: 900 GB/s both ways for its one GPU; on GB200 and GB300 two GPUs share as much.
    """
    return 225.0 * _GB if (compute_capability or 0) >= 100 else 450.0 * _GB


@dataclass(frozen=True, slots=True)
class _PcieGeneration:
    """One PCIe generation: transfers per second, the share of bits that line coding leaves, and what NCCL counts."""

    transfers_per_s: float
    coding_share: float
    effective_bytes_per_s: float


# Transfer rates and line coding: PCI Express base specification (8b/10b, 128b/130b, 242 of 256 bytes of a flit).
# Effective bytes/s per lane: NCCL 2.30 src/graph/topo.cc, which counts 100 Mb/s per lane and divides by 80.
_PCIE = {
    1: _PcieGeneration(2.5e9, 8 / 10, 15 / 80 * _GB),
    2: _PcieGeneration(5e9, 8 / 10, 30 / 80 * _GB),
    3: _PcieGeneration(8e9, 128 / 130, 60 / 80 * _GB),
    4: _PcieGeneration(16e9, 128 / 130, 120 / 80 * _GB),
    5: _PcieGeneration(32e9, 128 / 130, 240 / 80 * _GB),
    6: _PcieGeneration(64e9, 242 / 256, 480 / 80 * _GB),
}


def pcie_bytes_per_s(generation: int, width: int) -> float:
    """Nominal bytes/s of a PCIe link in one direction, after line coding: generation 4, width 16 gives 31.5e9.

    NameChoiceError for an unknown generation, TopologyError for a width outside 1 to 32.
    """
    row = _pcie_row(generation, width)
    return row.transfers_per_s / 8 * row.coding_share * width


def pcie_effective_bytes_per_s(generation: int, width: int) -> float:
    """Bytes/s that NCCL 2.30 counts for a PCIe link (x16: 3, 6, 12, 24, 48, 96 GB/s for generations 1 to 6)."""
    return _pcie_row(generation, width).effective_bytes_per_s * width


def _pcie_row(generation: int, width: int) -> _PcieGeneration:
    if generation not in _PCIE:
        raise NameChoiceError("PCIe generation", str(generation), map(str, _PCIE))
    if not 1 <= width <= 32:
        raise TopologyError(f"a PCIe link of width {width} does not exist: give 1 to 32 lanes")
    return _PCIE[generation]


def pcie_generation(link_speed: str) -> int:
    """The PCIe generation of a speed as Linux and NCCL write it (`16.0 GT/s PCIe`, `16 GT/s`, `2.5GT/s`): 1 to 6.

    UnitError where it says none (empty, `Unknown`): the caller decides whether `DEFAULT_PCIE_GENERATION`, which is
    what NCCL takes, is to be assumed, and says so.
    """
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*GT/s(?:\s*PCIe)?\s*", link_speed)
    speeds = {row.transfers_per_s: generation for generation, row in _PCIE.items()}
    if match and (generation := speeds.get(float(match[1]) * 1e9)):
        return generation
    known = ", ".join(f"{speed / 1e9:g}" for speed in speeds)
    raise UnitError(f"cannot read {link_speed!r} as a PCIe speed: expected N GT/s, with N one of {known}")


def pcie_speed_words(generation: int) -> str:
    """The speed of a PCIe generation as Linux and NCCL write it: `16.0 GT/s PCIe` for 4; NameChoiceError if unknown."""
    return f"{_pcie_row(generation, 1).transfers_per_s / 1e9:.1f} GT/s PCIe"


def pcie_width_words(lanes: int) -> str:
    """Lanes as people write them: `x16` of one port, and `32 lanes` of several that are joined in one place."""
    return f"x{lanes}" if lanes <= PCIE_WIDTH else f"{lanes} lanes"


def pcie_generation_of(bytes_per_s: float, width: int) -> int | None:
    """The generation whose nominal rate at this width is within 1 % of `bytes_per_s`; None where none is."""
    for generation in _PCIE:
        if abs(pcie_bytes_per_s(generation, width) / bytes_per_s - 1) < 0.01:
            return generation
    return None


@dataclass(frozen=True, slots=True)
class CpuModel:
    """A processor generation: nominal rates to the other socket and to its memory, NCCL's rate, source."""

    name: str
    link_bytes_per_s: float
    memory_bytes_per_s: float
    nccl_link_bytes_per_s: float
    source: str


def _cpu(name: str, link_gb_per_s: float, memory_gb_per_s: float, nccl_gb_per_s: float, source: str) -> CpuModel:
    return CpuModel(name, link_gb_per_s * _GB, memory_gb_per_s * _GB, nccl_gb_per_s * _GB, source)


# Links per pair of sockets differ by board: the rows state which number they assume.
_BROADWELL = _cpu("Intel Broadwell", 38.4, 76.8, 6, "2 QPI links of 9.6 GT/s x 2 bytes; 4 x DDR4-2400")
_SKYLAKE = _cpu("Intel Skylake", 41.6, 128.0, 10, "2 UPI links of 10.4 GT/s x 2 bytes; 6 x DDR4-2666")
_ICE_LAKE = _cpu("Intel Ice Lake", 67.2, 204.8, 10, "3 UPI links of 11.2 GT/s x 2 bytes; 8 x DDR4-3200")
_SAPPHIRE = _cpu("Intel Sapphire Rapids", 96.0, 307.2, 22, "3 UPI links of 16 GT/s x 2 bytes; 8 x DDR5-4800")
_EMERALD = _cpu("Intel Emerald Rapids", 120.0, 358.4, 40, "3 UPI links of 20 GT/s x 2 bytes; 8 x DDR5-5600")
_GRANITE = _cpu("Intel Granite Rapids", 144.0, 614.4, 22, "3 UPI links of 24 GT/s x 2 bytes; 12 x DDR5-6400")
_NAPLES = _cpu("AMD Naples", 75.9, 170.7, 16, "4 xGMI links, 37.9 GB/s both ways each; 8 x DDR4-2666")
_ROME = _cpu("AMD Rome or Milan", 144.0, 204.8, 16, "4 xGMI links of 18 GT/s x 2 bytes; 8 x DDR4-3200")
_GENOA = _cpu("AMD Genoa", 256.0, 460.8, 16, "4 xGMI links of 32 GT/s x 2 bytes; 12 x DDR5-4800")
_TURIN = _cpu("AMD Turin", 256.0, 576.0, 16, "4 xGMI links of 32 GT/s x 2 bytes; 12 x DDR5-6000")
_GRACE = _cpu("Arm", 6.0, 500.0, 6, "link: NCCL's figure, nothing better is known; memory: Grace, LPDDR5X")
_POWER9 = _cpu("IBM POWER9", 64.0, 170.0, 32, "X-bus 64 GB/s; 8 x DDR4-2666")
_ZHAOXIN = _cpu("Zhaoxin", 6.0, 50.0, 6, "link: NCCL's figure, nothing better is known; memory assumed")
_YONGFENG = _cpu("Zhaoxin Yongfeng", 9.0, 100.0, 9, "link: NCCL's figure, nothing better is known; memory assumed")
_UNKNOWN = _cpu("unknown processor", 20.8, 100.0, 5000, "assumed: 1 UPI link of 10.4 GT/s x 2 bytes; 100 GB/s memory")


def cpu_model(vendor: str | None, family: int | None, model: int | None) -> CpuModel:
    """The processor generation of a CPUID vendor string (or `ARM`, `IBM`), family and model, or `unknown processor`.

    The borders between Intel's generations are NCCL's (2.30, src/graph/topo.cc) with Ice Lake told apart. AMD's
    family may be written as NCCL dumps it (175 for family 25, 143 for 23).
    """
    match (vendor or "").strip():
        case "GenuineIntel":
            return _intel(family, model)
        case "AuthenticAMD":
            return _amd(family, model)
        case "ARM":
            return _GRACE
        case "IBM":
            return _POWER9
        case "CentaurHauls" | "Shanghai":
            return _YONGFENG if (family, model) == (7, 0x5B) else _ZHAOXIN
        case _:
            return _UNKNOWN


def _intel(family: int | None, model: int | None) -> CpuModel:
    if family != 6 or model is None:
        return _BROADWELL
    rows = ((0xCF, _EMERALD), (0xAD, _GRANITE), (0x8F, _SAPPHIRE), (0x6A, _ICE_LAKE), (0x55, _SKYLAKE))
    return next((row for first_model, row in rows if model >= first_model), _BROADWELL)


def _amd(family: int | None, model: int | None) -> CpuModel:
    if family is None:
        return _ROME
    # NCCL adds the extended family (bits 4 to 11) to the family of 15 without moving it down: 15 + 16 * extended.
    extended, rest = divmod(family - 15, 16)
    family = 15 + extended if family > 100 and rest == 0 else family
    if family == 23:
        return _NAPLES if model is not None and model < 0x30 else _ROME
    if family == 25:
        return _GENOA if model is not None and (0x10 <= model < 0x20 or model >= 0xA0) else _ROME
    return _TURIN if family > 25 else _ROME


def cpu_link_bytes_per_s(vendor: str | None, family: int | None, model: int | None) -> float:
    """Nominal bytes/s between two sockets (or NUMA nodes) in one direction, all their links together.

    By the processor of the sending side; NCCL's figure for Arm and Zhaoxin, for which nothing better is known. Peer
    traffic of GPUs gets much less: `cpu_link_effective_bytes_per_s`.
    """
    return cpu_model(vendor, family, model).link_bytes_per_s


def cpu_link_effective_bytes_per_s(vendor: str | None, family: int | None, model: int | None) -> float:
    """Bytes/s that NCCL 2.30 counts between two CPUs (src/graph/topo.h); 5000e9 for a CPU it does not know."""
    return cpu_model(vendor, family, model).nccl_link_bytes_per_s


def cpu_memory_bytes_per_s(vendor: str | None, family: int | None, model: int | None) -> float:
    """Nominal bytes/s of one socket's memory: channels times transfer rate times 8 bytes."""
    return cpu_model(vendor, family, model).memory_bytes_per_s
