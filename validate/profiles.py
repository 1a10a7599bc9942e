"""Builds the shipped profile from the shipped runs: `python -m validate.profiles [FILE]`.

The terms are fitted to all healthy runs. The bands are what leaving out one machine class at a time shows: each class
is predicted by terms fitted to the others, so that no row widens or narrows its own band.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sim.clock.facts import NO_NETWORK, facts_of
from sim.clock.profile import REGIMES, SCHEMA, SHIPPED, Band, FittedTerm, KernelProfile, regime_of
from sim.clock.terms import TERMS
from validate.clocked import Clocked, hint_of, train

if TYPE_CHECKING:
    from sim.clock.fit import Fitted
    from validate.published.cases import Case

NAME = "nccl-fitted"
QUANTILES = (0.1, 0.9)
FEWEST_ROWS = 20
"""Fewer rows than this make no band of their own."""


def healthy_cases() -> tuple[Case, ...]:
    """The shipped runs that their curator calls healthy."""
    from validate.published.cases import cases_of
    from validate.published.runs import shipped_runs

    found = cases_of(run for run in shipped_runs() if run.quality == "healthy")
    return found.cases


def build_profile(cases: Sequence[Case]) -> KernelProfile:
    """The terms fitted to these cases, with bands from leaving out one machine class at a time."""
    fitted = train(cases)
    sources = len({case.run.source for case in cases})
    rows = sum(len(case.samples) for case in cases)
    seen = {facts_of(case.plan, hint_of(case)) for case in cases}
    kinds = {facts.generation for facts in seen} | {facts.fabric for facts in seen} - {NO_NETWORK}
    return KernelProfile(
        name=NAME,
        provenance=f"fitted to {rows} rows of {len(cases)} published runs from {sources} sources (validate/published)",
        terms=_terms(fitted),
        bands=bands_of(cases, fitted),
        seen=tuple(sorted(kinds)),
    )


def _terms(fitted: Fitted) -> tuple[FittedTerm, ...]:
    columns = (fitted.values, fitted.log_errors, fitted.learned)
    return tuple(
        FittedTerm(term.name, *(float(f"{number:.4g}") for number in numbers))
        for term, *numbers in zip(TERMS, *(column.tolist() for column in columns), strict=True)
    )


def bands_of(cases: Sequence[Case], fitted: Fitted) -> tuple[Band, ...]:
    """Measured over predicted, by regime and by one node or several, of cases whose class was not fitted.

    `fitted` are the terms of all cases, from which each of these fits starts.
    """
    ratios: dict[tuple[str, bool], list[float]] = {}
    for name in sorted({case.machine_class for case in cases}):
        rest = [case for case in cases if case.machine_class != name]
        if not rest:
            continue
        predictor = Clocked(train(rest, fitted.values).values)
        for case in cases:
            if case.machine_class == name:
                for num_bytes, ratio in zip(case.num_bytes, case.measured_s / predictor.times_s(case), strict=True):
                    ratios.setdefault((regime_of(num_bytes), case.num_nodes > 1), []).append(float(ratio))
    bands = []
    for regime in REGIMES:
        for several in (False, True):
            rows = ratios.get((regime, several), [])
            if len(rows) >= FEWEST_ROWS:
                low, high = (float(f"{edge:.3g}") for edge in np.quantile(rows, QUANTILES))
                bands.append(Band(regime, several, low, high, len(rows)))
    return tuple(bands)


def main(arguments: Sequence[str]) -> None:
    """Write the profile to the file named, or to where it ships."""
    from topo.jsonio import encode

    target = Path(arguments[0]) if arguments else SHIPPED
    target.parent.mkdir(exist_ok=True)
    target.write_text(encode(build_profile(healthy_cases()), SCHEMA), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
