"""From what `topo validate published` is asked to scores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from topo.errors import MeasurementError
from topo.words import counted
from validate.published.cases import Cases, cases_of
from validate.published.runs import runs_in, shipped_runs
from validate.scoring.fits import FITS
from validate.scoring.models import BASELINES, OURS
from validate.scoring.models import model as find_model
from validate.scoring.score import score

if TYPE_CHECKING:
    from validate.scoring.score import Progress, Scores


def load(data: Path | None = None, machines: Path | None = None, quality: str = "healthy") -> Cases:
    """The runs of that quality (`all`: of any) in a folder, or those that are shipped, as cases.

    MeasurementError where none is left.
    """
    from validate.published.runs import Runs

    found = Runs(shipped_runs()) if data is None else runs_in(data)
    wanted = [run for run in found.runs if quality in ("all", run.quality)]
    made = cases_of(wanted, machines)
    set_aside = (*found.set_aside, *made.set_aside)
    if not made.cases:
        why = (
            f": {set_aside[0].run}: {set_aside[0].reason}"
            if set_aside
            else f": of {counted(len(found.runs), 'run')} none is {quality}, use another --quality"
        )
        raise MeasurementError(f"{data or 'the package'} holds no run that can be scored{why}")
    return replace(made, set_aside=set_aside)


def num_known(found: Cases, name: str | None) -> int:
    """How many of these runs the model, as it is shipped, was fitted to."""
    if not find_model(OURS if name is None else name).knows_shipped_runs:
        return 0
    known = {(run.name, run.samples) for run in shipped_runs() if run.quality == "healthy"}
    return sum((case.run.name, case.samples) in known for case in found.cases)


def score_all(found: Cases, name: str | None, fit: str, leave_class_out: bool, progress: Progress = iter) -> Scores:
    """The scores of the model of that name (None: ours) beside the baselines."""
    chosen = next(row for row in FITS if row == fit)
    ours = find_model(OURS if name is None else name)
    baselines = [find_model(row) for row in BASELINES]
    return score(found.cases, ours, baselines, chosen, leave_class_out=leave_class_out, progress=progress)
