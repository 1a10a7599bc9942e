"""Models over published runs: every row predicted by each of them, and none seen by the model that is scored on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from topo.errors import MeasurementError
from validate.published.cases import Case
from validate.scoring.errors import UNPREDICTED, ByRegime, by_regime
from validate.scoring.fits import Fit, fit_of, rows_of

if TYPE_CHECKING:
    from validate.scoring.models import Model
    from validate.scoring.predictor import Predictor

ALL = "all"

Progress = Callable[[Sequence[Case]], Iterator[Case]]


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """One sample of a run: what was measured, and what each model says (None: nothing).

    `fitted` rows were given to the models, and are not scored.
    """

    num_bytes: int
    measured_s: float
    predicted_s: Mapping[str, float | None]
    fitted: bool = False

    def relative_error(self, model: str) -> float | None:
        """Predicted over measured, minus 1; None where the model says nothing."""
        predicted_s = self.predicted_s[model]
        return None if predicted_s is None else predicted_s / self.measured_s - 1


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """A run with all its rows; `fit` is what was used of it, which is less than asked for where sizes are few."""

    case: Case
    fit: Fit
    rows: tuple[ScoredRow, ...]

    @property
    def scored(self) -> tuple[ScoredRow, ...]:
        """The rows that count."""
        return tuple(row for row in self.rows if not row.fitted)


@dataclass(frozen=True, slots=True)
class Scores:
    """All runs under one fit. `ours` is the model in question, `baselines` stand beside it.

    `cross_validated`: each class of machines was predicted by models that learned from the other classes alone.
    """

    runs: tuple[ScoredRun, ...]
    ours: str
    baselines: tuple[str, ...]
    fit: Fit
    cross_validated: bool = False

    @property
    def models(self) -> tuple[str, ...]:
        """Ours and the baselines, each once."""
        return tuple(dict.fromkeys((self.ours, *self.baselines)))

    @property
    def num_rows(self) -> int:
        """Rows that count."""
        return sum(len(run.scored) for run in self.runs)

    def errors(self, model: str, key: Callable[[Case], str]) -> dict[str, ByRegime]:
        """The model's errors of all rows together, and of the runs of each key, in the keys' order.

        A row without a prediction counts as an error of 100 % for ours; a baseline is judged on what it predicts.
        """
        groups: dict[str, list[tuple[int, float]]] = {ALL: []}
        for name in sorted({key(run.case) for run in self.runs}):
            groups[name] = []
        for run in self.runs:
            rows = [(row.num_bytes, error) for row in run.scored if (error := self.counted(row, model)) is not None]
            groups[ALL] += rows
            groups[key(run.case)] += rows
        return {name: by_regime(rows) for name, rows in groups.items() if rows}

    def counted(self, row: ScoredRow, model: str) -> float | None:
        """The relative error that counts for a row; None where it does not."""
        error = row.relative_error(model)
        return -UNPREDICTED if error is None and model == self.ours else error


def score(
    cases: Sequence[Case],
    ours: Model,
    baselines: Sequence[Model],
    fit: Fit = "none",
    *,
    leave_class_out: bool = False,
    progress: Progress = iter,
) -> Scores:
    """Every case predicted by all models.

    With `leave_class_out` models that learn do so from the other classes of machines alone, else they are as shipped.
    """
    models = {model.name: model for model in (ours, *baselines)}
    made = {name: _predictors(model, cases, leave_class_out) for name, model in models.items()}
    runs = tuple(
        _scored(case, {name: by_class[case.machine_class] for name, by_class in made.items()}, fit)
        for case in progress(cases)
    )
    return Scores(runs, ours.name, tuple(model.name for model in baselines), fit, leave_class_out)


def _predictors(model: Model, cases: Sequence[Case], leave_class_out: bool) -> dict[str, Predictor]:
    """The predictor for each class of machines."""
    classes = sorted({case.machine_class for case in cases})
    if leave_class_out and model.trainer:
        if len(classes) < 2:
            raise MeasurementError(
                f"all runs are of class {''.join(classes)}, so that leaving it out leaves nothing to learn from: "
                "leave --cross-validate away, or add runs of other machines"
            )
        return {name: model.train([case for case in cases if case.machine_class != name]) for name in classes}
    return dict.fromkeys(classes, model.predictor())


def _scored(case: Case, predictors: Mapping[str, Predictor], fit: Fit) -> ScoredRun:
    fitted = rows_of(case, fit)
    times = {name: _times_s(predictor, case, fitted) for name, predictor in predictors.items()}
    rows = tuple(
        ScoredRow(
            sample.num_bytes,
            sample.time_s,
            {name: times_s[place] for name, times_s in times.items()},
            place in fitted,
        )
        for place, sample in enumerate(case.samples)
    )
    return ScoredRun(case, fit_of(case, fit), rows)


def _times_s(predictor: Predictor, case: Case, fitted: tuple[int, ...]) -> list[float | None]:
    """What the predictor says of each sample; it is shown the times of the fitted ones and no other."""
    adapted = predictor.adapted(blind(case, fitted), fitted) if fitted else predictor
    times_s = adapted.times_s(blind(case, ()))
    if times_s.shape != (len(case.samples),):
        raise ValueError(f"{case.name}: {times_s.shape} times for {len(case.samples)} samples, one each is needed")
    return [time_s if math.isfinite(time_s) and time_s > 0 else None for time_s in times_s.tolist()]


def blind(case: Case, shown: tuple[int, ...]) -> Case:
    """The case with NaN for every measured time but those of the samples that are shown."""
    samples = (row if place in shown else replace(row, time_s=math.nan) for place, row in enumerate(case.samples))
    return replace(case, samples=tuple(samples))
