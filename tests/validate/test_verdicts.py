"""Verdicts on published runs: healthy machines are called LOW in few rows, whoever measured them and however."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sim.collective import COLLECTIVES
from tests.support import examples
from topo.load import load_topology
from validate.compare import Comparison
from validate.documents import read_measurements
from validate.measurement_set import MeasurementSet
from validate.predicting import hold_against

MOST_FALSE_LOW = 0.03
EVERY = 4
"""Of each run every fourth row; of runs on several nodes none, which take longer to predict."""


def judged(path: Path, corpus: Path) -> tuple[Comparison, ...]:
    """Rows of a healthy run on one node beside their predictions; none of other runs."""
    run = json.loads(path.read_text())
    machine = run["machine"]
    if run["quality"] != "healthy" or machine["nodes"] > 1 or run["collective"] not in COLLECTIVES:
        return ()
    gpus = f"0-{machine['gpus_per_node'] - 1}"
    found = read_measurements(path)
    rows = found.measurements[(len(path.name) % EVERY) :: EVERY]
    return hold_against(MeasurementSet(found.name, rows), load_topology(str(corpus / machine["topology"]), gpus=gpus))


@pytest.mark.corpus
def test_healthy_machines_are_called_low_in_few_rows(corpus: Path) -> None:
    paths = sorted(corpus.glob("measurements/*.json"))
    step = max(1, 400 // examples(100))
    rows = [row for path in paths[::step] for row in judged(path, corpus)]
    low = [f"{row.measurement.provenance} {row.measurement.workload.num_bytes}" for row in rows if row.verdict == "LOW"]
    assert len(rows) > 40
    assert len(low) <= MOST_FALSE_LOW * len(rows), low
