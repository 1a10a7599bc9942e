"""NCCL 2.30's own estimate as a baseline: what its tuner expects of the way that it (or the run) chose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sim.planners.nccl_2_30.estimate import Parts, parts_of
from validate.scoring.scaled import ScaledModel, Terms

if TYPE_CHECKING:
    from sim.planners.nccl_2_30 import Choice
    from validate.published.cases import Case


def nccl_model() -> ScaledModel:
    """NCCL's constants as they are; silent on all-to-all and sends, of which its tuner knows nothing."""
    return ScaledModel(nccl_terms)


def trained_nccl_model(cases: Sequence[Case]) -> ScaledModel:
    """NCCL's model with the three numbers that fit these cases best."""
    return nccl_model().trained(cases)


def nccl_terms(case: Case) -> Terms:
    """Latency and bytes over bandwidth of each sample's choice, corrections for its size included."""
    latency_s = np.full(len(case.samples), np.nan)
    moving_s = np.full(len(case.samples), np.nan)
    for place, choice in enumerate(case.choices):
        if choice is None:
            continue
        part = _parts(case, choice)
        latency_s[place] = part.latency_s
        moving_s[place] = choice.num_bytes / part.bytes_per_s
    return Terms(latency_s, moving_s)


def _parts(case: Case, choice: Choice) -> Parts:
    communicator = case.plan.communicator
    work = case.workloads[0]
    parts = parts_of(
        case.plan.table,
        communicator.machine,
        communicator.num_channels,
        choice.collective,
        choice.num_bytes,
        dtype=work.dtype,
        reduction=work.reduction,
    )
    return parts[choice.algorithm, choice.protocol]
