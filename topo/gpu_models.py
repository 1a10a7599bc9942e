"""GPU products by the name that nvidia-smi or rocm-smi prints: compute capability, links, PCIe, memory, source."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuModel:
    """One product's facts from its data sheet.

    `compute_capability` is ten times CUDA's (None for AMD); `nvlink_links` counts the NVLinks (AMD: xGMI links) that
    the product can use, wired or not; `memory_bytes_per_s` is nominal, reads and writes together.
    """

    name: str
    compute_capability: int | None
    nvlink_links: int
    pcie_generation: int
    memory_bytes_per_s: float
    source: str


# What the name must contain (words, in any order) | compute capability | links | PCIe | memory GB/s | source.
# The first row that fits is taken, so the more particular name stands above the more general one. Where a name does
# not tell SXM from PCIe, the SXM row is the one that asks for less.
_TABLE: tuple[tuple[str, str, int | None, int, int, float, str], ...] = (
    ("P100 PCIe", "p100 pcie", 60, 0, 3, 732, "NVIDIA Tesla P100 data sheet"),
    ("P100 SXM2", "p100", 60, 4, 3, 732, "NVIDIA Tesla P100 data sheet"),
    ("V100S PCIe", "v100s", 70, 0, 3, 1134, "NVIDIA V100 data sheet"),
    ("V100 PCIe", "v100 pcie", 70, 0, 3, 900, "NVIDIA V100 data sheet"),
    ("V100 FHHL", "v100 fhhl", 70, 0, 3, 829, "NVIDIA V100 data sheet"),
    ("V100 DGXS", "v100 dgxs", 70, 4, 3, 900, "NVIDIA DGX Station data sheet"),
    ("V100 SXM", "v100", 70, 6, 3, 900, "NVIDIA V100 data sheet"),
    ("TITAN V", "titan v", 70, 0, 3, 653, "NVIDIA TITAN V specification"),
    ("T4", "t4", 75, 0, 3, 320, "NVIDIA T4 data sheet"),
    ("TITAN RTX", "titan rtx", 75, 2, 3, 672, "NVIDIA TITAN RTX specification"),
    ("Quadro RTX 8000", "quadro rtx 8000", 75, 2, 3, 672, "NVIDIA Quadro RTX 8000 data sheet"),
    ("Quadro RTX 6000", "quadro rtx 6000", 75, 2, 3, 672, "NVIDIA Quadro RTX 6000 data sheet"),
    ("GeForce RTX 2080 Ti", "rtx 2080 ti", 75, 2, 3, 616, "NVIDIA GeForce RTX 2080 Ti specification"),
    ("GeForce RTX 2080 SUPER", "rtx 2080 super", 75, 1, 3, 496, "NVIDIA GeForce RTX 2080 SUPER specification"),
    ("GeForce RTX 2080", "rtx 2080", 75, 1, 3, 448, "NVIDIA GeForce RTX 2080 specification"),
    ("GeForce RTX 2070 SUPER", "rtx 2070 super", 75, 1, 3, 448, "NVIDIA GeForce RTX 2070 SUPER specification"),
    ("GeForce RTX 2070", "rtx 2070", 75, 0, 3, 448, "NVIDIA GeForce RTX 2070 specification"),
    ("A800 PCIe", "a800 pcie", 80, 8, 4, 1935, "NVIDIA A800 data sheet"),
    ("A800 SXM4", "a800", 80, 8, 4, 2039, "NVIDIA A800 data sheet"),
    ("A100 PCIe 80GB", "a100 pcie 80gb", 80, 12, 4, 1935, "NVIDIA A100 data sheet"),
    ("A100 PCIe 40GB", "a100 pcie", 80, 12, 4, 1555, "NVIDIA A100 data sheet"),
    ("A100 SXM4 80GB", "a100 80gb", 80, 12, 4, 2039, "NVIDIA A100 data sheet"),
    ("A100 SXM4 40GB", "a100", 80, 12, 4, 1555, "NVIDIA A100 data sheet"),
    ("A30", "a30", 80, 4, 4, 933, "NVIDIA A30 data sheet"),
    ("A40", "a40", 86, 4, 4, 696, "NVIDIA A40 data sheet"),
    ("A10", "a10", 86, 0, 4, 600, "NVIDIA A10 data sheet"),
    ("A10G", "a10g", 86, 0, 4, 600, "NVIDIA A10 data sheet"),
    ("RTX A6000", "a6000", 86, 4, 4, 768, "NVIDIA RTX A6000 data sheet"),
    ("RTX A5000", "a5000", 86, 4, 4, 768, "NVIDIA RTX A5000 data sheet"),
    ("RTX A4000", "a4000", 86, 0, 4, 448, "NVIDIA RTX A4000 data sheet"),
    ("GeForce RTX 3090 Ti", "rtx 3090 ti", 86, 4, 4, 1008, "NVIDIA GeForce RTX 3090 Ti specification"),
    ("GeForce RTX 3090", "rtx 3090", 86, 4, 4, 936, "NVIDIA GeForce RTX 3090 specification"),
    ("GeForce RTX 3080 Ti", "rtx 3080 ti", 86, 0, 4, 912, "NVIDIA GeForce RTX 3080 Ti specification"),
    ("GeForce RTX 3080", "rtx 3080", 86, 0, 4, 760, "NVIDIA GeForce RTX 3080 specification"),
    ("GeForce RTX 3070", "rtx 3070", 86, 0, 4, 448, "NVIDIA GeForce RTX 3070 specification"),
    ("GeForce RTX 3060", "rtx 3060", 86, 0, 4, 360, "NVIDIA GeForce RTX 3060 specification"),
    ("L4", "l4", 89, 0, 4, 300, "NVIDIA L4 data sheet"),
    ("L20", "l20", 89, 0, 4, 864, "NVIDIA L20 data sheet"),
    ("L40S", "l40s", 89, 0, 4, 864, "NVIDIA L40S data sheet"),
    ("L40", "l40", 89, 0, 4, 864, "NVIDIA L40 data sheet"),
    ("RTX 6000 Ada", "rtx 6000 ada", 89, 0, 4, 960, "NVIDIA RTX 6000 Ada data sheet"),
    ("GeForce RTX 4090", "rtx 4090", 89, 0, 4, 1008, "NVIDIA GeForce RTX 4090 specification"),
    ("GeForce RTX 4080 SUPER", "rtx 4080 super", 89, 0, 4, 736, "NVIDIA GeForce RTX 4080 SUPER specification"),
    ("GeForce RTX 4080", "rtx 4080", 89, 0, 4, 717, "NVIDIA GeForce RTX 4080 specification"),
    ("GeForce RTX 4070 Ti SUPER", "rtx 4070 ti super", 89, 0, 4, 672, "NVIDIA GeForce RTX 4070 specification"),
    ("GeForce RTX 4070", "rtx 4070", 89, 0, 4, 504, "NVIDIA GeForce RTX 4070 specification"),
    ("GeForce RTX 4060 Ti", "rtx 4060 ti", 89, 0, 4, 288, "NVIDIA GeForce RTX 4060 Ti specification"),
    ("GH200 144GB", "gh200 144g", 90, 18, 5, 4900, "NVIDIA GH200 data sheet"),
    ("GH200 96GB", "gh200", 90, 18, 5, 4000, "NVIDIA GH200 data sheet"),
    ("H800 PCIe", "h800 pcie", 90, 8, 5, 2000, "NVIDIA H800 data sheet"),
    ("H800 SXM5", "h800", 90, 8, 5, 3350, "NVIDIA H800 data sheet"),
    ("H20", "h20", 90, 18, 5, 4000, "NVIDIA H20 data sheet"),
    ("H100 NVL", "h100 nvl", 90, 12, 5, 3900, "NVIDIA H100 NVL data sheet"),
    ("H100 PCIe", "h100 pcie", 90, 12, 5, 2000, "NVIDIA H100 PCIe data sheet"),
    ("H100 SXM5", "h100", 90, 18, 5, 3350, "NVIDIA H100 data sheet"),
    ("H200 NVL", "h200 nvl", 90, 18, 5, 4800, "NVIDIA H200 NVL data sheet"),
    ("H200 SXM5", "h200", 90, 18, 5, 4800, "NVIDIA H200 data sheet"),
    ("GB200", "gb200", 100, 18, 5, 8000, "NVIDIA GB200 NVL72 data sheet"),
    ("B200", "b200", 100, 18, 5, 8000, "NVIDIA DGX B200 data sheet"),
    ("GB300", "gb300", 103, 18, 6, 8000, "NVIDIA GB300 NVL72 data sheet"),
    ("B300", "b300", 103, 18, 6, 8000, "NVIDIA DGX B300 data sheet"),
    ("RTX PRO 6000 Server", "rtx pro 6000 server", 120, 0, 5, 1597, "NVIDIA RTX PRO 6000 Server data sheet"),
    ("RTX PRO 6000", "rtx pro 6000", 120, 0, 5, 1792, "NVIDIA RTX PRO 6000 Workstation data sheet"),
    ("GeForce RTX 5090", "rtx 5090", 120, 0, 5, 1792, "NVIDIA GeForce RTX 5090 specification"),
    ("GeForce RTX 5080", "rtx 5080", 120, 0, 5, 960, "NVIDIA GeForce RTX 5080 specification"),
    ("GeForce RTX 5070 Ti", "rtx 5070 ti", 120, 0, 5, 896, "NVIDIA GeForce RTX 5070 Ti specification"),
    ("GeForce RTX 5070", "rtx 5070", 120, 0, 5, 672, "NVIDIA GeForce RTX 5070 specification"),
    ("GB10", "gb10", 121, 0, 5, 273, "NVIDIA DGX Spark data sheet"),
    ("Instinct MI100", "mi100", None, 3, 4, 1229, "AMD Instinct MI100 data sheet"),
    ("Instinct MI210", "mi210", None, 3, 4, 1638, "AMD Instinct MI210 data sheet"),
    ("Instinct MI250X", "mi250x", None, 8, 4, 3277, "AMD Instinct MI250X data sheet"),
    ("Instinct MI250", "mi250", None, 6, 4, 3277, "AMD Instinct MI250 data sheet"),
    ("Instinct MI300X", "mi300x", None, 7, 5, 5300, "AMD Instinct MI300X data sheet"),
    ("Instinct MI325X", "mi325x", None, 7, 5, 6000, "AMD Instinct MI325X data sheet"),
    ("Instinct MI350X", "mi350x", None, 7, 5, 8000, "AMD Instinct MI350X data sheet"),
)


_AMD_ARCHITECTURES = {
    "mi50": "gfx906",
    "mi60": "gfx906",
    "mi100": "gfx908",
    "mi210": "gfx90a",
    "mi250": "gfx90a",
    "mi300x": "gfx942",
    "mi325x": "gfx942",
    "mi350x": "gfx950",
}
"""AMD's architecture by a word of the product's name (AMD's data sheets)."""

_MAKERS = {"nvidia", "amd", "corporation", "tesla"}
"""Words that one source puts before a product's name and another leaves out."""

_MEMORY = re.compile(r"\d+gb?")


def gpu_model(name: str) -> GpuModel | None:
    """The product of a name such as `NVIDIA A100-SXM4-80GB` or `Tesla T4`; None where the table has no row for it."""
    words = _words(name)
    words |= {word.removesuffix("b") for word in words if _MEMORY.fullmatch(word)}
    for product, needed, capability, links, pcie_generation, memory_gb_per_s, source in _TABLE:
        if words.issuperset(needed.split()):
            return GpuModel(product, capability, links, pcie_generation, memory_gb_per_s * 1e9, source)
    return None


def amd_architecture(name: str) -> str | None:
    """AMD's architecture, `gfx90a`, of a product by its name, or of that name itself; None for others."""
    if re.fullmatch(r"gfx[0-9a-f]+", name):
        return name
    return next((known for product, known in _AMD_ARCHITECTURES.items() if product in name.lower()), None)


def is_same_product(one: str, other: str) -> bool:
    """Whether two names are of one product, as far as they tell: each source spells it in its own way.

    A name may leave out the memory (`A100`), or give AMD's architecture in place of a product; names that the table
    does not have must agree in all their words but the maker's.
    """
    if one.startswith("gfx") or other.startswith("gfx"):
        return amd_architecture(one) == amd_architecture(other)
    models = gpu_model(one), gpu_model(other)
    if models[0] is None or models[1] is None:
        return models[0] is models[1] and _words(one) - _MAKERS == _words(other) - _MAKERS
    if all(any(_MEMORY.fullmatch(word) for word in _words(name)) for name in (one, other)):
        return models[0] == models[1]
    return _without_memory(models[0].name) == _without_memory(models[1].name)


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", name.lower()))


def _without_memory(name: str) -> str:
    return " ".join(word for word in name.split() if not _MEMORY.fullmatch(word.lower()))


def gpu_model_names() -> tuple[str, ...]:
    """The words by which `gpu_model` knows each product, in the table's order."""
    return tuple(needed for _, needed, *_ in _TABLE)
