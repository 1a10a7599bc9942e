"""How many NVLinks of a product are up on a healthy machine: all of a module's, as many as bridges join of a card's."""

from __future__ import annotations

import re

from topo.gpu_models import GpuModel

_BRIDGED: tuple[tuple[str, tuple[int, ...], str], ...] = (
    (r"A100 PCIe", (0, 4, 8, 12), "up to three bridges of 4 links: NVIDIA A100 PCIe product brief"),
    (r"A800 PCIe", (0, 4, 8), "bridges of 4 links: NVIDIA A800 data sheet"),
    (r"H100 (?:PCIe|NVL)", (0, 4, 8, 12), "up to three bridges of 4 links: NVIDIA H100 NVL product brief"),
    (r"H800 PCIe", (0, 4, 8), "bridges of 4 links: NVIDIA H800 data sheet"),
    (r"H200 NVL", (0, 6, 12, 18), "bridges for two or four cards: NVIDIA H200 NVL product brief"),
    (r"A30|A40|RTX A|GeForce RTX 3", (0, 4), "one bridge of 4 links: NVIDIA A30, A40 and RTX A6000 data sheets"),
    (r"TITAN RTX|Quadro RTX|GeForce RTX 2", (0, 1, 2), "one bridge of 1 or 2 links: NVIDIA Turing data sheets"),
)
"""Cards (product by regular expression), the counts that bridges give, and the source."""

_MODULES = r"A100 SXM|A800 SXM|H100 SXM|H800 SXM|H200 SXM|H20$|B200|B300"
"""Modules on a board on which every link is wired, to NVSwitches or to the other modules."""

_SUPERCHIPS = r"GH200"
"""Superchips that come alone, without any NVLink peer, or wired in full."""


def healthy_counts(model: GpuModel | None) -> tuple[int, ...] | None:
    """How many NVLinks may be up by design; None where the product (or the board it sits on) leaves that open."""
    if model is None:
        return None
    if model.nvlink_links == 0:
        return (0,)
    for pattern, counts, _ in _BRIDGED:
        if re.match(pattern, model.name):
            return counts
    if re.search(_SUPERCHIPS, model.name):
        return (0, model.nvlink_links)
    return (model.nvlink_links,) if re.search(_MODULES, model.name) else None


def is_bridged_card(model: GpuModel | None) -> bool:
    """Whether the product is a card whose NVLinks lead nowhere until a bridge is plugged onto it."""
    counts = healthy_counts(model)
    return (
        counts is not None
        and 0 in counts
        and max(counts) > 0
        and not re.search(_SUPERCHIPS, model.name if model else "")
    )


def is_module(model: GpuModel | None) -> bool:
    """Whether the product is a module (SXM) that is never built without NVLinks to its neighbours."""
    return model is not None and bool(re.search(rf"SXM|{_MODULES}", model.name))
