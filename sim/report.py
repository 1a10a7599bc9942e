"""Predictions as a table and as the `simulate/1` document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sim.algorithms import ALGORITHMS, algorithm
from topo.cli_common import Column, Table
from topo.errors import ScheduleError
from topo.units import format_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sim.predict import Simulator
    from sim.prediction import Prediction

COLUMNS = (
    Column("size", "num_bytes"),
    Column("algorithm", "algorithm"),
    Column("chan", "num_channels"),
    Column("time us", "time_us", ",.2f"),
    Column("algbw GB/s", "algbw_gb_per_s", ".2f"),
    Column("busbw GB/s", "busbw_gb_per_s", ".2f"),
    Column("wire GB/s", "wire_gb_per_s", ".2f"),
    Column("limiting link", "limiting_link"),
)


def names_to_run(text: str, collective: str) -> tuple[str, ...]:
    """The algorithms that `--algorithm` names: `auto` as it stands, `all` those that run the collective."""
    names: tuple[str, ...]
    if text == "auto":
        names = ("auto",)
    elif text == "all":
        names = tuple(row.name for row in ALGORITHMS.values() if collective in row.collectives)
    else:
        names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name != "auto" and collective not in algorithm(name).collectives:
            known = ", ".join(algorithm(name).collectives)
            raise ScheduleError(f"--algorithm {name} runs {known}, not {collective}: choose another algorithm")
    return names


def report_table(simulator: Simulator, predictions: Sequence[Prediction]) -> Table:
    """One row per prediction, in the units people read."""
    rows = tuple(
        (
            format_size(run.workload.num_bytes),
            run.algorithm,
            run.num_channels,
            run.duration_s * 1e6,
            _giga(run.algbw_bytes_per_s),
            _giga(run.busbw_bytes_per_s),
            _giga(run.wire_bytes_per_s),
            run.limiting.link if run.limiting else None,
        )
        for run in predictions
    )
    machine, profile = simulator.machine, simulator.profile.name
    collective = predictions[0].workload.collective if predictions else ""
    engines = " and ".join(sorted({run.engine for run in predictions}))
    title = f"{collective} on {machine.name}, {machine.num_ranks} ranks: simulated, profile {profile}, engine {engines}"
    return Table(COLUMNS, rows, title)


def report_json(simulator: Simulator, predictions: Sequence[Prediction]) -> str:
    """The `simulate/1` document: SI units, one row per prediction."""
    from topo.jsonio import encode_document

    machine = simulator.machine
    return encode_document(
        "simulate/1",
        {
            "topology": machine.name,
            "collective": predictions[0].workload.collective if predictions else None,
            "num_ranks": machine.num_ranks,
            "profile": simulator.profile.name,
            "rows": [_row(run) for run in predictions],
        },
    )


def _row(run: Prediction) -> dict[str, Any]:
    return {
        "num_bytes": run.workload.num_bytes,
        "algorithm": run.algorithm,
        "protocol": run.protocol,
        "num_channels": run.num_channels,
        "engine": run.engine,
        "time_s": run.duration_s,
        "algbw_bytes_per_s": run.algbw_bytes_per_s,
        "busbw_bytes_per_s": run.busbw_bytes_per_s,
        "wire_bytes_per_s": run.wire_bytes_per_s,
        "limiting_link": run.limiting.link if run.limiting else None,
    }


def _giga(bytes_per_s: float | None) -> float | None:
    return None if bytes_per_s is None else bytes_per_s / 1e9
