"""The models that can be scored: MODELS is the one table. A new one is a function and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from topo.errors import NameChoiceError

if TYPE_CHECKING:
    from validate.published.cases import Case
    from validate.scoring.predictor import Predictor


@dataclass(frozen=True, slots=True)
class Model:
    """One model: what it is, `module:function` that makes its predictor, and one that makes it from cases.

    A model without a `trainer` learns nothing from other runs. `knows_shipped_runs`: as it is shipped, it was fitted to
    the healthy runs that are shipped with it, and only cross-validation says what it does without them.
    """

    name: str
    summary: str
    target: str
    trainer: str = ""
    knows_shipped_runs: bool = False

    def predictor(self) -> Predictor:
        """The predictor as it is shipped."""
        return _resolve(self.target)()

    def train(self, cases: Sequence[Case]) -> Predictor:
        """The predictor that knows these cases alone; as it is shipped where it does not learn."""
        return _resolve(self.trainer)(cases) if self.trainer else self.predictor()


MODELS: Mapping[str, Model] = {
    row.name: row
    for row in (
        Model(
            "clock",
            "our fitted clock of NCCL's kernels",
            "validate.scoring.clock_model:clock_model",
            "validate.scoring.clock_model:trained_clock_model",
            knows_shipped_runs=True,
        ),
        Model("engines", "our engines, default profile (slow)", "validate.scoring.engines:EngineModel"),
        Model(
            "nccl",
            "NCCL 2.30's own estimate",
            "validate.scoring.nccl_model:nccl_model",
            "validate.scoring.nccl_model:trained_nccl_model",
        ),
        Model("textbook", "ring, 3 us a step, vendor's bandwidth", "validate.scoring.textbook:textbook"),
    )
}
"""Models by name."""

OURS = "clock"
"""The model that is scored where none is named."""
BASELINES = ("nccl", "textbook")
"""What stands beside it."""


def model(name: str) -> Model:
    """The model of that name; NameChoiceError with the nearest otherwise."""
    if name not in MODELS:
        raise NameChoiceError("model", name, MODELS)
    return MODELS[name]


def _resolve(target: str) -> Callable[..., Predictor]:
    module, _, name = target.partition(":")
    found: Callable[..., Predictor] = getattr(import_module(module), name)
    return found
