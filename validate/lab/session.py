"""A whole run of the lab: fabric after fabric, with everything removed at its end, whatever that is."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from validate.compare import Comparison
from validate.lab.fabric import Fabric
from validate.lab.namespaces import guarded, own_prefix, remove_leftovers, require_lab
from validate.lab.order import Order, orders
from validate.lab.trial import Request, Trial, interrupted, load_average, run_trial
from validate.launch import ending_tidily, require_torch, untold

LEAST_S = 1.0


@dataclass(frozen=True, slots=True)
class Lab:
    """All trials. `load` is the load average before the first, `failure` one sentence where not all came to an end.

    `leftovers` are namespaces of dead runs that were found and removed.
    """

    trials: tuple[Trial, ...]
    load: float | None = None
    leftovers: tuple[str, ...] = ()
    failure: str | None = None

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Those of all fabrics."""
        return tuple(row for trial in self.trials for row in trial.comparisons)

    @property
    def orders(self) -> tuple[tuple[str, Order], ...]:
        """The order of the algorithms for each fabric and size."""
        return tuple((trial.fabric, order) for trial in self.trials for order in orders(trial.comparisons))


def run_lab(fabrics: Sequence[Fabric], request: Request, *, tell: Callable[[str], None] = untold) -> Lab:
    """Build each fabric in turn, measure on it and compare; results so far are kept when it ends early.

    EnvironmentMissing where this machine cannot build a lab. When this returns, nothing of any fabric is left.
    """
    require_lab()
    require_torch()
    load, prefix = load_average(), own_prefix()
    leftovers = remove_leftovers()
    trials: list[Trial] = []
    deadline_s = time.monotonic() + request.timeout_s
    failure = None
    with ending_tidily():
        try:
            with guarded(prefix):
                for fabric in fabrics:
                    left_s = max(deadline_s - time.monotonic(), LEAST_S)
                    trials.append(run_trial(fabric, replace(request, timeout_s=left_s), prefix, tell=tell))
                    failure = trials[-1].failure
                    if failure is not None:
                        break
        except (KeyboardInterrupt, SystemExit) as ending:
            failure = interrupted(ending)
    return Lab(tuple(trials), load, leftovers, failure)
