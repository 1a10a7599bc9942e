"""Servers whose GPUs are joined by NVLink: NVIDIA's DGX and HGX, and systems built of them."""

from __future__ import annotations

from dataclasses import replace

from topo.machines import parts
from topo.machines.machine import Buses, Machine, full_mesh
from topo.machines.parts import GEN3, GEN4, GEN5, GEN6, Port

HYBRID_CUBE_MESH = (
    *((0, 1, 1), (0, 2, 1), (0, 3, 2), (1, 2, 2), (1, 3, 1), (2, 3, 2)),
    *((4, 5, 1), (4, 6, 1), (4, 7, 2), (5, 6, 2), (5, 7, 1), (6, 7, 2)),
    *((0, 4, 2), (1, 5, 2), (2, 6, 1), (3, 7, 1)),
)
"""Each quad of 8 V100 is fully joined, and each GPU has one partner in the other quad."""

DGX1_V100 = Machine(
    ("(GGN)(GGN)",) * 2,
    *(parts.V100_SXM, parts.BROADWELL, Port(GEN3), parts.CONNECTX_4),
    peer_lanes=HYBRID_CUBE_MESH,
)
DGX_A100 = Machine(("(GGNN)",) * 4, parts.A100_SXM, parts.EPYC_NPS2, Port(GEN4), parts.CONNECTX_6, nvswitch_lanes=12)
DGX_H100 = Machine(
    ("(GN)(GN)(GN)(GN)",) * 2,
    *(parts.H100_SXM, parts.SAPPHIRE_RAPIDS, Port(GEN5), parts.CONNECTX_7),
    nvswitch_lanes=18,
)
DGX_B200 = replace(DGX_H100, gpu=parts.B200, processor=parts.EMERALD_RAPIDS)
DGX_B300 = replace(DGX_B200, gpu=parts.B300, port=Port(GEN6), nic=parts.CONNECTX_8)
_IN_NETWORK = replace(parts.CONNECTX_7, collnet=True)

HGX_H100_4NIC = replace(DGX_H100, layout=("(GGN)(GGN)",) * 2)
HGX_A100_MESH = Machine(
    ("GGN",) * 2, parts.A100_SXM, parts.EPYC, Port(GEN4), parts.CONNECTX_6, peer_lanes=full_mesh(4, 4)
)
_ABCI_V100 = Machine(
    ("(GGN)",) * 2, parts.V100_SXM, parts.SKYLAKE, Port(GEN3), parts.CONNECTX_4, peer_lanes=full_mesh(4, 2)
)
_SNELLIUS = Machine(
    ("(GN)(GN)",) * 2,
    *(parts.H100_SXM, parts.EPYC, Port(GEN5), parts.CONNECTX_7_200G),
    peer_lanes=full_mesh(4, 6),
)
_POLARIS = Machine(
    ("GN", "G", "GN", "G"),
    *(parts.A100_SXM_40GB, parts.EPYC_NPS4, Port(GEN4), parts.SLINGSHOT),
    peer_lanes=full_mesh(4, 4),
    buses=Buses(nics=("0000:40:00.0", "0000:42:00.0")),
)

ROWS: tuple[tuple[str, str, Machine], ...] = (
    ("dgx1-v100", "V100 hybrid cube mesh, 4 NICs of 100 Gb/s", DGX1_V100),
    ("dgx-a100", "A100 on NVSwitch, 8 NICs of 200 Gb/s, EPYC", DGX_A100),
    ("dgx-h100", "H100 on NVSwitch, 8 NICs of 400 Gb/s", DGX_H100),
    ("dgx-h100-sharp", "dgx-h100 whose NICs reduce in the network", replace(DGX_H100, nic=_IN_NETWORK)),
    ("dgx-b200", "B200 on NVSwitch, 8 NICs of 400 Gb/s", DGX_B200),
    ("dgx-b200-sharp", "dgx-b200 whose NICs reduce in the network", replace(DGX_B200, nic=_IN_NETWORK)),
    ("dgx-b300", "B300 on NVSwitch, 8 NICs of 800 Gb/s, PCIe Gen6", DGX_B300),
    ("hgx-h100-4nic", "H100 on NVSwitch, a NIC of 400 Gb/s for two GPUs", HGX_H100_4NIC),
    ("hgx-h100-4gpu", "H100 on NVSwitch, 4 NICs of 400 Gb/s", replace(DGX_H100, layout=("(GN)(GN)",) * 2)),
    ("hgx-a100-4gpu-mesh", "A100, NV4 between any two, 2 NICs of 200 Gb/s", HGX_A100_MESH),
    (
        "hgx-h200-1gpu",
        "H200 and a NIC of 400 Gb/s behind one switch",
        replace(DGX_H100, layout=("(GN)",), gpu=parts.H200_SXM, nvswitch_lanes=0),
    ),
    (
        "h200-1gpu-2ranks",
        "H200 that two ranks share, no NIC",
        replace(DGX_H100, layout=("(G+)",), gpu=parts.H200_SXM, nic=None, nvswitch_lanes=0),
    ),
    ("abci-v100x4", "ABCI: V100, NV2 between any two, 2x100 Gb/s", _ABCI_V100),
    (
        "abci-a100x8",
        "ABCI: A100 on NVSwitch, 4 NICs of 200 Gb/s",
        replace(DGX_A100, layout=("(GGN)(GGN)",) * 2, gpu=parts.A100_SXM_40GB, processor=parts.ICE_LAKE),
    ),
    (
        "a100x4-4x200",
        "A100, NV4 between any two, 4 NICs of 200 Gb/s",
        replace(HGX_A100_MESH, layout=("GN",) * 4, gpu=parts.A100_SXM_40GB, processor=parts.EPYC_NPS2),
    ),
    ("polaris-a100x4", "Polaris: A100, NV4 between any two, 2x200 Gb/s", _POLARIS),
    ("snellius-h100x4", "Snellius: H100, NV6 between any two, 4x200 Gb/s", _SNELLIUS),
)
"""Name, description and machine."""
