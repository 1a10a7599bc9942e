"""Why a row may be LOW, from what its measurement says of itself: settings that cost speed, and how slow it is.

Nothing here is proof. Each suspect is named with what speaks for it and how to find out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from validate.compare import Comparison

FAR_BELOW = 0.4
"""Below this share of the predicted speed another way is taken, not the same one more slowly."""

LARGE_BYTES = 4 * 2**20
"""From here on links decide rather than latencies."""


@dataclass(frozen=True, slots=True)
class _Cause:
    """A setting that costs speed: when it does, and what it does then."""

    applies: Callable[[str], bool]
    effect: str


def _is_on(value: str) -> bool:
    return value.strip() not in ("", "0")


def _is_off(value: str) -> bool:
    return value.strip() == "0"


def _always(value: str) -> bool:
    return bool(value.strip())


# What chooses how NCCL runs (validate.as_run) is predicted as it was, and no suspect.
SETTINGS: Mapping[str, _Cause] = {
    "NCCL_P2P_DISABLE": _Cause(_is_on, "sends what GPUs have for each other through host memory"),
    "NCCL_P2P_LEVEL": _Cause(_always, "decides which GPUs reach each other directly, in place of NCCL's own rule"),
    "NCCL_SHM_DISABLE": _Cause(_is_on, "sends over the network what host memory could carry"),
    "NCCL_NVLS_ENABLE": _Cause(_is_off, "keeps NVSwitch from reducing (NVLS)"),
    "NCCL_IB_DISABLE": _Cause(_is_on, "leaves InfiniBand and RoCE unused: sockets carry the network's traffic"),
    "NCCL_NET": _Cause(lambda value: value.strip().lower() == "socket", "has sockets carry the network's traffic"),
    "NCCL_NET_GDR_LEVEL": _Cause(lambda value: value.strip().upper() in ("0", "LOC"), "keeps NICs from reading GPUs"),
    "NCCL_NET_DISABLE_INTRA": _Cause(_is_on, "keeps GPUs of one node from using a NIC between them"),
    "NCCL_TOPO_FILE": _Cause(_always, "has NCCL plan for the machine that the file describes"),
}


def suspects(comparisons: Sequence[Comparison], num_nodes: int = 1) -> list[str]:
    """Sentences about what may make rows LOW; none where no row is."""
    low = [row for row in comparisons if row.verdict == "LOW"]
    return list(dict.fromkeys(_settings(low))) or list(_ways(low, num_nodes))


def _settings(low: Sequence[Comparison]) -> Iterator[str]:
    for row in low:
        for setting in row.measurement.environment:
            cause = SETTINGS.get(setting.name)
            if cause is not None and cause.applies(setting.value):
                yield (
                    f"suspect: {setting.name}={setting.value} {cause.effect}; measure without it, or predict with it "
                    f"(topo simulate --env {setting.name}={setting.value})"
                )


def _ways(low: Sequence[Comparison], num_nodes: int) -> Iterator[str]:
    """What is far below at sizes where links decide takes another way than the prediction."""
    far = [row for row in low if row.ratio < FAR_BELOW and row.measurement.workload.num_bytes >= LARGE_BYTES]
    if not far or any(row.measurement.backend == "gloo" for row in far):
        return
    if num_nodes > 1:
        yield (
            "suspect: the network carries far less than its NICs can: sockets in place of RDMA (the NCCL log says "
            "NET/Socket), or NICs that do not reach GPUs directly (GDR)"
        )
    else:
        yield (
            "suspect: GPUs do not reach each other directly (P2P): the NCCL log says via SHM, nvidia-smi topo -p2p r "
            "shows the pairs; ACS or the IOMMU may be the cause"
        )
