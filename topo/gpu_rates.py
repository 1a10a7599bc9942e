"""How fast GPU products multiply matrices at best: dense peaks from their data sheets, by precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from topo.errors import NameChoiceError
from topo.gpu_models import gpu_model

Precision = Literal["fp32", "tf32", "fp16", "bf16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


@dataclass(frozen=True, slots=True)
class GpuRate:
    """One product's dense peaks in floating-point operations per second (no sparsity), with their source.

    None where the product has no unit for that precision: it then runs at its fp32 rate. `product` is a name of
    `topo.gpu_models`, `memory_bytes_per_s` the rate of its memory, None where no product is known.
    """

    product: str
    fp32_flops_per_s: float
    tf32_flops_per_s: float | None
    fp16_flops_per_s: float | None
    bf16_flops_per_s: float | None
    source: str
    memory_bytes_per_s: float | None = None

    def peak_flops_per_s(self, precision: str) -> float:
        """The dense peak under a precision; NameChoiceError for one that is none of PRECISIONS."""
        if precision not in PRECISIONS:
            raise NameChoiceError("precision", precision, PRECISIONS)
        found: float | None = getattr(self, f"{precision}_flops_per_s")
        return self.fp32_flops_per_s if found is None else found


# Product as in topo.gpu_models | TFLOP/s dense: fp32 (vector), tf32, fp16, bf16 (matrix units) | source.
# Data sheets that give matrix rates with sparsity alone are halved.
_TABLE: tuple[tuple[str, float, float | None, float | None, float | None, str], ...] = (
    ("P100 PCIe", 9.3, None, 18.7, None, "NVIDIA Tesla P100 data sheet"),
    ("P100 SXM2", 10.6, None, 21.2, None, "NVIDIA Tesla P100 data sheet"),
    ("V100S PCIe", 16.4, None, 130, None, "NVIDIA V100 data sheet"),
    ("V100 PCIe", 14, None, 112, None, "NVIDIA V100 data sheet"),
    ("V100 SXM", 15.7, None, 125, None, "NVIDIA V100 data sheet"),
    ("T4", 8.1, None, 65, None, "NVIDIA T4 data sheet"),
    ("GeForce RTX 2080 Ti", 13.4, None, 53.8, None, "NVIDIA Turing whitepaper"),
    ("A800 PCIe", 19.5, 156, 312, 312, "NVIDIA A800 data sheet"),
    ("A800 SXM4", 19.5, 156, 312, 312, "NVIDIA A800 data sheet"),
    ("A100 PCIe 80GB", 19.5, 156, 312, 312, "NVIDIA A100 data sheet"),
    ("A100 PCIe 40GB", 19.5, 156, 312, 312, "NVIDIA A100 data sheet"),
    ("A100 SXM4 80GB", 19.5, 156, 312, 312, "NVIDIA A100 data sheet"),
    ("A100 SXM4 40GB", 19.5, 156, 312, 312, "NVIDIA A100 data sheet"),
    ("A30", 10.3, 82, 165, 165, "NVIDIA A30 data sheet"),
    ("A40", 37.4, 74.8, 149.7, 149.7, "NVIDIA A40 data sheet"),
    ("A10", 31.2, 62.5, 125, 125, "NVIDIA A10 data sheet"),
    ("RTX A6000", 38.7, 77.4, 154.8, 154.8, "NVIDIA RTX A6000 data sheet"),
    ("RTX A5000", 27.8, 55.6, 111.1, 111.1, "NVIDIA RTX A5000 data sheet"),
    ("GeForce RTX 3090", 35.6, 35.6, 71, 71, "NVIDIA Ampere GA102 whitepaper"),
    ("L4", 30.3, 60, 121, 121, "NVIDIA L4 data sheet"),
    ("L40S", 91.6, 183, 362, 362, "NVIDIA L40S data sheet"),
    ("L40", 90.5, 90.5, 181, 181, "NVIDIA L40 data sheet"),
    ("GeForce RTX 4090", 82.6, 82.6, 165.2, 165.2, "NVIDIA Ada whitepaper"),
    ("GeForce RTX 4070 Ti SUPER", 44.1, 44.1, 88.2, 88.2, "NVIDIA Ada whitepaper"),
    ("GH200 144GB", 67, 494, 989, 989, "NVIDIA GH200 data sheet"),
    ("GH200 96GB", 67, 494, 989, 989, "NVIDIA GH200 data sheet"),
    ("H800 PCIe", 51, 378, 756, 756, "NVIDIA H800 data sheet"),
    ("H800 SXM5", 67, 494, 989, 989, "NVIDIA H800 data sheet"),
    ("H20", 44, 74, 148, 148, "NVIDIA H20 data sheet"),
    ("H100 NVL", 60, 417, 835, 835, "NVIDIA H100 data sheet"),
    ("H100 PCIe", 51, 378, 756, 756, "NVIDIA H100 data sheet"),
    ("H100 SXM5", 67, 494, 989, 989, "NVIDIA H100 data sheet"),
    ("H200 NVL", 60, 417, 835, 835, "NVIDIA H200 data sheet"),
    ("H200 SXM5", 67, 494, 989, 989, "NVIDIA H200 data sheet"),
    ("GB200", 80, 1250, 2500, 2500, "NVIDIA GB200 NVL72 data sheet"),
    ("B200", 75, 1125, 2250, 2250, "NVIDIA HGX B200 data sheet"),
    ("GB300", 80, 1250, 2500, 2500, "NVIDIA GB300 NVL72 data sheet"),
    ("B300", 75, 1125, 2250, 2250, "NVIDIA HGX B300 data sheet"),
    ("GeForce RTX 5090", 104.8, 104.8, 209.5, 209.5, "NVIDIA Blackwell whitepaper"),
    ("Instinct MI100", 46.1, None, 184.6, 92.3, "AMD Instinct MI100 data sheet"),
    ("Instinct MI210", 45.3, None, 181, 181, "AMD Instinct MI210 data sheet"),
    ("Instinct MI250X", 95.7, None, 383, 383, "AMD Instinct MI250X data sheet"),
    ("Instinct MI250", 90.5, None, 362.1, 362.1, "AMD Instinct MI250 data sheet"),
    ("Instinct MI300X", 163.4, 653.7, 1307.4, 1307.4, "AMD Instinct MI300X data sheet"),
    ("Instinct MI325X", 163.4, 653.7, 1307.4, 1307.4, "AMD Instinct MI325X data sheet"),
)

_BY_CAPABILITY = {
    60: "P100 SXM2",
    70: "V100 SXM",
    75: "T4",
    80: "A100 SXM4 80GB",
    90: "H100 SXM5",
    100: "B200",
    103: "B300",
}
"""The product that stands for a compute capability where no name is known."""


def gpu_rate(name: str) -> GpuRate | None:
    """The peaks of the product that a name such as `NVIDIA A100-SXM4-80GB` means; None where no row has it."""
    model = gpu_model(name)
    if model is None:
        return None
    for product, fp32, tf32, fp16, bf16, source in _TABLE:
        if product == model.name:
            return GpuRate(
                product,
                fp32 * 1e12,
                _tera(tf32),
                _tera(fp16),
                _tera(bf16),
                source,
                model.memory_bytes_per_s,
            )
    return None


def gpu_rate_by_capability(compute_capability: int) -> GpuRate | None:
    """The peaks of the product that stands for a compute capability (ten times CUDA's); None where none does."""
    product = _BY_CAPABILITY.get(compute_capability)
    return None if product is None else gpu_rate(product)


def _tera(rate: float | None) -> float | None:
    return None if rate is None else rate * 1e12
