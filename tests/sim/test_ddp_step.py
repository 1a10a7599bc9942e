"""Steps: two lanes, what each way sends and when, and what must hold for any of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.ddp.break_even import break_even, hidden_bytes, without_nvlinks
from sim.ddp.buckets import MIB, Caps
from sim.ddp.lanes import Task, run_lanes
from sim.ddp.model import Layer, Model, Parameter
from sim.ddp.models import load_model
from sim.ddp.schedules import SCHEDULES, Step
from sim.ddp.step import SimulatedCosts, StepPrediction, best_of, flat_range, predict_step, with_caps
from sim.ddp.times import LayerTime, gpu_of
from sim.predict import Simulator
from sim.workload import ELEMENT_BYTES
from tests.support import examples
from topo.errors import NameChoiceError, ScheduleError, TopologyError, UnitError
from topo.load import load_topology

STAR = "switch:8,bandwidth=200GB/s,latency=1us"


def a_cost(bytes_per_s: float = 1e9, latency_s: float = 0.0):
    """Collectives at a fixed rate."""

    def cost(collective: str, num_elements: int, dtype: str) -> float:
        return latency_s + num_elements * ELEMENT_BYTES[dtype] / bytes_per_s

    return cost


def a_step(layers: int = 4, elements: int = 2**18, seconds: float = 0.01, **more: object) -> Step:
    """Equal layers of one 1 MiB parameter each, a unit each, forward `seconds`, backward twice that."""
    rows = tuple(Layer(f"l{n}", (Parameter(f"l{n}.w", (elements,)),), 1.0, f"u{n}") for n in range(layers))
    times = tuple(LayerTime(row.name, seconds, 2 * seconds) for row in rows)
    step = Step(Model("even", rows), times, (), a_cost(), **more)  # type: ignore[arg-type]
    return with_caps(step, Caps(1))


def predict(step: Step, way: str = "ddp") -> StepPrediction:
    return predict_step(step, Caps(1), way=way)


def test_a_task_waits_for_its_lane_and_for_what_it_names() -> None:
    spans = run_lanes(
        [
            Task("forward", "compute", 2.0),
            Task("all_reduce", "communication", 3.0, (0,)),
            Task("backward", "compute", 1.0),
            Task("all_reduce", "communication", 1.0, (2,)),
        ]
    )
    assert [(span.ready_s, span.start_s, span.end_s) for span in spans] == [
        (0, 0, 2),
        (2, 2, 5),
        (0, 2, 3),
        (3, 5, 6),
    ]


def test_a_task_that_waits_for_a_later_one_is_refused() -> None:
    with pytest.raises(ScheduleError, match="waits for task 1"):
        run_lanes([Task("forward", "compute", 1.0, (1,)), Task("forward", "compute", 1.0)])


def test_a_step_whose_last_bucket_alone_is_exposed() -> None:
    """4 layers of 20 ms backward and buckets of 1 MiB at 1 GB/s: each hides behind the next layer but the last."""
    found = predict(a_step())
    bucket_s = MIB / 1e9
    assert found.compute_s == pytest.approx(4 * 0.03)
    assert found.exposed_s == pytest.approx(bucket_s)
    assert found.overlapped_s == pytest.approx(3 * bucket_s)
    assert found.step_s == pytest.approx(0.12 + bucket_s)
    assert [span.ready_s for span in found.sendings()] == pytest.approx([0.06, 0.08, 0.1, 0.12])


def test_buckets_wait_for_each_other_on_one_stream() -> None:
    """At 10 MB/s a bucket takes 105 ms: all four stand in line behind the first, which is ready after 60 ms."""
    found = predict(replace(a_step(), cost=a_cost(1e7)))
    assert found.step_s == pytest.approx(0.06 + 4 * MIB / 1e7)


@pytest.mark.parametrize(("way", "passes"), [("ddp", 1), ("zero-1", 1), ("zero-2", 3), ("fsdp", 3)])
def test_accumulation_sends_once_or_in_every_pass(way: str, passes: int) -> None:
    found = predict(a_step(accumulation=3), way)
    reduces = [span for span in found.spans if span.task.kind in ("all_reduce", "reduce_scatter")]
    assert len(reduces) == 4 * passes
    assert found.compute_s == pytest.approx(3 * 4 * 0.03)


@pytest.mark.parametrize("way", SCHEDULES)
def test_compression_halves_what_gradients_carry(way: str) -> None:
    step = a_step()
    plain, narrow = (predict(one, way) for one in (step, replace(step, compression="bf16")))
    sent = [
        sum(span.task.num_bytes for span in found.spans if span.task.kind in ("all_reduce", "reduce_scatter"))
        for found in (plain, narrow)
    ]
    assert sent[0] == 2 * sent[1] == step.model.num_bytes


def test_what_is_narrow_already_is_not_compressed() -> None:
    step = a_step()
    half = replace(step, model=replace(step.model, dtype="float16"), compression="bf16")
    assert with_caps(half, Caps(1)).sent_dtype("float16") == "float16"


def test_sharded_ways_gather_all_parameters() -> None:
    step = a_step()
    gathered = {
        way: sum(span.task.num_bytes for span in predict(step, way).spans if span.task.kind == "all_gather")
        for way in SCHEDULES
    }
    whole = step.model.num_bytes
    assert gathered == {"ddp": 0, "zero-1": whole, "zero-2": whole, "fsdp": 2 * whole}


def test_fsdp_gathers_the_next_unit_while_one_runs() -> None:
    found = predict(a_step(), "fsdp")
    spans = {(span.task.kind, span.task.what): span for span in found.spans if span.task.lane == "communication"}
    forward = {span.task.what: span for span in found.spans if span.task.kind == "forward"}
    bucket_s = MIB / 1e9
    assert forward["u0"].start_s == pytest.approx(bucket_s)
    assert forward["u3"].start_s == pytest.approx(bucket_s + 3 * 0.01)
    assert spans["reduce_scatter", "u0"].end_s == pytest.approx(found.step_s)


def test_fsdp_refuses_a_unit_that_is_interrupted() -> None:
    step = a_step()
    layers = tuple(replace(layer, unit=unit) for layer, unit in zip(step.model.layers, "abab", strict=True))
    with pytest.raises(UnitError, match="unit a"):
        predict(replace(step, model=replace(step.model, layers=layers)), "fsdp")


def test_copies_are_charged_where_the_rate_of_memory_is_known() -> None:
    step = a_step(memory_bytes_per_s=1e12)
    copied, viewed = predict(step), predict(replace(step, bucket_views=True))
    one_way_s = 2 * step.model.num_bytes / 1e12
    assert copied.copy_s == pytest.approx(2 * one_way_s)
    assert viewed.copy_s == pytest.approx(one_way_s)
    assert viewed.step_s < copied.step_s


steps = st.builds(
    lambda layers, seconds, rate, accumulation, compression, memory: replace(
        a_step(layers, 2**16, seconds, accumulation=accumulation, compression=compression, memory_bytes_per_s=memory),
        cost=a_cost(rate, 1e-5),
    ),
    st.integers(1, 6),
    st.floats(0, 0.1),
    st.floats(1e6, 1e12),
    st.integers(1, 3),
    st.sampled_from((None, "fp16", "bf16")),
    st.sampled_from((None, 1e11)),
)


@settings(max_examples=examples(15))
@given(steps, st.sampled_from(sorted(SCHEDULES)))
def test_a_step_is_never_shorter_than_either_lane_nor_longer_than_both(step: Step, way: str) -> None:
    found = predict(step, way)
    slack_s = 1e-9 * found.step_s
    assert found.step_s >= max(found.compute_s + found.copy_s, found.communication_s) - slack_s
    assert found.step_s <= found.compute_s + found.copy_s + found.communication_s + slack_s
    assert found.exposed_s + found.overlapped_s == pytest.approx(found.communication_s, abs=slack_s)
    assert found.step_s >= found.compute_s + found.exposed_s - slack_s
    assert 0 <= found.efficiency <= 1 + 1e-9


@settings(max_examples=examples(10))
@given(steps, st.sampled_from(sorted(SCHEDULES)), st.floats(1, 10))
def test_a_faster_network_is_never_slower(step: Step, way: str, factor: float) -> None:
    def faster(collective: str, num_elements: int, dtype: str) -> float:
        return step.cost(collective, num_elements, dtype) / factor

    before, after = predict(step, way).step_s, predict(replace(step, cost=faster), way).step_s
    assert after <= before * (1 + 1e-9)


def test_wrong_words_are_refused() -> None:
    with pytest.raises(NameChoiceError, match="did you mean 'zero-1'"):
        predict(a_step(), "zero-11")
    with pytest.raises(NameChoiceError, match="compression"):
        a_step(compression="fp8")
    with pytest.raises(UnitError, match="--accumulate 0"):
        a_step(accumulation=0)


def test_best_and_flat_range() -> None:
    def row(cap_mb: float, seconds: float) -> StepPrediction:
        spans = run_lanes([Task("forward", "compute", seconds)])
        return StepPrediction("ddp", "auto", Caps(cap_mb), (), spans)

    rows = [row(1, 2.0), row(5, 1.005), row(10, 1.0), row(25, 1.009), row(50, 1.2), row(100, 1.001)]
    assert best_of(rows).caps.cap_mb == 10
    assert flat_range(rows) == (5, 25)


def test_simulated_costs_ask_once_per_size_and_pad_equal_parts() -> None:
    costs = SimulatedCosts(Simulator(load_topology(STAR)))
    assert costs("all_reduce", 2**20, "float32") == costs("all_reduce", 2**20, "float32") > 0
    costs("reduce_scatter", 1001, "float32")
    sizes = [(run.workload.collective, run.workload.num_bytes) for run in costs.predictions]
    assert sizes == [("reduce_scatter", 1008 * 4), ("all_reduce", 2**22)]


def test_a_single_rank_sends_nothing() -> None:
    costs = SimulatedCosts(Simulator(load_topology("dgx-h100", gpus="0")))
    assert costs("all_reduce", 2**20, "float32") == 0


def test_a_step_of_absurdly_many_passes_is_refused() -> None:
    with pytest.raises(UnitError, match="--accumulate 1000000"):
        a_step(accumulation=1_000_000)


def test_buckets_on_a_real_ring_cost_what_the_simulator_says() -> None:
    """ResNet-18 by ring on an ideal switch: 2(n-1)(latency + S/(n*bandwidth)) per bucket, the last one exposed."""
    model = load_model("resnet18")
    times = tuple(LayerTime(layer.name, 0.001, 0.002) for layer in model.layers)
    costs = SimulatedCosts(Simulator(load_topology(STAR)), "ring")
    found = predict_step(with_caps(Step(model, times, (), costs), Caps(25)), Caps(25), algorithm="ring")
    expected_s = [14 * (1e-6 + size / 8 / 200e9) for size in (2052000, 28852224, 15853824)]
    assert [span.task.duration_s for span in found.sendings()] == pytest.approx(expected_s, rel=1e-6)
    assert found.exposed_s == pytest.approx(expected_s[-1], rel=1e-6)


def test_break_even_points_lie_where_they_should() -> None:
    step = a_step()
    even = break_even(step, predict(step))
    assert even.hidden_bytes == pytest.approx(1e9 * step.backward_s, rel=0.01)
    assert even.compute_factor is not None
    longer = replace(step, times=tuple(row.times(even.compute_factor) for row in step.times))
    assert predict(longer).efficiency == pytest.approx(0.95, abs=0.001)
    assert hidden_bytes(a_cost(1e30), 1.0) is None
    assert hidden_bytes(a_cost(1e9, 5.0), 1.0) == 0


def test_a_machine_without_its_nvlinks_is_slower() -> None:
    machine = load_topology("dgx-h100")
    bare = without_nvlinks(machine)
    seconds = [SimulatedCosts(Simulator(one))("all_reduce", 2**22, "float32") for one in (machine, bare)]
    assert seconds[1] > 3 * seconds[0]
    with pytest.raises(TopologyError, match="no NVLink to take out"):
        without_nvlinks(bare)


def test_a_cluster_keeps_its_fabric_without_nvlinks() -> None:
    assert without_nvlinks(load_topology("dgx-a100", nodes=2)).num_ranks == 16


@pytest.mark.parametrize(
    ("machine", "product", "assumed"),
    [("dgx-h100", "H100 SXM5", False), ("pcie-8gpu", "L40S", False), (STAR, "A100 SXM4 80GB", True)],
)
def test_the_gpu_of_a_machine(machine: str, product: str, assumed: bool) -> None:
    rate, is_assumed = gpu_of(load_topology(machine))
    assert (rate.product, is_assumed) == (product, assumed)
