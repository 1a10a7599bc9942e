"""Builds the shipped profile from the shipped runs: `python -m validate.profiles [FOLDER]`.

The terms are fitted to all healthy runs. The bands are what leaving out one machine class at a time shows: each class
is predicted by terms fitted to the others, so that no row widens or narrows its own band. Those terms are written as
well, for whoever cross-validates.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sim.clock.facts import NO_NETWORK, facts_of
from sim.clock.jobs import shown_by
from sim.clock.profile import REGIMES, SCHEMA, SHIPPED, Band, FittedTerm, KernelProfile, regime_of
from sim.clock.terms import TERMS
from validate.clocked import Clocked, hint_of, jobs_of_case, train
from validate.scoring import left_out

if TYPE_CHECKING:
    from sim.clock.fit import Fitted
    from validate.published.cases import Case
    from validate.scoring.left_out import LeftOutTerms

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


def build_profile(cases: Sequence[Case], fitted: Fitted, without: LeftOutTerms) -> KernelProfile:
    """The terms fitted to these cases, with bands from those `without` one machine class at a time."""
    sources = len({case.run.source for case in cases})
    rows = sum(len(case.samples) for case in cases)
    seen = {facts_of(case.plan, hint_of(case)) for case in cases}
    kinds = {facts.generation for facts in seen} | {facts.fabric for facts in seen} - {NO_NETWORK}
    return KernelProfile(
        name=NAME,
        provenance=f"fitted to {rows} rows of {len(cases)} published runs from {sources} sources (validate/published)",
        terms=_terms(fitted),
        bands=bands_of(cases, without),
        seen=tuple(sorted(kinds)),
        seen_kernels=tuple(sorted({name for case in cases for name in shown_by(jobs_of_case(case))})),
    )


def _terms(fitted: Fitted) -> tuple[FittedTerm, ...]:
    columns = (fitted.values, fitted.log_errors, fitted.learned)
    return tuple(
        FittedTerm(term.name, *(float(f"{number:.4g}") for number in numbers))
        for term, *numbers in zip(TERMS, *(column.tolist() for column in columns), strict=True)
    )


def bands_of(cases: Sequence[Case], without: LeftOutTerms) -> tuple[Band, ...]:
    """Measured over predicted, by regime and by one node or several, of cases whose class was not fitted."""
    ratios: dict[tuple[str, bool], list[float]] = {}
    predictors = {row.machine_class: Clocked(np.array(row.values)) for row in without.rows}
    for case in cases:
        predicted_s = predictors[case.machine_class].times_s(case)
        for num_bytes, ratio in zip(case.num_bytes, case.measured_s / predicted_s, strict=True):
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
    """Write the profile and the terms without each class to where they ship, or below the folder named."""
    from topo.jsonio import encode

    folder = Path(arguments[0]) if arguments else None
    cases = healthy_cases()
    fitted = train(cases)
    without = left_out.fitted(cases, fitted.values)
    for shipped, value, schema in (
        (left_out.SHIPPED, without, left_out.SCHEMA),
        (SHIPPED, build_profile(cases, fitted, without), SCHEMA),
    ):
        target = shipped if folder is None else folder / shipped.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(encode(value, schema), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
