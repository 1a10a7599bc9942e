"""The shipped profile is what its build makes of the shipped runs, and its bands hold what they promise."""

from __future__ import annotations

import numpy as np
import pytest

from sim.clock.facts import NO_NETWORK, facts_of
from sim.clock.profile import REGIMES, load_kernels, regime_of
from validate.clocked import Clocked, hint_of, train
from validate.profiles import healthy_cases
from validate.published.cases import Case


@pytest.fixture(scope="module")
def cases() -> tuple[Case, ...]:
    return healthy_cases()


def test_the_shipped_terms_are_what_the_shipped_runs_give(cases: tuple[Case, ...]) -> None:
    found = train(cases)
    shipped = load_kernels()
    np.testing.assert_allclose(shipped.values, found.values, rtol=0.03)
    learned = np.array([term.learned for term in shipped.terms])
    np.testing.assert_allclose(learned, found.learned, atol=0.05)
    assert f"{sum(len(case.samples) for case in cases)} rows" in shipped.provenance


def test_what_was_seen_is_named(cases: tuple[Case, ...]) -> None:
    facts = [facts_of(case.plan, hint_of(case)) for case in cases]
    seen = {one.generation for one in facts} | {one.fabric for one in facts} - {NO_NETWORK}
    assert set(load_kernels().seen) == seen


def test_four_of_five_rows_lie_within_their_band(cases: tuple[Case, ...]) -> None:
    """Of the fit to all runs, which knows every row: there must be no fewer than of runs held back."""
    profile = load_kernels()
    predictor = Clocked(np.array(profile.values))
    inside: dict[str, list[bool]] = {regime: [] for regime in REGIMES}
    for case in cases:
        for num_bytes, ratio in zip(case.num_bytes, case.measured_s / predictor.times_s(case), strict=True):
            band = profile.band(num_bytes, several_nodes=case.num_nodes > 1)
            assert band is not None
            low, high = band
            inside[regime_of(num_bytes)].append(low <= ratio <= high)
    for regime, rows in inside.items():
        assert np.mean(rows) >= 0.8, regime
