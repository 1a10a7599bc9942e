"""Predicted steps as a table, as sentences, and as the `ddp/1` document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sim.ddp.break_even import GOOD_EFFICIENCY
from sim.ddp.schedules import schedule
from topo.table import Column, Table
from topo.units import format_duration
from topo.words import counted

if TYPE_CHECKING:
    from sim.ddp.step import StepPrediction
    from sim.ddp.study import Request, Row, Study

SCHEMA = "ddp/1"
COLUMNS = (
    Column("schedule", "schedule"),
    Column("algorithm", "algorithm"),
    Column("cap\nMB", "bucket_cap_mb", ".10g"),
    Column("buckets", "num_buckets"),
    Column("step\nms", "step_ms", ",.3f"),
    Column("exposed\nms", "exposed_ms", ",.3f"),
    Column("hidden\nms", "overlapped_ms", ",.3f"),
    Column("compute\nms", "compute_ms", ",.3f", aside="compute {} ms"),
)
COPIES, EFFICIENCY = (
    Column("copies\nms", "copy_ms", ",.3f", aside="copies {} ms"),
    Column("efficiency", "efficiency", ".1%"),
)
MACHINE = Column("machine", "machine", aside="{}", at_last=True)
BUCKET_COLUMNS = (
    Column("bucket", "bucket"),
    Column("gradients\nbytes", "num_bytes", show="{:,}".format),
    Column("sent\nbytes", "sent_bytes", show="{:,}".format),
    Column("parameters", "num_parameters"),
    Column("ready\nms", "ready_ms", ",.3f"),
    Column("start\nms", "start_ms", ",.3f"),
    Column("end\nms", "end_ms", ",.3f"),
)


def report_table(study: Study) -> Table:
    """One row per step, in the units that people read."""
    several, copied = len(study.simulators) > 1, any(row.found.copy_s for row in study.rows)
    rows = tuple(
        (
            *((row.machine,) if several else ()),
            row.found.schedule,
            row.found.algorithm,
            row.found.caps.cap_mb if _is_in_buckets(row.found) else None,
            len(row.found.buckets) if _is_in_buckets(row.found) else None,
            row.found.step_s * 1e3,
            row.found.exposed_s * 1e3,
            row.found.overlapped_s * 1e3,
            row.found.compute_s * 1e3,
            *((row.found.copy_s * 1e3,) if copied else ()),
            row.found.efficiency,
        )
        for row in study.rows
    )
    columns = (*((MACHINE,) if several else ()), *COLUMNS, *((COPIES,) if copied else ()), EFFICIENCY)
    return Table(columns, rows, _title(study))


def bucket_table(found: StepPrediction) -> Table:
    """One row per bucket: when it is full, and when its collective runs; times from the start of the step."""
    rows = tuple(
        (
            number,
            bucket.num_bytes,
            span.task.num_bytes,
            len(bucket.parameters),
            span.ready_s * 1e3,
            span.start_s * 1e3,
            span.end_s * 1e3,
        )
        for number, (bucket, span) in enumerate(zip(found.buckets, found.sendings(), strict=True))
    )
    return Table(
        BUCKET_COLUMNS, rows, f"buckets in launch order, backward until {_backward_end_s(found) * 1e3:,.3f} ms"
    )


def _title(study: Study) -> str:
    request, machine = study.request, study.simulator.machine
    model = request.model
    passes = f", {request.accumulation} passes" if request.accumulation > 1 else ""
    sent = f", sent as {request.compression}" if request.compression else ""
    return (
        f"{model.name} ({counted(model.num_elements, 'parameter')}, {counted(model.num_bytes, 'byte')} of "
        f"gradients{sent}) on {machine.name}, {counted(machine.num_ranks, 'rank')}, batch {request.batch} "
        f"each{passes}: simulated, profile {study.simulator.profile.name}"
    )


def sentences(study: Study) -> Iterator[str]:
    """What a reader must know beside the numbers: assumptions, the best cap, break-even points."""
    yield _compute_sentence(study.request)
    yield (
        "compute is not slowed down by the communication beside it, and the optimizer's own work is not counted; "
        "exposed is communication with no forward or backward beside it"
    )
    if study.request.memory_bytes_per_s is None:
        yield "the rate of the GPUs' memory is not known here: copies of gradients into and out of buckets are free"
    for row, (low, high) in study.sweeps():
        flat = f"from {low:g} to {high:g} MB" if low < high else f"at {low:g} MB alone of these"
        yield (
            f"{_called(row, study)}: best at {row.found.caps.cap_mb:g} MB ({format_duration(row.found.step_s)}), "
            f"within 1 % of that {flat}"
        )
    for row in study.rows:
        if row.even is not None:
            yield _even_sentence(row, study)


def _compute_sentence(request: Request) -> str:
    compute = request.compute
    if compute is None:
        return "forward and backward are as given, layer by layer"
    why = ", assumed since the machine names no product that is known" if compute.assumed else ""
    return (
        f"forward and backward are modelled: {compute.mfu:.0%} (--mfu) of {compute.gpu}'s dense {compute.precision} "
        f"peak of {compute.peak_flops_per_s / 1e12:,.5g} TFLOP/s{why}; measured ones go into --layer-times"
    )


def _called(row: Row, study: Study) -> str:
    where = f" on {row.machine}" if len(study.simulators) > 1 else ""
    return f"{row.found.schedule} by {row.found.algorithm}{where}"


def _even_sentence(row: Row, study: Study) -> str:
    even = row.even
    assert even is not None, "asked for only where it is there"
    cap = f" at {row.found.caps.cap_mb:g} MB" if _is_in_buckets(row.found) else ""
    longest = "64 GiB or more" if even.hidden_bytes is None else f"about {even.hidden_bytes / 1e6:,.0f} MB"
    factor = even.compute_factor
    if factor is None:
        needs = f"no batch is large enough for {GOOD_EFFICIENCY:.0%}"
    elif factor <= 1:
        needs = f"{GOOD_EFFICIENCY:.0%} is reached down to {factor:.2g} times this compute"
    else:
        needs = f"{GOOD_EFFICIENCY:.0%} needs {factor:.2g} times this compute, a batch so much larger"
    return (
        f"{_called(row, study)}{cap}: {row.found.efficiency:.1%} efficient; {needs}; one backward pass can hide an "
        f"all-reduce of {longest} at most, this model has {study.request.model.num_bytes / 1e6:,.0f} MB"
    )


def report_json(study: Study) -> str:
    """The `ddp/1` document: SI units; its first row once more at the top."""
    from topo.jsonio import encode_document

    request, simulator = study.request, study.simulator
    best = [{**_head(row), "flat_range_mb": list(flat)} for row, flat in study.sweeps()]
    return encode_document(
        SCHEMA,
        {
            "topology": simulator.machine.name,
            "num_ranks": simulator.machine.num_ranks,
            "profile": simulator.profile.name,
            "model": {
                "name": request.model.name,
                "num_parameters": request.model.num_elements,
                "num_bytes": request.model.num_bytes,
                "dtype": request.model.dtype,
            },
            "batch": request.batch,
            "accumulation": request.accumulation,
            "compression": request.compression,
            "gradient_as_bucket_view": request.bucket_views,
            "first_bucket_cap_mb": request.caps[0].first_cap_mb,
            "compute": _compute_plain(request),
            **_plain(study.rows[0]),
            "best": best,
            "rows": [_plain(row) for row in study.rows],
            "assumptions": list(sentences(study)),
        },
    )


def _compute_plain(request: Request) -> dict[str, Any]:
    compute = request.compute
    return {
        "modelled": compute is not None,
        "gpu": compute.gpu if compute else None,
        "precision": compute.precision if compute else None,
        "peak_flops_per_s": compute.peak_flops_per_s if compute else None,
        "mfu": compute.mfu if compute else None,
        "assumed": compute.assumed if compute else False,
        "memory_bytes_per_s": request.memory_bytes_per_s,
    }


def _head(row: Row) -> dict[str, Any]:
    found = row.found
    return {
        "machine": row.machine,
        "schedule": found.schedule,
        "algorithm": found.algorithm,
        "bucket_cap_mb": found.caps.cap_mb if _is_in_buckets(found) else None,
        "step_s": found.step_s,
        "exposed_s": found.exposed_s,
        "overlapped_s": found.overlapped_s,
        "communication_s": found.communication_s,
        "forward_s": found.busy_s("forward"),
        "backward_s": found.busy_s("backward"),
        "copy_s": found.copy_s,
        "efficiency": found.efficiency,
    }


def _plain(row: Row) -> dict[str, Any]:
    found = row.found
    buckets = [
        {
            "num_bytes": bucket.num_bytes,
            "sent_bytes": span.task.num_bytes,
            "num_parameters": len(bucket.parameters),
            "dtype": bucket.dtype,
            "ready_s": span.ready_s,
            "start_s": span.start_s,
            "end_s": span.end_s,
        }
        for bucket, span in zip(found.buckets, found.sendings(), strict=True)
    ]
    even = None
    if row.even is not None:
        even = {"hidden_bytes": row.even.hidden_bytes, "compute_factor": row.even.compute_factor}
    return {**_head(row), "buckets": buckets, "break_even": even}


def _backward_end_s(found: StepPrediction) -> float:
    return max(span.end_s for span in found.spans if span.task.kind == "backward")


def _is_in_buckets(found: StepPrediction) -> bool:
    return schedule(found.schedule).in_buckets
