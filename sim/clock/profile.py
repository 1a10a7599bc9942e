"""Fitted terms as a document: what `make profiles` builds from published runs, and `topo calibrate` from your own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from sim.clock.terms import INDEX, KIB, MIB, TERMS
from topo.errors import CaptureError, NameChoiceError

SHIPPED = Path(__file__).parent.parent / "profiles" / "nccl.json"
SCHEMA = "kernels/1"
REGIMES = ("latency", "knee", "bandwidth")
"""Sizes up to 64 KiB, up to 16 MiB, and beyond."""
_EDGES_BYTES = (64 * KIB, 16 * MIB)


def regime_of(num_bytes: float) -> str:
    """The regime of a size."""
    return REGIMES[sum(num_bytes > edge for edge in _EDGES_BYTES)]


def seen_kernel(generation: str, kernel: str, num_bytes: float) -> str:
    """What a run of this kernel and size on this generation shows, in words.

    >>> seen_kernel("hopper", "ring/ll", 8)
    'hopper ring/ll latency'
    """
    return f"{generation} {kernel} {regime_of(num_bytes)}"


@dataclass(frozen=True, slots=True)
class FittedTerm:
    """One term's value, with the standard error of its logarithm; `learned` is the share of its prior variance gone.

    A term with `learned` near 0 still stands where it started: the runs say nothing of it.
    """

    name: str
    value: float
    log_error: float
    learned: float


@dataclass(frozen=True, slots=True)
class Band:
    """Between which factors of the predicted time four fifths of held-back rows lay, of machine classes not fitted."""

    regime: str
    several_nodes: bool
    low: float
    high: float
    num_rows: int


@dataclass(frozen=True)
class KernelProfile:
    """The clock's terms and how far to trust them.

    `seen` names the generations and networks that the runs held; on others every time is an extrapolation, and so is
    that of a kernel (`seen_kernels`, as `seen_kernel` names them) that no run of the generation and regime shows.
    Raises NameChoiceError for a term or a regime that there is not, CaptureError for one that stands twice or whose
    numbers cannot be.
    """

    name: str
    provenance: str
    terms: tuple[FittedTerm, ...]
    bands: tuple[Band, ...] = ()
    seen: tuple[str, ...] = ()
    seen_kernels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [term.name for term in self.terms]
        for term in self.terms:
            if term.name not in INDEX:
                raise NameChoiceError(f"term of profile {self.name}", term.name, INDEX)
            self._check_term(term)
        missing = [name for name in INDEX if name not in names]
        if missing or len(set(names)) < len(names):
            twice = next((name for place, name in enumerate(names) if name in names[:place]), "")
            what = f"lacks {', '.join(missing[:3])}" if missing else f"states {twice} twice"
            raise CaptureError(f"profile {self.name} {what}: it must state each of {len(TERMS)} terms once")
        self._check_bands()

    def _check_term(self, term: FittedTerm) -> None:
        what = f"profile {self.name}: {term.name}"
        if not 0 < term.value < math.inf:
            raise CaptureError(f"{what} is {term.value}, it must be positive and finite")
        if not 0 <= term.log_error < math.inf:
            raise CaptureError(f"{what} has log_error {term.log_error}, it must be 0 or more and finite")
        if not 0 <= term.learned <= 1:
            raise CaptureError(f"{what} has learned {term.learned}, it must be a share from 0 to 1")

    def _check_bands(self) -> None:
        seen: set[tuple[str, bool]] = set()
        for band in self.bands:
            if band.regime not in REGIMES:
                raise NameChoiceError(f"regime of profile {self.name}", band.regime, REGIMES)
            where = "several nodes" if band.several_nodes else "a node"
            what = f"profile {self.name}: the {band.regime} band of {where}"
            if not 0 < band.low <= band.high < math.inf:
                raise CaptureError(
                    f"{what} goes from {band.low} to {band.high}, expected positive, finite factors, the lower first"
                )
            if band.num_rows < 0:
                raise CaptureError(f"{what} is of {band.num_rows} rows, expected 0 or more")
            if (band.regime, band.several_nodes) in seen:
                raise CaptureError(f"{what} stands twice, keep one of the two")
            seen.add((band.regime, band.several_nodes))

    def __hash__(self) -> int:
        return hash((self.name, self.terms))

    @cached_property
    def values(self) -> tuple[float, ...]:
        """The terms in the order of TERMS."""
        value_of = {term.name: term.value for term in self.terms}
        return tuple(value_of[term.name] for term in TERMS)

    def value(self, name: str) -> float:
        """One term's value."""
        return self.values[INDEX[name]]

    def band(self, num_bytes: float, *, several_nodes: bool) -> tuple[float, float] | None:
        """Factors on a predicted time between which four of five measured ones lie; None where nothing is known."""
        regime = regime_of(num_bytes)
        rows = (band for band in self.bands if band.regime == regime and band.several_nodes == several_nodes)
        return next(((band.low, band.high) for band in rows), None)


def load_kernels(path: Path = SHIPPED) -> KernelProfile:
    """The profile in a file; CaptureError with the JSON path of what is wrong."""
    from topo.textfile import read_file

    return _decoded(read_file(path), str(path))


@lru_cache(maxsize=4)
def _decoded(text: str, source: str) -> KernelProfile:
    """The profile that a text holds; every machine asks for the same one."""
    from topo.jsonio import decode

    return decode(text, KernelProfile, SCHEMA, source)
