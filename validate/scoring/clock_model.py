"""Our clock of NCCL's kernels as a model: with the shipped profile, or with terms that other cases alone taught."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sim.clock.profile import load_kernels
from validate.clocked import Clocked, train
from validate.scoring.left_out import digest_of, remembered

if TYPE_CHECKING:
    from validate.published.cases import Case


def clock_model() -> Clocked:
    """The terms as they are shipped, fitted to all healthy runs that come with the program."""
    return Clocked(np.array(load_kernels().values))


def trained_clock_model(cases: Sequence[Case]) -> Clocked:
    """Terms fitted to these cases alone: those shipped for a class that is left out, else fitted now (seconds)."""
    values = remembered().get(digest_of(cases))
    return Clocked(train(cases).values if values is None else np.array(values))
