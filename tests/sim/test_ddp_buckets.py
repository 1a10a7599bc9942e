"""Buckets: the sizes that are known from real runs, and what holds for any model and cap."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.ddp.buckets import MIB, Caps, buckets_of
from sim.ddp.model import Layer, Model, Parameter
from sim.ddp.models import load_model
from tests.support import examples
from topo.errors import UnitError

KNOWN = [
    ("resnet18", 25, [2052000, 28852224, 15853824]),
    ("resnet18", 35, [2052000, 38297600, 6408448]),
    ("resnet50", 25, [8196000, 31502336, 26255360, 26550272, 9724160]),
    ("resnet50", 35, [8196000, 44105728, 37046272, 12880128]),
]


@pytest.mark.parametrize(("name", "cap_mb", "sizes"), KNOWN)
def test_known_buckets(name: str, cap_mb: float, sizes: list[int]) -> None:
    """As printed by real runs of torch (pytorch#48880), and by the same rule for ResNet-50."""
    assert [bucket.num_bytes for bucket in buckets_of(load_model(name), Caps(cap_mb))] == sizes


@st.composite
def models(draw: st.DrawFn) -> Model:
    """A few layers with parameters of any small shape, in one or two types."""
    layers = []
    for number in range(draw(st.integers(1, 6))):
        shapes = draw(st.lists(st.lists(st.integers(1, 40), max_size=3), min_size=1, max_size=4))
        rows = tuple(
            Parameter(f"l{number}.p{place}", tuple(shape), draw(st.sampled_from((None, "float16"))))
            for place, shape in enumerate(shapes)
        )
        layers.append(Layer(f"l{number}", rows, first_to_last=draw(st.booleans())))
    return Model("any", tuple(layers))


caps = st.builds(Caps, st.floats(1 / MIB, 0.2), st.floats(1 / MIB, 0.2))


@settings(max_examples=examples(10))
@given(models(), caps, st.booleans())
def test_every_gradient_is_in_one_bucket_and_no_bucket_outgrows_its_cap(model: Model, cap: Caps, rebuilt: bool) -> None:
    buckets = buckets_of(model, cap, rebuilt=rebuilt)
    listed = [row.name for bucket in buckets for row in bucket.parameters]
    assert sorted(listed) == sorted(row.name for row in model.parameters)
    for bucket in buckets:
        assert {model.dtype_of(row) for row in bucket.parameters} == {bucket.dtype}
        before_last = sum(map(model.bytes_of, bucket.parameters[:-1]))
        assert before_last < max(cap.num_bytes, cap.first_num_bytes)


@settings(max_examples=examples(10))
@given(models(), caps)
def test_only_the_last_bucket_of_a_type_is_smaller_than_its_cap(model: Model, cap: Caps) -> None:
    of_type: dict[str, list[int]] = {}
    for bucket in buckets_of(model, cap):
        of_type.setdefault(bucket.dtype, []).append(bucket.num_bytes)
    for sizes in of_type.values():
        limits = [cap.first_num_bytes, *[cap.num_bytes] * (len(sizes) - 1)]
        assert all(size >= limit for size, limit in zip(sizes[:-1], limits[:-1], strict=True))


def test_without_rebuilding_the_small_bucket_comes_last() -> None:
    model = load_model("resnet18")
    sizes = [bucket.num_bytes for bucket in buckets_of(model, Caps(25), rebuilt=False)]
    assert sum(sizes) == model.num_bytes
    assert sizes[-1] < 2 * MIB
    assert sizes[-1] >= MIB


@pytest.mark.parametrize("cap_mb", [0, -1, 1e9, float("nan"), float("inf"), 1e-9])
def test_a_cap_out_of_range_is_refused(cap_mb: float) -> None:
    with pytest.raises(UnitError, match="bucket"):
        Caps(cap_mb)
    with pytest.raises(UnitError, match="first bucket"):
        Caps(25, cap_mb)
