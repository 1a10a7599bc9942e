"""Files of measurements: our own document, published runs (`measurement/1`), and what nccl-tests prints or writes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sim.collective import collective
from topo.errors import CaptureError, MeasurementError, NameChoiceError
from topo.gpu_models import gpu_model
from topo.readers.nccl_tests_table import NcclTestsTable
from topo.words import counted
from validate.inspector import from_inspector
from validate.measurement import Measurement, Setting
from validate.measurement_set import Hints, MeasurementSet, RanOn, workload_of
from validate.published import document
from validate.tables import from_nccl_tests
from validate.words import listed

__all__ = ["SCHEMA", "Hints", "MeasurementSet", "parse_measurements", "read_measurements"]

SCHEMA = "measurements/1"
DERIVED = ("rows", "backend", "collective", "num_ranks", "held_out")
"""Keys that are computed when our document is written, and ignored when it is read."""


def read_measurements(path: Path, hints: Hints | None = None) -> MeasurementSet:
    """The measurements in a file of any format named above; CaptureError or MeasurementError where there are none."""
    from topo.textfile import read_file

    return parse_measurements(read_file(path), str(path), hints or Hints())


def parse_measurements(text: str, source: str, hints: Hints) -> MeasurementSet:
    """The measurements in a text; the format is found out from the text."""
    from topo.jsonio import decode, schema_of
    from topo.readers import nccl_inspector, nccl_tests, nccl_tests_json

    schema = schema_of(text)
    if schema == SCHEMA:
        return _as_hinted(decode(text, MeasurementSet, SCHEMA, source, derived=DERIVED), source, hints)
    if schema == document.SCHEMA:
        published = document.read(text, source)
        run = replace(from_published(published, source), ran_on=_place_of(published))
        return _as_hinted(run, source, hints)
    if nccl_tests_json.sniff(text):
        return from_nccl_tests(nccl_tests_json.read(text, source), hints, place="result")
    if nccl_tests.sniff(text):
        return from_nccl_tests(_table(text, source, hints), hints, place="line")
    if nccl_inspector.sniff(text):
        return from_inspector(nccl_inspector.read(text, source), hints)
    what = f"a document of schema {schema!r}" if schema else "in no known format"
    raise CaptureError(
        f"{what}: read are nccl-tests (its text, or JSON by -J), JSON lines of NCCL's Inspector, measurement/1, and "
        "what topo validate run writes",
        source=source,
    )


def _table(text: str, source: str, hints: Hints) -> NcclTestsTable:
    """The one table of nccl-tests in the text; of several the one that is of the user's collective."""
    from topo.readers import nccl_tests

    tables = nccl_tests.read_all(text, source)
    if len(tables) == 1:
        return tables[0]
    stated = [None if table.collective is None else _known(table.collective) for table in tables]
    wanted = None if hints.collective is None else collective(hints.collective).name
    fitting = [table for table, name in zip(tables, stated, strict=True) if wanted is not None and name == wanted]
    if len(fitting) == 1:
        return fitting[0]
    names = listed([name or "one that is not named" for name in stated])
    raise CaptureError(
        f"holds {len(tables)} tables of nccl-tests ({names}): choose one with --collective, or cut the file",
        source=source,
    )


def _known(name: str) -> str:
    """Our name of a collective, or the name itself where we have none."""
    try:
        return collective(name).name
    except NameChoiceError:
        return name


def from_published(found: document.Published, source: str) -> MeasurementSet:
    """A published run, one measurement for each size."""
    software = (Setting("nccl", found.software.nccl),) if found.software.nccl else ()
    environment = tuple(Setting(name, str(value)) for name, value in found.software.env.items())
    measurements = tuple(
        Measurement(
            workload_of(found.collective, sample.num_bytes, found.dtype, found.reduction),
            found.num_ranks,
            backend="nccl-tests",
            executor="builtin",
            algorithm=found.algorithm or "builtin",
            samples_s=(sample.time_s,),
            software=software,
            environment=environment,
            provenance=found.source,
            protocol=found.protocol,
            num_channels=found.num_channels,
            gpus_per_process=found.software.gpus_per_process,
        )
        for sample in found.samples
    )
    if not measurements:
        raise CaptureError("it has no samples", source=source)
    return MeasurementSet(f"{found.id}-{found.name}", measurements)


def _place_of(found: document.Published) -> RanOn:
    """Where a published run was: GPUs as its words name them, hosts of the preset that its topology is called after."""
    from topo.presets import PRESETS, preset

    stated = found.machine
    gpu = gpu_model(stated.description) or gpu_model(stated.machine_class)
    name = Path(stated.topology).stem
    node = preset(name) if name in PRESETS else None
    took_part = node.gpu_ids[: stated.gpus_per_node] if node else ()
    num_hosts = len({node.device(gpu_id).host for gpu_id in took_part}) * stated.nodes if node else None
    return RanOn((gpu.name,) if gpu else (), num_hosts)


def _as_hinted(found: MeasurementSet, source: str, hints: Hints) -> MeasurementSet:
    """The set as it is: it states all by itself. MeasurementError where the user states something else."""
    name = None if hints.collective is None else collective(hints.collective).name
    for row in found.measurements:
        if hints.num_ranks not in (None, row.num_ranks):
            ranks = counted(row.num_ranks, "rank")
            raise MeasurementError(f"{source} holds a run of {ranks}, but --ranks {hints.num_ranks} was given")
        if name not in (None, row.workload.collective):
            raise MeasurementError(
                f"{source} holds {row.workload.collective}, but --collective {hints.collective} was given"
            )
    return found
