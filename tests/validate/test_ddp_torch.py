"""Models and buckets of sim.ddp against torch itself: its modules, its bucket function, its DistributedDataParallel."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from sim.ddp.buckets import MIB, Caps, buckets_of
from sim.ddp.model import Layer, Model, Parameter, model_of
from sim.ddp.models import load_model
from sim.ddp.times import LayerTime
from sim.workload import Workload
from tests.validate import torch_models as nets
from validate.backends.torch_processes import Processes
from validate.backends.torch_replay import TorchReplay
from validate.harness import measure
from validate.replay import replay_of

TOKENS = torch.arange(4)[None]
CASES: dict[str, tuple[str, Callable[[], Any], Any]] = {
    "resnet18": ("resnet18", lambda: nets.ResNet((2, 2, 2, 2), bottleneck=False), torch.randn(2, 3, 32, 32)),
    "resnet50": ("resnet50", lambda: nets.ResNet((3, 4, 6, 3), bottleneck=True), torch.randn(2, 3, 32, 32)),
    "llama": (
        "llama:layers=2,hidden=32,ffn=80,heads=4,kv_heads=2,vocab=50,context=4",
        lambda: nets.Llama(2, 32, 80, 16, 50),
        TOKENS,
    ),
    "gpt2": ("gpt2:layers=2,hidden=32,vocab=50,positions=8,context=4", lambda: nets.Gpt2(2, 32, 50, 8), TOKENS),
    "bert": (
        "bert:layers=2,hidden=32,ffn=64,vocab=50,positions=8,context=4",
        lambda: nets.Bert(2, 32, 64, 50, 8),
        TOKENS,
    ),
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Modules this small are slower on several threads of a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=CASES)
def case(request: Any) -> tuple[Model, Any, Any]:
    description, build, given = CASES[request.param]
    return load_model(description), build(), given


def test_names_and_shapes_are_those_of_torch(case: tuple[Model, Any, Any]) -> None:
    model, module, _ = case
    ours = [(row.name, row.shape) for row in model.named_parameters]
    assert ours == [(name, tuple(tensor.shape)) for name, tensor in module.named_parameters()]


def test_gradients_become_ready_in_the_order_of_torch(case: tuple[Model, Any, Any]) -> None:
    model, module, given = case
    seen: list[str] = []
    for name, tensor in module.named_parameters():
        tensor.register_post_accumulate_grad_hook(lambda _, name=name: seen.append(name))
    module(given).sum().backward()
    assert [row.name for row in model.ready] == seen


def test_named_parameters_make_a_model(case: tuple[Model, Any, Any]) -> None:
    model, module, _ = case
    found = model_of("mine", module.named_parameters())
    assert found.num_elements == model.num_elements
    assert found.dtype == "float32"
    assert sum(bucket.num_bytes for bucket in buckets_of(found, Caps())) == model.num_bytes


def by_torch(rows: Any, model: Model, caps: Caps, indices: list[int]) -> list[list[str]]:
    """The names in each bucket that torch's own function makes of parameters in this order."""
    dtypes = [getattr(torch, model.dtype_of(row)) for row in rows]
    tensors = [torch.empty(row.shape, dtype=dtype, device="meta") for row, dtype in zip(rows, dtypes, strict=True)]
    limits = [caps.first_num_bytes, caps.num_bytes]
    found, _ = dist._compute_bucket_assignment_by_size(tensors, limits, [False] * len(rows), indices)
    return [[rows[number].name for number in bucket] for bucket in found]


def names(buckets: Any) -> list[list[str]]:
    return [[row.name for row in bucket.parameters] for bucket in buckets]


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "bert-large", "gpt2-xl", "llama-7b"])
@pytest.mark.parametrize("caps", [Caps(25), Caps(35), Caps(0.5, 0.25), Caps(4, 4), Caps(1024)], ids=str)
def test_buckets_are_those_of_torch(name: str, caps: Caps) -> None:
    model = load_model(name)
    assert names(buckets_of(model, caps)) == by_torch(model.ready, model, caps, list(range(len(model.ready))))
    declared = by_torch(model.named_parameters, model, caps, [])
    assert names(buckets_of(model, caps, rebuilt=False)) == declared[::-1]


@pytest.mark.parametrize("dtypes", [*itertools.permutations(("float32", "float16", "bfloat16"), 2)], ids=str)
@pytest.mark.parametrize("cap_bytes", [120, 400, MIB])
def test_buckets_of_two_types_are_those_of_torch(dtypes: tuple[str, str], cap_bytes: int) -> None:
    rows = [Parameter(f"p{number}", (50,), dtypes[number % 2]) for number in range(10)]
    model = Model("mixed", tuple(Layer(row.name, (row,)) for row in rows))
    caps = Caps(cap_bytes / MIB, cap_bytes / 2 / MIB)
    assert names(buckets_of(model, caps)) == by_torch(model.ready, model, caps, list(range(10)))
    assert names(buckets_of(model, caps, rebuilt=False)) == by_torch(model.named_parameters, model, caps, [])[::-1]


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    """A process group of this process alone."""
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize(("name", "cap_mb"), [("resnet18", None), ("resnet18", 35), ("resnet50", None)])
def test_real_ddp_rebuilds_these_buckets(name: str, cap_mb: int | None) -> None:
    """Without a cap, torch's first bucket has 1 MiB; with one, newer torch gives the first bucket the same cap."""
    description, build, given = CASES[name]
    wrapped = DistributedDataParallel(build(), bucket_cap_mb=cap_mb)
    for _ in range(3):
        wrapped(given).sum().backward()
    told = wrapped._get_ddp_logging_data()
    listed = [row for row, _ in wrapped.module.named_parameters()]
    theirs = [
        [listed[int(place)] for place in row.split()] for row in told["rebuilt_per_bucket_param_indices"].split(",")
    ]
    first_cap_mb = wrapped._bucket_config.first_bucket_bytes_cap / MIB if hasattr(wrapped, "_bucket_config") else 1
    buckets = buckets_of(load_model(description), Caps(cap_mb or 25, first_cap_mb))
    assert names(buckets) == theirs
    assert [bucket.num_bytes for bucket in buckets] == [int(part) for part in told["rebuilt_bucket_sizes"].split(",")]


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("compression", [None, "fp16"])
def test_a_replayed_step_takes_its_time_and_averages(compression: str | None) -> None:
    model = load_model("gpt2:layers=2,hidden=32,vocab=50,positions=8,context=4")
    times = tuple(LayerTime(layer.name, 0.0, 0.001) for layer in model.layers)
    caps = Caps(0.05, 0.01)
    replay = replay_of(model, times, caps, compression=compression)
    backend = TorchReplay(Processes.joined("gloo", 1), replay)
    found = measure(backend, Workload("all_reduce", replay.num_bytes), num_iterations=2, num_warmups=0)
    assert found.correct is True
    assert found.min_s >= 0.001 * len(model.layers)
    told = {row.name: row.value for row in found.software}["ddp_bucket_bytes"]
    assert told == ",".join(str(bucket.num_bytes) for bucket in buckets_of(model, caps))
