"""Virtual machines and bare metal of cloud providers, with the bus ids that a guest sees there."""

from __future__ import annotations

from dataclasses import replace

from topo.machines import parts
from topo.machines.machine import Buses, Machine
from topo.machines.nvlink import DGX_A100, DGX_H100, HGX_H100_4NIC, HYBRID_CUBE_MESH
from topo.machines.parts import GEN3, GEN4, GEN5, MASKED_SWITCH, NITRO, UNNAMED_SWITCH, Port

# --- Amazon ---

_EFA_100G = replace(parts.efa(12.5e9, "0xefa0", 75.0), max_connections=131072)
_P3DN = Machine(
    ("(GG)(GG)N", "(GG)(GG)"),
    *(parts.V100_SXM_32GB, parts.SKYLAKE, Port(GEN3), replace(_EFA_100G, name="efa{}", gdr=False)),
    peer_lanes=HYBRID_CUBE_MESH,
    buses=Buses(nics=("0000:60:00.0",)),
)
_P4_ROOTS = ("10", "20", "90", "a0")
_P4D = Machine(
    ("(GGN)(GGN)",) * 2,
    *(parts.A100_SXM_40GB, parts.SKYLAKE, Port("8 GT/s"), replace(_EFA_100G, name="mlx5_{}")),
    nvswitch_lanes=12,
    switch=MASKED_SWITCH,
    buses=Buses(
        switches=tuple(f"ffff:ff:{number:02x}.0" for number in range(1, 5)),
        gpus=tuple(f"0000:{root}:{slot}.0" for root in _P4_ROOTS for slot in ("1c", "1d")),
        nics=tuple(f"0000:{root}:1b.0" for root in _P4_ROOTS),
    ),
)
_P5 = Machine(
    ("(NG)(NG)(NG)(NG)",) * 2,
    *(parts.H100_SXM, parts.EPYC, Port(GEN5), parts.efa(50e9, "0xefa1", 75.0)),
    nvswitch_lanes=18,
    switch=NITRO,
    switch_port=Port(GEN4, 8),
    buses=Buses(first=0x40),
)
_P5EN = replace(
    _P5,
    gpu=parts.H200_SXM,
    processor=parts.SAPPHIRE_RAPIDS,
    nic=parts.efa(50e9, "0xefa1", 35.0),
    switch_port=Port(GEN5),
)
_P5EN_16 = replace(_P5EN, layout=("(NNG)(NNG)(NNG)(NNG)",) * 2, nic=parts.efa(25e9, "0xefa2", 35.0))

# --- Microsoft ---


def _domains(text: str) -> tuple[str, ...]:
    """Hyper-V gives every passed-through function a PCI domain of its own."""
    return tuple(f"{int(domain, 16):04x}:00:00.0" for domain in text.split())


_AZURE_SWITCHES = tuple(f"ffff:ff:{number:02x}.0" for number in range(1, 9))
_NDV2 = Machine(
    ("GGGGN", "GGGG"),
    *(parts.V100_SXM_32GB, parts.SKYLAKE, Port("16 GT/s"), parts.CONNECTX_5),
    peer_lanes=HYBRID_CUBE_MESH,
    buses=Buses(gpus=_domains("1 2 3 4 5 6 7 8"), nics=_domains("101")),
)
_NDV4 = Machine(
    ("(GNGN)",) * 4,
    *(parts.A100_SXM_40GB, parts.ROME_NPS2, Port("16 GT/s"), parts.CONNECTX_6),
    nvswitch_lanes=12,
    switch=UNNAMED_SWITCH,
    buses=Buses(
        switches=_AZURE_SWITCHES,
        gpus=_domains("3 4 1 2 d e b c"),
        nics=_domains("103 104 101 102 107 108 105 106"),
    ),
)
_NDV5 = replace(
    DGX_H100,
    switch=UNNAMED_SWITCH,
    buses=Buses(
        switches=_AZURE_SWITCHES,
        gpus=_domains("1 2 3 8 9 a b c"),
        nics=_domains("101 102 103 104 105 106 107 108"),
    ),
)

ROWS: tuple[tuple[str, str, Machine], ...] = (
    ("p3dn-v100", "AWS p3dn: V100 hybrid cube mesh, EFA 100 Gb/s", _P3DN),
    ("aws-p4d-a100", "AWS p4d: A100 40 GB on NVSwitch, EFA 4x100 Gb/s", _P4D),
    ("aws-p4de-a100", "AWS p4de: A100 80 GB on NVSwitch, 4x100 Gb/s", replace(_P4D, gpu=parts.A100_SXM)),
    ("aws-p5-h100", "AWS p5: H100 on NVSwitch, 8 EFAs of 400 Gb/s", _P5),
    ("aws-p5en-h200", "AWS p5en: H200 on NVSwitch, 8 EFAs of 400 Gb/s", _P5EN),
    ("aws-p5en-h200-16nic", "AWS p5en: H200 on NVSwitch, 16 EFAs of 200 Gb/s", _P5EN_16),
    ("azure-ndv2-v100", "Azure NDv2: V100 hybrid cube mesh, 1x100 Gb/s", _NDV2),
    ("azure-ndv4-a100", "Azure NDv4: A100 on NVSwitch, 8x200 Gb/s", _NDV4),
    ("azure-ndv5-h100", "Azure NDv5: H100 on NVSwitch, 8x400 Gb/s", _NDV5),
    (
        "gcp-a3high",
        "Google A3 High: H100 on NVSwitch, 4x200 Gb/s",
        replace(HGX_H100_4NIC, nic=parts.CONNECTX_7_200G),
    ),
    (
        "gcp-a3mega",
        "Google A3 Mega: H100 on NVSwitch, 8x200 Gb/s",
        replace(HGX_H100_4NIC, layout=("(GGNN)(GGNN)",) * 2, nic=parts.CONNECTX_7_200G),
    ),
    (
        "oci-a100-16x100",
        "Oracle BM.GPU4.8: A100, NVSwitch, 16x100 Gb/s",
        replace(DGX_A100, layout=("(GGNNNN)",) * 4, gpu=parts.A100_SXM_40GB, nic=parts.CONNECTX_5),
    ),
)
"""Name, description and machine."""
