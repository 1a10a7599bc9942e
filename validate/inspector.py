"""Records of NCCL's Inspector as measurements: the ranks' records of one collective together are one sample."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from sim.collective import COLLECTIVES, collective
from topo.errors import MeasurementError
from topo.readers.nccl_inspector import InspectorDump, InspectorRecord
from topo.words import counted
from validate.measurement import Measurement
from validate.measurement_set import Hints, MeasurementSet, workload_of
from validate.words import listed

AGREE = 0.02
"""How far the size may be from what time and algbw say: times are printed in whole microseconds."""

Key = tuple[str, int, int]
"""Collective, bytes, ranks."""


def from_inspector(dump: InspectorDump, hints: Hints) -> MeasurementSet:
    """One measurement for each collective, size and number of ranks; a sample is the slowest rank's time.

    Point-to-point and unknown operations are passed over and named. MeasurementError where nothing is left, or the
    user names another collective or number of ranks.
    """
    wanted = None if hints.collective is None else collective(hints.collective).name
    samples: dict[Key, dict[tuple[str, int], float]] = defaultdict(dict)
    seen: dict[Key, set[int]] = defaultdict(set)
    unknown: set[str] = set()
    for record in dump.records:
        name = _name(record)
        if name is None:
            unknown.add(record.collective)
            continue
        if wanted not in (None, name) or hints.num_ranks not in (None, record.num_ranks):
            continue
        key = (name, _num_bytes(record, dump.source), record.num_ranks)
        one = samples[key]
        which = (record.communicator, record.number)
        one[which] = max(one.get(which, 0.0), record.time_s)
        seen[key].add(record.rank)
    if not samples:
        asked = "" if wanted is None and hints.num_ranks is None else " of what --collective and --ranks ask for"
        raise MeasurementError(f"{dump.source} has no collective{asked} that is compared here")
    measurements = tuple(_measurement(dump, key, tuple(found.values())) for key, found in sorted(samples.items()))
    return MeasurementSet(Path(dump.source).stem, measurements, remarks=tuple(_remarks(dump, seen, unknown)))


def _name(record: InspectorRecord) -> str | None:
    """Our name of the collective: the plugin writes AllReduce, nccl-tests all_reduce."""
    word = record.collective.lower().replace("_", "")
    for name, row in COLLECTIVES.items():
        if word in (name.replace("_", ""), *(alias.lower() for alias in row.aliases)):
            return name
    return None


def _num_bytes(record: InspectorRecord, source: str) -> int:
    """nccl-tests' size: the message, or that of all ranks together, whichever time and algbw bear out."""
    moved = record.algbw_bytes_per_s * record.time_s
    for num_bytes in (record.msg_bytes, record.msg_bytes * record.num_ranks):
        # A whole microsecond either way, of a short time, is more than AGREE.
        if abs(moved - num_bytes) <= (AGREE + 1e-6 / record.time_s) * num_bytes:
            return num_bytes
    raise MeasurementError(
        f"{source}, line {record.line}: {record.msg_bytes} bytes in {record.time_s * 1e6:g} us and algbw "
        f"{record.algbw_bytes_per_s / 1e9:g} GB/s contradict each other"
    )


def _measurement(dump: InspectorDump, key: Key, samples_s: tuple[float, ...]) -> Measurement:
    name, num_bytes, num_ranks = key
    return Measurement(
        workload_of(name, max(num_bytes, 1), "unknown", None),
        num_ranks,
        backend="nccl-inspector",
        executor="builtin",
        algorithm="builtin",
        samples_s=samples_s,
        provenance=f"{dump.source}: NCCL Inspector, {counted(len(samples_s), 'collective')} of a run",
    )


def _remarks(dump: InspectorDump, seen: dict[Key, set[int]], unknown: set[str]) -> Iterator[str]:
    if unknown:
        yield f"passed over: {listed(sorted(unknown))}, which are no collectives that are compared here"
    few = [(len(ranks), key[2]) for key, ranks in seen.items() if len(ranks) < key[2]]
    if few:
        least, num_ranks = min(few)
        yield (
            f"it holds the records of {counted(least, 'rank')} of {num_ranks}: the slowest of all may have been "
            "slower, join the files of all ranks"
        )
    yield "a collective inside an application includes the wait for its latest rank, and what runs beside it"
    if dump.is_cut:
        yield "its last record is cut off, and left out"
