"""What is scored: something that says how long each sample of a case lasts, and can be fitted to a few of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from validate.published.cases import Case

    Numbers = npt.NDArray[np.float64]


class Predictor(Protocol):
    """A model of the time that collectives take. It must look at no measured time but those it is fitted to."""

    def times_s(self, case: Case) -> Numbers:
        """Predicted seconds, one for each sample of the case; NaN where the model has nothing to say."""
        ...

    def adapted(self, case: Case, rows: tuple[int, ...]) -> Predictor:
        """The same model fitted to these samples of this case alone: one for overhead, three for rates as well."""
        ...
