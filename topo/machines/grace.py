"""Machines whose GPUs hang on Arm processors by NVLink-C2C: GH200, GB200 and GB300, and the GB10 desktop."""

from __future__ import annotations

from dataclasses import replace

from topo.machines import parts
from topo.machines.machine import Buses, Machine, full_mesh
from topo.machines.parts import GEN4, GEN5, GEN6, Port

_C2C_MB_PER_S = 44712.0
"""Of one NVLink-C2C in one direction, as the driver reports it: 10 join a GH200 to its CPU, 5 each of two GB200."""


def _buses(domains: tuple[int, ...], bus: str) -> tuple[str, ...]:
    return tuple(f"{domain:04x}:{bus}" for domain in domains)


_TRAY = Machine(
    ("GGNN", "GGNN"),
    *(parts.GB200, parts.GRACE, Port(GEN5), replace(parts.CONNECTX_7, guid=0x9000)),
    nvswitch_lanes=18,
    buses=Buses(gpus=_buses((8, 9, 10, 11), "01:00.0"), nics=_buses((0, 1, 2, 3), "03:00.0")),
    c2c=(_C2C_MB_PER_S, 5),
    hashed=True,
)
_TRAY_300 = replace(_TRAY, gpu=parts.GB300, nic=replace(parts.CONNECTX_8, guid=0x9000), nic_port=Port(GEN6))
_GH200 = Machine(
    ("GN",) * 4,
    *(parts.GH200, parts.GRACE, Port(GEN5), parts.SLINGSHOT),
    peer_lanes=full_mesh(4, 6),
    nic_port=Port(GEN4),
    buses=Buses(gpus=_buses((9, 10, 11, 12), "01:00.0"), nics=_buses((0, 1, 2, 3), "01:00.0")),
    c2c=(_C2C_MB_PER_S, 10),
)
_ROCE = replace(parts.CONNECTX_7, bytes_per_s=12.5e9, device_class="0x020000", name="rocep{}", gdr=False)
_GB10 = Machine(
    ("GNN",),
    *(parts.GB10, parts.GRACE, Port(GEN5), _ROCE),
    nic_port=Port(GEN5, 4),
    buses=Buses(gpus=("000f:01:00.0",), nics=("0000:01:00.0", "0002:01:00.0")),
)

ROWS: tuple[tuple[str, str, Machine], ...] = (
    ("alps-gh200x4", "Alps: GH200, NV6 between any two, 4x200 Gb/s", _GH200),
    ("gb200-1tray", "GB200 tray: two Grace, NVSwitch, 4x400 Gb/s", _TRAY),
    ("gb200-nvl8", "2 GB200 trays in one NVLink domain", replace(_TRAY, num_hosts=2)),
    ("gb200-16tray", "16 GB200 trays in one NVLink domain", replace(_TRAY, num_hosts=16)),
    ("gb200-nvl72", "GB200 rack: 18 trays in one NVLink domain", replace(_TRAY, num_hosts=18)),
    ("gb300-1tray", "GB300 tray: two Grace, NVSwitch, 4x800 Gb/s", _TRAY_300),
    ("gb300-2tray", "2 GB300 trays in one NVLink domain", replace(_TRAY_300, num_hosts=2)),
    ("gb300-16tray", "16 GB300 trays in one NVLink domain", replace(_TRAY_300, num_hosts=16)),
    ("dgx-spark", "GB10 on an Arm processor, 2x100 Gb/s on PCIe x4", _GB10),
)
"""Name, description and machine."""
