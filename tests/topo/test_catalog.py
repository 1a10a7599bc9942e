"""The table of hardware facts: spot values with their arithmetic, and rules that hold for every row."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from topo import catalog
from topo.catalog import GpuModel, gpu_model, pcie_generation
from topo.errors import NameChoiceError, TopologyError, UnitError
from topo.gpu_models import _TABLE, is_same_product

GB = 1e9


@pytest.mark.parametrize(
    ("capability", "links", "both_ways_gb_per_s", "nccl_gb_per_s"),
    [
        (60, 4, 160, 18),
        (70, 6, 300, 20),
        (75, 2, 100, 20),
        (80, 12, 600, 20),
        (86, 4, 112.5, 12),
        (90, 18, 900, 20.6),
        (100, 18, 1800, 40.1),
        (103, 18, 1800, 40.1),
    ],
)
def test_nvlink(capability: int, links: int, both_ways_gb_per_s: float, nccl_gb_per_s: float) -> None:
    assert 2 * links * catalog.nvlink_bytes_per_s(capability) == pytest.approx(both_ways_gb_per_s * GB)
    assert catalog.nvlink_effective_bytes_per_s(capability) == pytest.approx(nccl_gb_per_s * GB)


def test_nvlink_of_unknown_gpus() -> None:
    assert catalog.nvlink_bytes_per_s(None) == catalog.nvlink_bytes_per_s(52) == catalog.DEFAULT_NVLINK_BYTES_PER_S
    assert catalog.nvlink_effective_bytes_per_s(None) == 20 * GB


@pytest.mark.parametrize(
    ("generation", "lane_gb_per_s", "nccl_x16_gb_per_s"),
    [(1, 0.25, 3), (2, 0.5, 6), (3, 0.985, 12), (4, 1.969, 24), (5, 3.938, 48), (6, 7.5625, 96)],
)
def test_pcie(generation: int, lane_gb_per_s: float, nccl_x16_gb_per_s: float) -> None:
    assert catalog.pcie_bytes_per_s(generation, 1) == pytest.approx(lane_gb_per_s * GB, rel=1e-3)
    assert catalog.pcie_effective_bytes_per_s(generation, 16) == pytest.approx(nccl_x16_gb_per_s * GB)
    for width in (1, 2, 4, 8, 16):
        nominal = catalog.pcie_bytes_per_s(generation, width)
        assert catalog.pcie_effective_bytes_per_s(generation, width) < nominal
        assert catalog.pcie_generation_of(nominal, width) == generation


def test_pcie_refuses_what_does_not_exist() -> None:
    with pytest.raises(NameChoiceError, match="PCIe generation '9'"):
        catalog.pcie_bytes_per_s(9, 16)
    with pytest.raises(TopologyError, match="width 0"):
        catalog.pcie_bytes_per_s(4, 0)
    assert catalog.pcie_generation_of(1.0, 16) is None


@pytest.mark.parametrize(
    ("text", "generation"),
    [
        ("2.5 GT/s PCIe", 1),
        ("5 GT/s", 2),
        ("5.0 GT/s PCIe", 2),
        ("8.0 GT/s PCIe", 3),
        ("16 GT/s", 4),
        ("16.0 GT/s PCIe", 4),
        ("32GT/s", 5),
        ("64.0 GT/s PCIe", 6),
    ],
)
def test_pcie_speeds(text: str, generation: int) -> None:
    assert pcie_generation(text) == generation


@pytest.mark.parametrize("text", ["", "Unknown", "Unknown speed", "16", "7 GT/s", "-8 GT/s"])
def test_pcie_speeds_that_say_nothing(text: str) -> None:
    with pytest.raises(UnitError, match="as a PCIe speed: expected"):
        pcie_generation(text)


@pytest.mark.corpus
def test_every_speed_of_the_corpus_is_known_or_empty(corpus: Path) -> None:
    files = [*corpus.glob("machines/*.xml"), *corpus.glob("nccl-xml/*.xml")]
    texts = {text for file in files for text in re.findall(r'link_speed="([^"]*)"', file.read_text(errors="replace"))}
    assert {pcie_generation(text) for text in texts - {"", "Unknown"}} <= {1, 2, 3, 4, 5, 6}


@pytest.mark.parametrize(
    ("vendor", "family", "model", "name", "nccl_gb_per_s"),
    [
        ("GenuineIntel", 6, 79, "Intel Broadwell", 6),
        ("GenuineIntel", 6, 85, "Intel Skylake", 10),
        ("GenuineIntel", 6, 106, "Intel Ice Lake", 10),
        ("GenuineIntel", 6, 143, "Intel Sapphire Rapids", 22),
        ("GenuineIntel", 6, 207, "Intel Emerald Rapids", 40),
        ("GenuineIntel", None, None, "Intel Broadwell", 6),
        ("AuthenticAMD", 23, 1, "AMD Naples", 16),
        ("AuthenticAMD", 23, 49, "AMD Rome or Milan", 16),
        ("AuthenticAMD", 143, 49, "AMD Rome or Milan", 16),
        ("AuthenticAMD", 175, 1, "AMD Rome or Milan", 16),
        ("AuthenticAMD", 175, 17, "AMD Genoa", 16),
        ("AuthenticAMD", 25, 17, "AMD Genoa", 16),
        ("AuthenticAMD", 191, 2, "AMD Turin", 16),
        ("AuthenticAMD", None, None, "AMD Rome or Milan", 16),
        ("ARM", 0, 0, "Arm", 6),
        ("IBM", None, None, "IBM POWER9", 32),
        ("  Shanghai  ", 7, 0x5B, "Zhaoxin Yongfeng", 9),
        ("CentaurHauls", 7, 1, "Zhaoxin", 6),
        (None, None, None, "unknown processor", 5000),
        ("SomeoneElse", 6, 85, "unknown processor", 5000),
    ],
)
def test_cpus(vendor: str | None, family: int | None, model: int | None, name: str, nccl_gb_per_s: float) -> None:
    cpu = catalog.cpu_model(vendor, family, model)
    assert cpu.name == name
    assert cpu.source
    assert catalog.cpu_link_effective_bytes_per_s(vendor, family, model) == nccl_gb_per_s * GB
    assert 0 < catalog.cpu_link_bytes_per_s(vendor, family, model) < 1000 * GB
    assert 0 < catalog.cpu_memory_bytes_per_s(vendor, family, model) < 1000 * GB


@pytest.mark.parametrize(
    ("printed", "product", "capability", "links", "pcie"),
    [
        ("Tesla P100-SXM2-16GB", "P100 SXM2", 60, 4, 3),
        ("Tesla V100-SXM2-16GB", "V100 SXM", 70, 6, 3),
        ("Tesla V100-SXM3-32GB", "V100 SXM", 70, 6, 3),
        ("Tesla V100-PCIE-16GB", "V100 PCIe", 70, 0, 3),
        ("Tesla T4", "T4", 75, 0, 3),
        ("NVIDIA GeForce RTX 2080 Ti", "GeForce RTX 2080 Ti", 75, 2, 3),
        ("NVIDIA A100-SXM4-40GB", "A100 SXM4 40GB", 80, 12, 4),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM4 80GB", 80, 12, 4),
        ("NVIDIA A100-PCIE-40GB", "A100 PCIe 40GB", 80, 12, 4),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80GB", 80, 12, 4),
        ("NVIDIA A800-SXM4-80GB", "A800 SXM4", 80, 8, 4),
        ("NVIDIA A30", "A30", 80, 4, 4),
        ("NVIDIA A40", "A40", 86, 4, 4),
        ("NVIDIA A10", "A10", 86, 0, 4),
        ("NVIDIA A10G", "A10G", 86, 0, 4),
        ("NVIDIA RTX A6000", "RTX A6000", 86, 4, 4),
        ("NVIDIA RTX A4000", "RTX A4000", 86, 0, 4),
        ("NVIDIA GeForce RTX 3090", "GeForce RTX 3090", 86, 4, 4),
        ("NVIDIA GeForce RTX 4090", "GeForce RTX 4090", 89, 0, 4),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "GeForce RTX 4070 Ti SUPER", 89, 0, 4),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada", 89, 0, 4),
        ("NVIDIA L4", "L4", 89, 0, 4),
        ("NVIDIA L40S", "L40S", 89, 0, 4),
        ("NVIDIA H100 80GB HBM3", "H100 SXM5", 90, 18, 5),
        ("NVIDIA H100 PCIe", "H100 PCIe", 90, 12, 5),
        ("NVIDIA H100 NVL", "H100 NVL", 90, 12, 5),
        ("NVIDIA H800", "H800 SXM5", 90, 8, 5),
        ("NVIDIA H200", "H200 SXM5", 90, 18, 5),
        ("NVIDIA GH200 480GB", "GH200 96GB", 90, 18, 5),
        ("NVIDIA B200", "B200", 100, 18, 5),
        ("NVIDIA GB200", "GB200", 100, 18, 5),
        ("NVIDIA B300 SXM6 AC", "B300", 103, 18, 6),
        ("NVIDIA GB300", "GB300", 103, 18, 6),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Server", 120, 0, 5),
        ("NVIDIA GeForce RTX 5090", "GeForce RTX 5090", 120, 0, 5),
        ("AMD Instinct MI210", "Instinct MI210", None, 3, 4),
        ("AMD Instinct MI250X", "Instinct MI250X", None, 8, 4),
        ("AMD Instinct MI300X", "Instinct MI300X", None, 7, 5),
    ],
)
def test_gpus(printed: str, product: str, capability: int | None, links: int, pcie: int) -> None:
    model = gpu_model(printed)
    assert model is not None
    assert (model.name, model.compute_capability, model.nvlink_links, model.pcie_generation) == (
        product,
        capability,
        links,
        pcie,
    )
    assert model.memory_bytes_per_s > 100 * GB


@pytest.mark.parametrize("printed", ["", "NVIDIA", "GPU0", "NVIDIA GeForce GT 710", "Quadro K620", "llama4"])
def test_unknown_gpus_are_none(printed: str) -> None:
    assert gpu_model(printed) is None


PRODUCTS = [row[0] for row in _TABLE]
SPELLINGS = ("NVIDIA {}", "Tesla {}", "AMD {}", "{} [10de:2330]")


@pytest.mark.parametrize("product", PRODUCTS)
def test_a_product_is_one_however_it_is_spelled_and_no_other(product: str) -> None:
    names = [product, product.lower(), product.replace(" ", "-"), *(words.format(product) for words in SPELLINGS)]
    assert all(is_same_product(one, other) for one in names for other in names)
    bare = re.sub(r" \d+GB", "", product)
    for other in PRODUCTS:
        same = other == product or (bare == product and re.sub(r" \d+GB", "", other) == bare)
        assert is_same_product(product, other) == is_same_product(other, product) == same


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("H100", "NVIDIA H100 80GB HBM3", True),
        ("NVIDIA H100", "NVIDIA H100 80GB HBM3", True),
        ("NVIDIA H100 PCIe", "NVIDIA H100 80GB HBM3", False),
        ("A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB", True),
        ("A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB", False),
        ("A100", "NVIDIA A100-SXM4-80GB", True),
        ("A100", "NVIDIA A100 80GB PCIe", False),
        ("NVIDIA A100 80GB PCIe", "A100-PCIE-80GB", True),
        ("NVIDIA GH200 120GB", "GH200 480GB", True),
        ("gfx90a", "AMD Instinct MI250X", True),
        ("gfx942", "AMD Instinct MI250X", False),
        ("gfx942", "gfx942", True),
        ("gfx942", "NVIDIA H100", False),
        ("NVIDIA Graphics Device", "Graphics Device", True),
        ("NVIDIA Graphics Device", "NVIDIA B200", False),
        ("GeForce RTX 2080", "NVIDIA GeForce RTX 2080 Ti", False),
    ],
)
def test_names_that_sources_give(one: str, other: str, same: bool) -> None:
    assert is_same_product(one, other) == is_same_product(other, one) == same


@pytest.mark.parametrize(("lanes", "words"), [(1, "x1"), (4, "x4"), (16, "x16"), (32, "32 lanes"), (96, "96 lanes")])
def test_no_slot_has_more_lanes_than_products_have(lanes: int, words: str) -> None:
    assert catalog.pcie_width_words(lanes) == words


def test_every_gpu_row_is_found_by_its_own_name() -> None:
    for row in _TABLE:
        model = gpu_model(row[1])
        assert isinstance(model, GpuModel)
        assert model.name == row[0], f"{row[0]!r} is hidden by {model.name!r}, which stands above it"


def test_other_links() -> None:
    assert 2 * 7 * catalog.xgmi_bytes_per_s("gfx942") == pytest.approx(896 * GB)
    assert catalog.xgmi_bytes_per_s(None) == catalog.xgmi_bytes_per_s("gfx90a") == 50 * GB
    assert catalog.c2c_bytes_per_s(90) == 450 * GB
    assert catalog.c2c_bytes_per_s(100) == 225 * GB
    assert catalog.LOOPBACK_BYTES_PER_S > 0
