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
    ("pcie-4gpu", "RTX A6000, two per EPYC socket, no NIC", _A6000),
    (
        "pcie-8gpu",
        "L40S, two per switch, EPYC, 4 NICs of 100 Gb/s",
        replace(_L40S_AMD, nic=parts.CONNECTX_6_DX),
    ),
    ("pcie-8xl40s-amd", "L40S, two and a NIC per switch, two EPYC sockets", _L40S_AMD),
    (
        "pcie-8xl40s-intel",
        "L40S, two and a NIC per switch, Sapphire Rapids",
        replace(_L40S_AMD, processor=parts.SAPPHIRE_RAPIDS),
    ),
    (
        "pcie-8xa100-bridges",
        "A100, NV12 in pairs, 200 Gb/s for each pair",
        replace(_L40S_AMD, gpu=parts.A100_PCIE, peer_lanes=bridged_pairs(8, 12)),
    ),
    ("pcie-4xh100nvl-pairs", "H100 NVL, NV18 in pairs, 400 Gb/s for each pair", _H100_NVL),
    ("pcie-4xv100-skl-2socket", "V100, two and 100 Gb/s per Skylake socket", _V100),
    (
        "v100pcie-1gpu-sock",
        "V100 and a NIC of 10 Gb/s without GPUDirect",
        Machine(("GN",), parts.V100_PCIE, parts.SKYLAKE, Port(GEN3), replace(parts.TEN_GIGABIT, gdr=False)),
    ),
    (
        "optcast-v100pcie",
        "V100 and 2x100 Gb/s behind one switch",
        replace(_V100, layout=("(GGNN)",), processor=parts.BROADWELL),
    ),
    ("pcie-2xa100-amd-noswitch", "A100 and 100 Gb/s on one EPYC socket, no switch", _A100),
    ("issue2397-a100pcie-fused", "A100 on two sockets, two NIC ports fused to one", _FUSED),
    (
        "a40-x4-2sock",
        "A40, two per Ice Lake socket, no NIC",
        replace(_A40_PAIRS, layout=("GG",) * 2, peer_lanes=()),
    ),
    ("a40-x8-pairs", "A40, NV4 in pairs, four per socket, no NIC", _A40_PAIRS),
    (
        "rtx2080ti-x2",
        "RTX 2080 Ti behind one switch, no bridge",
        replace(_T4, layout=("(GG)",), gpu=parts.RTX_2080_TI),
    ),
    (
        "rtx4070tis-x2",
        "RTX 4070 Ti SUPER on one processor",
        replace(_A6000, layout=("GG",), gpu=parts.RTX_4070_TI_SUPER),
    ),
    ("t4-x2", "T4 on one Skylake socket", _T4),
    ("rtxpro6000-1cpu8", "RTX PRO 6000 on one EPYC socket, no switch", _PRO_6000),
    (
        "rtxpro6000-1sock-2sw",
        "RTX PRO 6000, four behind each of two switches",
        replace(_PRO_6000, layout=("(GGGG)(GGGG)",)),
    ),
    (
        "rtxpro6000-2sock-sw",
        "RTX PRO 6000, two and 400 Gb/s per switch",
        replace(_PRO_6000, layout=_TWO_SOCKETS_4SWITCHES, processor=parts.EMERALD_RAPIDS, nic=parts.CONNECTX_7),
    ),
    (
        "rtxpro6000-2turin",
        "RTX PRO 6000, four per EPYC socket, no switch",
        replace(_PRO_6000, layout=("GGGGN",) * 2, nic=parts.TEN_GIGABIT),
    ),
)
"""Name, description and machine."""
