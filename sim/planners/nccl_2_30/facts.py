"""Constants of NCCL's system graph and search (src/graph/topo.h, topo.cc, search.cc of NCCL 2.30.7), in bytes/s."""

from __future__ import annotations

from sim.planners.nccl_2_30.kinds import GIGA

LOCAL_BYTES_PER_S = 5000 * GIGA
"""What NCCL takes for a link that costs nothing (LOC_BW)."""

KNOWN_COMPUTE_CAPABILITIES = frozenset({60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 103, 110, 120, 121})
"""GPUs that NCCL 2.30 was made for; of any other it takes the row below."""

NVLINK_BYTES_PER_S = (
    (100, 40_100_000_000),
    (90, 20_600_000_000),
    (87, 20_000_000_000),
    (86, 12_000_000_000),
    (70, 20_000_000_000),
    (60, 18_000_000_000),
    (0, 20_000_000_000),
)
"""One NVLink, one direction, from this compute capability on."""

PCIE_LANE_UNITS = (
    ("2.5 GT/s", 15),
    ("5 GT/s", 30),
    ("8 GT/s", 60),
    ("16 GT/s", 120),
    ("32 GT/s", 240),
    ("5.0 GT/s PCIe", 30),
    ("8.0 GT/s PCIe", 60),
    ("16.0 GT/s PCIe", 120),
    ("32.0 GT/s PCIe", 240),
    ("64.0 GT/s PCIe", 480),
)
"""A PCIe lane in units of 12.5 MB/s by how the link speed begins, first hit; anything else counts as 8 GT/s."""
PCIE_DEFAULT_UNITS = 60
PCIE_UNIT_BYTES_PER_S = 12_500_000
PCIE_DEFAULT_WIDTH = 16

PCI_CLASSES = (
    ("0x0604", "bridge"),
    ("0x068000", "nvswitch"),
    ("0x068001", "cpu"),
    ("0x03", "gpu"),
    ("0x02", "nic"),
    ("0x0801", "bridge"),
)
"""What a PCI function is by how its class begins; anything else is a bridge."""

INTEL_CPU_BYTES_PER_S = ((0xCF, 40 * GIGA), (0x8F, 22 * GIGA), (0x55, 10 * GIGA), (0, 6 * GIGA))
"""Between two Intel sockets, from this model of family 6 on: Emerald Rapids, Sapphire Rapids, Skylake, Broadwell."""
ZHAOXIN_CPU_BYTES_PER_S = 6 * GIGA
YONGFENG_CPU_BYTES_PER_S = 9 * GIGA
AMD_CPU_BYTES_PER_S = 16 * GIGA
ARM_CPU_BYTES_PER_S = 6 * GIGA
POWER_CPU_BYTES_PER_S = 32 * GIGA

BROADCOM_GEN4 = 0x1000_C010_1000_A000
BROADCOM_GEN5 = 0x1000_C030_1000_0000
BROADCOM_GEN5_CHILD = 0x1000_C030_1000_1000
BROADCOM_MASK = 0xFFFF_FFFF_FFFF_F000
BROADCOM_SWITCHES = {BROADCOM_GEN4: BROADCOM_GEN4, BROADCOM_GEN5: BROADCOM_GEN5_CHILD}
"""Multi-level switches that NCCL takes for one: masked id -> masked id of the children it absorbs."""

MAX_CHANNELS = 64
MAX_SELECTED_NETS = 64


def _speeds(*giga_bytes_per_s: float) -> tuple[float, ...]:
    """Speeds in bytes/s, exact to NCCL's three decimals."""
    return tuple(float(round(speed * 1000) * 1_000_000) for speed in giga_bytes_per_s)


INTRA_SPEEDS = (
    (100, _speeds(90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18)),
    (90, _speeds(60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3)),
    (0, _speeds(40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3)),
)
"""Speeds per channel that are tried when no network takes part, from this compute capability on."""
INTER_SPEEDS = (
    (
        100,
        _speeds(96, 86, 80, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12),
    ),
    (90, _speeds(48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12)),
    (0, _speeds(48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12)),
)
"""The same when the network takes part."""

VISITS_SAME_CHANNELS = 1 << 8
VISITS = 1 << 14
VISITS_PCI_ORDER = 1 << 10
VISITS_IN_ALL = 1 << 19
"""Budgets of the search, in visits (search.cc: NCCL_SEARCH_TIMEOUT and its siblings)."""
