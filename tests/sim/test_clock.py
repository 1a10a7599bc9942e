"""The clock of NCCL's kernels: sane for every kernel and machine, the same for one vector and for many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.clock.correction import Correction
from sim.clock.facts import Facts, fabric_of, facts_of, generation_of
from sim.clock.fit import covariance, fit, spreads, starting_values
from sim.clock.jobs import KERNELS, Jobs, Operation, jobs_of, kernel_of
from sim.clock.kernels import times_s
from sim.clock.profile import SCHEMA, Band, FittedTerm, KernelProfile, load_kernels, regime_of
from sim.clock.terms import FABRICS, GENERATIONS, INDEX, TERMS
from sim.planners.nccl_2_30.front_door import plan_machine
from sim.planners.options import Options
from sim.predict import Simulator
from sim.profile import fitted
from sim.report import notes_on
from sim.workload import Workload
from tests.support import examples
from topo.cluster import Cluster
from topo.errors import CaptureError, NameChoiceError, ScheduleError
from topo.jsonio import decode, encode
from topo.load import load_topology
from topo.presets import preset
from topo.topology import Link, Topology

WAYS = (
    *(("all_reduce", name, protocol) for name in ("ring", "tree") for protocol in ("ll", "ll128", "simple")),
    *(("all_reduce", name, "simple") for name in ("nvls", "nvls-tree", "collnet-chain")),
    *(("broadcast", "ring", protocol) for protocol in ("ll", "ll128", "simple")),
    ("all_gather", "ring", "simple"),
    ("reduce_scatter", "pat", "simple"),
    ("all_to_all", "direct", "simple"),
    ("sendrecv", "direct", "simple"),
)
FACTS = Facts("hopper", "none", 8, 1, 24, 8, 370.8e9, 1e15, 370.8e9, 50e9)


def facts(generation: str, fabric: str, per_node: int, num_nodes: int) -> Facts:
    return replace(
        FACTS,
        generation=generation,
        fabric=fabric if num_nodes > 1 else "none",
        num_ranks=per_node * num_nodes,
        num_nodes=num_nodes,
        net_bytes_per_s=400e9 if num_nodes > 1 else 1e15,
    )


machines = st.builds(
    facts, st.sampled_from(GENERATIONS), st.sampled_from(FABRICS), st.integers(2, 16), st.integers(1, 40)
)


def job(way: tuple[str, str, str], num_bytes: int, channels: int = 24) -> Operation:
    return Operation(way[0], num_bytes, way[1], way[2], channels, 131072)


@settings(max_examples=examples(60))
@given(machine=machines, way=st.sampled_from(WAYS), size=st.integers(3, 34), channels=st.integers(1, 32))
def test_times_are_positive_and_grow_with_the_size(
    machine: Facts, way: tuple[str, str, str], size: int, channels: int
) -> None:
    jobs = jobs_of(machine, [job(way, 1 << size, channels), job(way, 1 << (size + 1), channels)])
    small, large = times_s(np.array(load_kernels().values), jobs)
    assert 0 < small < np.inf
    gain = load_kernels().value("nvls_large")
    assert large * gain >= small


@settings(max_examples=examples(20))
@given(machine=machines, seed=st.integers(0, 1000))
def test_many_parameter_vectors_at_once_are_each_alone(machine: Facts, seed: int) -> None:
    jobs = jobs_of(machine, [job(way, 1 << size) for way in WAYS for size in (10, 20, 30)])
    vectors = starting_values() * np.exp(np.random.default_rng(seed).normal(0, 0.1, (5, len(TERMS))))
    together = times_s(vectors, jobs)
    assert together.shape == (5, len(jobs))
    for vector, row in zip(vectors, together, strict=True):
        np.testing.assert_allclose(times_s(vector, jobs), row, rtol=1e-12)


def test_every_kernel_has_a_way_that_leads_to_it() -> None:
    assert {kernel_of(job(way, 8), several_nodes=False) for way in WAYS} == set(KERNELS)


def test_nvls_over_nodes_is_reduced_in_the_network() -> None:
    nvls, collnet = (job(("all_reduce", name, "simple"), 1 << 20) for name in ("nvls", "collnet-direct"))
    assert kernel_of(nvls, several_nodes=True) == kernel_of(collnet, several_nodes=True)
    assert kernel_of(nvls, several_nodes=False) == "nvls/simple"


def test_processes_that_drive_several_gpus_have_a_floor() -> None:
    operations = [job(("all_reduce", "ring", "ll"), 8, 1)]
    values = np.array(load_kernels().values)
    alone, driven = (times_s(values, jobs_of(FACTS, operations, gpus_per_process=each))[0] for each in (1, 8))
    assert driven > 30e-6 > alone


def test_a_fit_finds_the_terms_that_made_the_times() -> None:
    truth = starting_values()
    for place, term in enumerate(TERMS):
        if term.name in ("ll_hop.hopper", "launch.hopper", "link_share.hopper", "nvls_rate.hopper"):
            truth[place] *= 1.15 if "share" not in term.name else 0.98
    operations = [job(way, 1 << size) for way in WAYS[:9] for size in range(8, 33)]
    jobs = jobs_of(FACTS, operations)
    found = fit(jobs, times_s(truth, jobs), starting_values(), spreads())
    np.testing.assert_allclose(times_s(found.values, jobs), times_s(truth, jobs), rtol=0.02)
    names = [term.name for term in TERMS]
    assert found.learned[names.index("ll_hop.hopper")] > 0.8
    assert found.learned[names.index("ll_hop.volta")] == pytest.approx(0, abs=1e-6)


def test_a_correction_meets_what_was_measured_and_fades_far_away() -> None:
    jobs = jobs_of(FACTS, [job(("all_reduce", "ring", "simple"), 1 << size) for size in range(10, 34)])
    values = np.array(load_kernels().values)
    plain = times_s(values, jobs)
    seen = np.array([5])
    factors = Correction.learned(values, jobs.take(seen), 1.3 * plain[seen]).times_s(jobs) / plain
    assert factors[5] == pytest.approx(1.25, abs=0.04)
    assert np.all(factors[:6] > 1.1)
    assert factors[-1] == pytest.approx(1, abs=0.01)


def test_a_correction_by_what_is_predicted_changes_nothing() -> None:
    jobs = jobs_of(FACTS, [job(way, 1 << 20) for way in WAYS])
    values = np.array(load_kernels().values)
    plain = times_s(values, jobs)
    assert Correction.learned(values, jobs, plain).times_s(jobs) == pytest.approx(plain)


def test_a_large_size_says_of_a_machines_links_what_small_ones_do_not_feel() -> None:
    sizes = [1 << size for size in range(10, 34)]
    jobs = jobs_of(FACTS, [job(("all_reduce", "ring", "simple"), size) for size in sizes])
    values = np.array(load_kernels().values)
    plain = times_s(values, jobs)
    seen = np.array([len(sizes) - 1])
    factors = Correction.learned(values, jobs.take(seen), 1.2 * plain[seen]).times_s(jobs) / plain
    assert factors[-4] > 1.1
    assert factors[0] == pytest.approx(1, abs=0.02)


def test_terms_that_no_row_feels_follow_their_kin() -> None:
    jobs = jobs_of(FACTS, [job(("all_reduce", "ring", "simple"), 1 << size) for size in range(10, 34)])
    truth = starting_values()
    truth[INDEX["simple_hop.hopper"]] *= 1.4
    found = fit(jobs, times_s(truth, jobs), starting_values(), covariance())
    ratios = found.values / starting_values()
    assert 1.2 < ratios[INDEX["simple_hop.hopper"]] < 1.4
    assert 1.1 < ratios[INDEX["simple_hop.ampere"]] < ratios[INDEX["simple_hop.hopper"]]
    assert ratios[INDEX["ll_hop.ampere"]] == pytest.approx(1)
    assert 0 < found.learned[INDEX["simple_hop.ampere"]] < found.learned[INDEX["simple_hop.hopper"]]


def test_jobs_join_and_split() -> None:
    jobs = jobs_of(FACTS, [job(way, 1 << 20) for way in WAYS])
    again = Jobs.joined([jobs.take(np.array([row])) for row in range(len(jobs))])
    np.testing.assert_array_equal(again.kernel, jobs.kernel)


@pytest.mark.parametrize(
    ("machine", "nodes", "generation", "fabric", "link_gb", "net_gb"),
    [
        ("dgx-a100", 1, "ampere", "none", 240, None),
        ("dgx-h100", 4, "hopper", "infiniband", 370.8 * 8 / 7, 400),
        ("alps-gh200x4", 2, "hopper", "slingshot", 123.6 * 4 / 3, 100),
        ("aws-p4d-a100", 2, "ampere", "efa-classic", 240, 50),
        ("aws-p5-h100", 2, "hopper", "efa", 370.8 * 8 / 7, 400),
        ("pcie-8gpu", 1, "pcie", "none", 12, None),
    ],
)
def test_facts_of_machines(
    machine: str, nodes: int, generation: str, fabric: str, link_gb: float, net_gb: float | None
) -> None:
    topology = load_topology(machine, nodes=nodes)
    found = facts_of(plan_machine(topology, {}), machine)
    assert (found.generation, found.fabric) == (generation, fabric)
    assert generation_of(topology) == generation
    assert nodes == 1 or fabric_of(topology) == fabric
    assert found.link_bytes_per_s == pytest.approx(link_gb * 1e9, rel=0.5 if generation == "pcie" else 1e-6)
    if net_gb:
        assert found.net_bytes_per_s == pytest.approx(net_gb * 1e9, rel=0.15)


def test_a_profile_states_every_term_once() -> None:
    shipped = load_kernels()
    assert [term.name for term in shipped.terms] == [term.name for term in TERMS]
    assert decode(encode(shipped, SCHEMA), KernelProfile, SCHEMA, "x") == shipped
    with pytest.raises(CaptureError, match="lacks floor"):
        replace(shipped, terms=shipped.terms[1:])
    with pytest.raises(CaptureError, match="must be positive"):
        replace(shipped, terms=(replace(shipped.terms[0], value=0.0), *shipped.terms[1:]))
    with pytest.raises(NameChoiceError, match="did you mean 'floor'"):
        replace(shipped, terms=(FittedTerm("flor", 1.0, 0.1, 0.0), *shipped.terms[1:]))


def test_regimes() -> None:
    assert [regime_of(size) for size in (8, 65536, 65537, 1 << 24, (1 << 24) + 1)] == [
        "latency",
        "latency",
        "knee",
        "knee",
        "bandwidth",
    ]


@pytest.mark.parametrize(
    ("machine", "algorithm", "busbw_gb"),
    [
        ("dgx-a100", "auto", 235),
        ("dgx-h100", "ring", 366),
        ("dgx-h100", "nvls", 482),
        ("dgx-b200", "auto", 838),
        ("dgx-b200", "ring", 682),
    ],
)
def test_busbw_of_the_largest_size_is_the_published_one(machine: str, algorithm: str, busbw_gb: float) -> None:
    """Within 3 %: published runs of 8 to 16 GiB on 8 GPUs."""
    size = (16 if "b200" in machine and algorithm == "auto" else 8) << 30
    found = Simulator(load_topology(machine)).run(Workload("all_reduce", size), algorithm)
    assert found.busbw_bytes_per_s == pytest.approx(busbw_gb * 1e9, rel=0.03)
    assert found.engine == "kernels"


def test_what_the_clock_cannot_time_runs_as_a_schedule() -> None:
    machine = load_topology("dgx-h100")
    work = Workload("all_reduce", 1 << 28)
    server = Simulator(machine).run(work, "parameter-server")
    assert server.engine == "event"
    assert server.duration_s > 3 * Simulator(machine).run(work, "ring").duration_s
    assert Simulator(machine, engine="event").run(work, "ring").engine == "event"
    with pytest.raises(ScheduleError, match="fitted profile"):
        Simulator(load_topology("switch:4,bandwidth=1GB/s,latency=1us"), engine="kernels").run(work, "ring")


def test_what_kernels_are_asked_for_without_having_them_is_refused() -> None:
    simulator = Simulator(load_topology("dgx-h100"), engine="kernels")
    with pytest.raises(ScheduleError, match="no kernel for all_reduce by parameter-server"):
        simulator.run(Workload("all_reduce", 1 << 20), "parameter-server")
    assert simulator.algorithms_for(Workload("all_reduce", 1 << 20)) == ("ring", "tree", "nvls")
    pairs = Workload("sendrecv", 1 << 30)
    assert simulator.algorithms_for(pairs) == ("direct",)
    run = simulator.run(pairs)
    assert run.engine == "kernels"
    assert run.limiting is not None
    assert run.limiting.num_bytes == pytest.approx(1 << 30)


def test_a_slow_port_slows_the_whole() -> None:
    cluster = load_topology("dgx-h100", nodes=4)
    work = Workload("all_reduce", 1 << 30)
    whole = Simulator(cluster).run(work, "ring")
    nic = cluster.nics[0].id  # type: ignore[union-attr]
    slow = Simulator(cluster.with_port(2, nic, 0.5)).run(work, "ring")  # type: ignore[union-attr]
    assert slow.duration_s > 1.2 * whole.duration_s
    assert slow.limiting is not None
    assert "node2" in slow.limiting.link


@pytest.mark.parametrize(
    ("bands", "complaint"),
    [
        ((Band("latency", False, 0.0, 1.1, 3),), "latency band of a node goes from 0.0 to 1.1"),
        ((Band("knee", True, 1.2, 1.1, 3),), "knee band of several nodes goes from 1.2 to 1.1"),
        ((Band("knee", True, 1.0, float("inf"), 3),), "to inf, expected positive, finite factors"),
        ((Band("knee", True, float("nan"), 1.0, 3),), "from nan"),
        ((Band("knee", True, 0.9, 1.1, -1),), "of -1 rows"),
        ((Band("knee", True, 0.9, 1.1, 3), Band("knee", True, 0.8, 1.1, 3)), "stands twice"),
    ],
)
def test_bands_that_cannot_be_are_refused(bands: tuple[Band, ...], complaint: str) -> None:
    with pytest.raises(CaptureError, match=complaint):
        replace(load_kernels(), bands=bands)


def test_a_regime_that_there_is_not_is_refused() -> None:
    with pytest.raises(NameChoiceError, match="did you mean 'latency'"):
        replace(load_kernels(), bands=(Band("latncy", False, 0.9, 1.1, 3),))


@pytest.mark.parametrize(
    "change",
    [{"log_error": -0.1}, {"log_error": float("inf")}, {"learned": 1.1}, {"learned": -0.1}, {"learned": float("nan")}],
)
def test_terms_that_cannot_be_known_so_well_are_refused(change: dict[str, float]) -> None:
    shipped = load_kernels()
    with pytest.raises(CaptureError, match=f"has {next(iter(change))} .*, it must be"):
        replace(shipped, terms=(replace(shipped.terms[0], **change), *shipped.terms[1:]))


def test_without_bands_no_range_is_claimed() -> None:
    machine = load_topology("dgx-h100")
    shipped = fitted(machine)
    bare = replace(shipped, kernels=replace(load_kernels(), bands=()))
    work = Workload("all_reduce", 1 << 28)
    run, with_bands = (Simulator(machine, profile).run(work) for profile in (bare, shipped))
    assert (run.duration_s, run.low_s, run.high_s) == (with_bands.duration_s, None, None)
    assert with_bands.low_s is not None


def test_a_kernel_that_no_run_of_its_generation_shows_is_extrapolated_and_claims_no_range() -> None:
    options = Options(protocol="simple", environment=(("NCCL_ALGO", "ring"),))
    simulator = Simulator(load_topology("dgx-h100"), options=options)
    small, large = (simulator.run(Workload("all_reduce", num_bytes)) for num_bytes in (1 << 10, 1 << 28))
    assert (small.extrapolated, small.low_s) == (True, None)
    assert not large.extrapolated
    assert large.low_s is not None
    assert "ring simple of 1 KiB" in " ".join(notes_on(simulator, [small, large]))
    assert not notes_on(simulator, [large])


def test_a_profile_that_names_no_kernels_is_believed() -> None:
    machine = load_topology("dgx-h100")
    shipped = fitted(machine)
    silent = replace(shipped, kernels=replace(load_kernels(), seen_kernels=()))
    work = Workload("broadcast", 1 << 10)
    runs = [Simulator(machine, profile).run(work) for profile in (silent, shipped)]
    assert [run.extrapolated for run in runs] == [False, True], "no run shows a broadcast on Hopper"
    assert runs[0].duration_s == runs[1].duration_s


@pytest.mark.parametrize("name", ["dgx1-v100", "dgx-a100", "dgx-h100", "dgx-b200", "gb200-1tray", "hgx-a100-4gpu-mesh"])
@pytest.mark.parametrize("change", ["break GPU0", "p2p off"])
@pytest.mark.parametrize("num_bytes", [1 << 10, 1 << 16])
def test_no_gpu_is_faster_for_what_its_nvlinks_do_not_do(name: str, change: str, num_bytes: int) -> None:
    """The same algorithm, whatever protocol NCCL takes for it then."""
    machine, options = preset(name), Options()
    if change == "p2p off":
        options = Options(environment=(("NCCL_P2P_DISABLE", "1"),))
        changed = machine
    else:
        changed = replace(machine, links=tuple(_without_nvlinks_of(machine, "GPU0")))
    work = Workload("all_reduce", num_bytes)
    before, after = (
        Simulator(at, None, said).run(work, "ring").duration_s
        for at, said in ((machine, Options()), (changed, options))
    )
    assert after >= before


def _without_nvlinks_of(machine: Topology, gpu: str) -> Iterator[Link]:
    for link in machine.links:
        is_its_own = link.kind == "nvlink" and gpu in (link.src, link.dst)
        yield replace(link, state="inactive") if is_its_own else link


@pytest.mark.parametrize("collective", ["all_to_all", "sendrecv"])
@pytest.mark.parametrize(
    "name",
    ["pcie-8gpu", "p3dn-v100", "hgx-h100-4nic", "polaris-a100x4", "oci-a100-16x100", "dgx-h100", "gcp-a3high"],
)
def test_messages_between_nodes_take_the_nics_that_gpus_have(name: str, collective: str) -> None:
    """The links alone say what a large message takes, however many GPUs share a NIC."""
    work = Workload(collective, 1 << 30)
    kernels, event = (
        Simulator(Cluster(preset(name), 2), engine=engine).run(work).duration_s for engine in ("kernels", "event")
    )
    assert kernels == pytest.approx(event, rel=0.3)
