"""What spares the search work: exact on its own terms, and without any effect on what is found."""

from __future__ import annotations

from itertools import permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.planners.nccl_2_30.domains import Domain, find_domains
from sim.planners.nccl_2_30.from_topology import spec_from_topology
from sim.planners.nccl_2_30.front_door import plan_machine
from sim.planners.nccl_2_30.fruitless import Fruitless, State, Used
from sim.planners.nccl_2_30.graphs import Pattern, Trial
from sim.planners.nccl_2_30.ground import prepare
from sim.planners.nccl_2_30.kinds import GIGA, PathKind
from sim.planners.nccl_2_30.options import NcclOptions
from sim.planners.nccl_2_30.requests import find_graphs
from sim.planners.nccl_2_30.trunks import HEADS, Trunk, Trunks, fit
from topo.cluster import Cluster
from topo.presets import preset

NO_P2P = {"NCCL_P2P_DISABLE": "1"}


def trial_at(pattern: Pattern, bytes_per_s: float, num_channels: int = 2) -> Trial:
    return Trial(pattern, 0, PathKind.SYS, PathKind.SYS, False, bytes_per_s, bytes_per_s, num_channels, num_channels)


def fits_by_trying(trunks: list[Trunk], trial: Trial, num_channels: int) -> bool:
    """Whether any order of the GPUs in each channel leaves every trunk enough."""
    heads = HEADS[trial.pattern]
    for orders in product(permutations(range(len(trunks))), repeat=num_channels):
        left = [trunk.bytes_per_s for trunk in trunks]
        for order in orders:
            for place, gpu in enumerate(order):
                if place < heads:
                    left[gpu] -= trial.inter_bytes_per_s / heads * trunks[gpu].share_to_net
                if place < len(trunks) - 1:
                    left[gpu] -= trial.intra_bytes_per_s * trunks[gpu].share_to_gpu
        if min(left) >= 0:
            return True
    return False


@settings(max_examples=60)
@given(
    gigas=st.lists(st.integers(1, 12), min_size=3, max_size=4),
    shares=st.tuples(st.sampled_from([1.0, 1.5]), st.sampled_from([1.0, 1.5])),
    pattern=st.sampled_from(sorted(HEADS)),
    num_channels=st.integers(1, 2),
)
def test_fits_where_some_order_fits(
    gigas: list[int], shares: tuple[float, float], pattern: Pattern, num_channels: int
) -> None:
    trunks = [Trunk(giga * 1.0 * GIGA, *shares) for giga in gigas]
    trial = trial_at(pattern, 2.0 * GIGA)
    assert fit(trunks, trial, num_channels) == fits_by_trying(trunks, trial, num_channels)


def domains_of(name: str, environment: dict[str, str]) -> tuple[Domain, ...]:
    return find_domains(spec_from_topology(preset(name)), 1, NcclOptions.from_environment(environment))


@pytest.mark.parametrize(("giga", "expected"), [(22.0, 1), (20.0, 1), (17.5, 1), (15.0, 2)])
def test_half_a_host_whose_gpus_leave_by_pcie_alone(giga: float, expected: int) -> None:
    """A Gen5 link of 48 GB/s, charged 6/5 towards the processor: at 17.5 GB/s it carries 21, and 31.5 at a head."""
    domains = domains_of("dgx-h100", NO_P2P)
    assert [len(domain.ranks) for domain in domains] == [4, 4]
    for domain in domains:
        trunks = Trunks(prepare(domain, NcclOptions.from_environment(NO_P2P)))
        assert trunks.most_channels(trial_at(Pattern.BALANCED_TREE, giga * GIGA), 2) == expected


def test_nvlink_is_no_trunk() -> None:
    (domain,) = domains_of("dgx-h100", {})
    assert Trunks(prepare(domain, NcclOptions())).most_channels(trial_at(Pattern.TREE, 400.0 * GIGA), 2) == 2


@pytest.mark.parametrize(("name", "environment"), [("p3dn-v100", NO_P2P), ("gcp-a3mega", NO_P2P), ("dgx-h100", {})])
def test_what_found_nothing_once_changes_nothing(
    name: str, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hits: list[bool] = []

    def watched(found: Fruitless, state: State) -> Used | None:
        used = whole(found, state)
        hits.append(used is not None)
        return used

    whole = Fruitless.used
    machine = Cluster(preset(name), 2)
    monkeypatch.setattr(Fruitless, "used", watched)
    quick = plan_machine(machine, environment, find_graphs).wiring
    assert any(hits) or not environment
    monkeypatch.setattr(Fruitless, "used", lambda *_: None)
    assert plan_machine(machine, environment, find_graphs).wiring.domain_graphs == quick.domain_graphs


@pytest.mark.parametrize("name", ["dgx-h100", "hgx-h100-4nic"])
def test_ruling_out_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = plan_machine(preset(name), NO_P2P, find_graphs).wiring
    monkeypatch.setattr("sim.planners.nccl_2_30.trunks.Trunks.most_channels", lambda _self, _trial, most: most)
    assert plan_machine(preset(name), NO_P2P, find_graphs).wiring.domain_graphs == quick.domain_graphs
