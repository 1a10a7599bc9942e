"""Peaks of GPU products: found by any name of theirs, ordered as precisions are."""

from __future__ import annotations

import pytest

from topo.errors import NameChoiceError
from topo.gpu_models import gpu_model
from topo.gpu_rates import PRECISIONS, gpu_rate, gpu_rate_by_capability
from topo.presets import PRESETS, preset

WITHOUT_A_RATE = {"GB10", "RTX PRO 6000 Server"}


@pytest.mark.parametrize(
    ("name", "bf16_flops_per_s"),
    [
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA H20", 148e12),
        ("Tesla V100-SXM2-16GB", 15.7e12),
        ("NVIDIA B200", 2250e12),
        ("AMD Instinct MI300X", 1307.4e12),
    ],
)
def test_products_by_what_they_print(name: str, bf16_flops_per_s: float) -> None:
    rate = gpu_rate(name)
    assert rate is not None
    assert rate.peak_flops_per_s("bf16") == bf16_flops_per_s
    found = gpu_model(name)
    assert found is not None
    assert rate.memory_bytes_per_s == found.memory_bytes_per_s


def test_narrower_numbers_are_never_slower() -> None:
    for capability in (60, 70, 75, 80, 90, 100, 103):
        rate = gpu_rate_by_capability(capability)
        assert rate is not None
        peaks = [rate.peak_flops_per_s(precision) for precision in ("fp32", "tf32", "fp16")]
        assert peaks == sorted(peaks)


def test_unknown_products_and_precisions() -> None:
    assert gpu_rate("Voodoo 3") is None
    assert gpu_rate_by_capability(10) is None
    rate = gpu_rate_by_capability(90)
    assert rate is not None
    with pytest.raises(NameChoiceError, match="did you mean 'fp16'"):
        rate.peak_flops_per_s("fp8")
    assert all(rate.peak_flops_per_s(precision) > 0 for precision in PRECISIONS)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_most_presets_name_a_gpu_with_a_rate(name: str) -> None:
    models = {device.model for device in preset(name).of_kind("gpu") if device.model}
    for model in models - WITHOUT_A_RATE:
        assert gpu_rate(model) is not None, model
