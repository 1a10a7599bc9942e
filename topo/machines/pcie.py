"""Servers and workstations whose GPUs are joined by PCIe, some of them bridged in pairs by NVLink."""

from __future__ import annotations

from dataclasses import replace

from topo.machines import parts
from topo.machines.machine import Buses, Machine, bridged_pairs
from topo.machines.parts import GEN3, GEN4, GEN5, Port

_TWO_SOCKETS_4SWITCHES = ("(GGN)(GGN)",) * 2

_L40S_AMD = Machine(_TWO_SOCKETS_4SWITCHES, parts.L40S, parts.EPYC, Port(GEN4), parts.CONNECTX_6)
_A6000 = Machine(("GG",) * 2, parts.RTX_A6000, parts.EPYC, Port(GEN4))
_A40_PAIRS = Machine(("GGGG",) * 2, parts.A40, parts.ICE_LAKE, Port(GEN4), peer_lanes=bridged_pairs(8, 4))
_H100_NVL = Machine(
    ("(GGN)",) * 2,
    *(parts.H100_NVL, parts.SAPPHIRE_RAPIDS, Port(GEN5), parts.CONNECTX_7),
    peer_lanes=bridged_pairs(4, 18),
)
_V100 = Machine(("GGN",) * 2, parts.V100_PCIE, parts.SKYLAKE, Port(GEN3), parts.CONNECTX_4)
_A100 = Machine(("GGN",), parts.A100_PCIE, parts.EPYC, Port(GEN4), replace(parts.CONNECTX_6, bytes_per_s=12.5e9))
_PRO_6000 = Machine(("GGGGGGGG",), parts.RTX_PRO_6000, parts.EPYC, Port(GEN5))
_T4 = Machine(("GG",), parts.T4, parts.SKYLAKE, Port(GEN3))

# Two ports that NCCL fused into one device of their summed rate; it comes third among the devices it found.
_FUSED_NIC = replace(
    parts.CONNECTX_6_DX,
    bytes_per_s=25e9,
    device_class="0x020000",
    name="mlx5_0+mlx5_1",
    gdr=False,
    first_index=2,
)
_FUSED = Machine(
    ("NG", "G"),
    *(parts.A100_PCIE, parts.ICE_LAKE, Port(GEN4), _FUSED_NIC),
    nic_port=Port(GEN4, 8),
    buses=Buses(gpus=("0000:69:00.0", "0000:b1:00.0"), nics=("0000:16:00.0",)),
    hashed=True,
)

ROWS: tuple[tuple[str, str, Machine], ...] = (
    ("pcie-4gpu", "4 RTX A6000 on PCIe Gen4, two on each of two EPYC sockets, no switch, no NIC", _A6000),
    (
        "pcie-8gpu",
        "8 L40S on PCIe Gen4, two per switch, two switches and 2 NICs of 100 Gb/s per EPYC socket",
        replace(_L40S_AMD, nic=parts.CONNECTX_6_DX),
    ),
    ("pcie-8xl40s-amd", "8 L40S on PCIe Gen4, two and a NIC of 200 Gb/s per switch, two EPYC sockets", _L40S_AMD),
    (
        "pcie-8xl40s-intel",
        "8 L40S on PCIe Gen4, two and a NIC of 200 Gb/s per switch, two Sapphire Rapids sockets",
        replace(_L40S_AMD, processor=parts.SAPPHIRE_RAPIDS),
    ),
    (
        "pcie-8xa100-bridges",
        "8 A100 on PCIe Gen4, bridged in pairs by 12 NVLinks, a NIC of 200 Gb/s per pair",
        replace(_L40S_AMD, gpu=parts.A100_PCIE, peer_lanes=bridged_pairs(8, 12)),
    ),
    ("pcie-4xh100nvl-pairs", "4 H100 NVL, bridged in pairs by NVLink, a NIC of 400 Gb/s per pair", _H100_NVL),
    ("pcie-4xv100-skl-2socket", "4 V100 on PCIe Gen3, two and a NIC of 100 Gb/s per Skylake socket", _V100),
    (
        "v100pcie-1gpu-sock",
        "1 V100 and a NIC of 10 Gb/s that cannot read its memory",
        Machine(("GN",), parts.V100_PCIE, parts.SKYLAKE, Port(GEN3), replace(parts.TEN_GIGABIT, gdr=False)),
    ),
    (
        "optcast-v100pcie",
        "2 V100 and 2 NICs of 100 Gb/s behind one switch, one Broadwell socket",
        replace(_V100, layout=("(GGNN)",), processor=parts.BROADWELL),
    ),
    ("pcie-2xa100-amd-noswitch", "2 A100 and a NIC of 100 Gb/s on one EPYC socket, no switch", _A100),
    ("issue2397-a100pcie-fused", "2 A100 on two sockets, two NIC ports fused into one of 200 Gb/s", _FUSED),
    (
        "a40-x4-2sock",
        "4 A40, two on each of two Ice Lake sockets, no switch, no NIC",
        replace(_A40_PAIRS, layout=("GG",) * 2, peer_lanes=()),
    ),
    ("a40-x8-pairs", "8 A40, bridged in pairs by 4 NVLinks, four per Ice Lake socket, no NIC", _A40_PAIRS),
    (
        "rtx2080ti-x2",
        "2 RTX 2080 Ti behind one switch, no NVLink bridge",
        replace(_T4, layout=("(GG)",), gpu=parts.RTX_2080_TI),
    ),
    (
        "rtx4070tis-x2",
        "2 RTX 4070 Ti SUPER on one processor",
        replace(_A6000, layout=("GG",), gpu=parts.RTX_4070_TI_SUPER),
    ),
    ("t4-x2", "2 T4 on one Skylake socket", _T4),
    ("rtxpro6000-1cpu8", "8 RTX PRO 6000 on one EPYC socket, no switch, no NIC", _PRO_6000),
    (
        "rtxpro6000-1sock-2sw",
        "8 RTX PRO 6000, four behind each of two switches of one EPYC socket",
        replace(_PRO_6000, layout=("(GGGG)(GGGG)",)),
    ),
    (
        "rtxpro6000-2sock-sw",
        "8 RTX PRO 6000, two and a NIC of 400 Gb/s per switch, two Emerald Rapids sockets",
        replace(_PRO_6000, layout=_TWO_SOCKETS_4SWITCHES, processor=parts.EMERALD_RAPIDS, nic=parts.CONNECTX_7),
    ),
    (
        "rtxpro6000-2turin",
        "8 RTX PRO 6000, four and a NIC of 10 Gb/s per EPYC socket, no switch",
        replace(_PRO_6000, layout=("GGGGN",) * 2, nic=parts.TEN_GIGABIT),
    ),
)
"""Name, description and machine."""
