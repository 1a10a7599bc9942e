"""Fitted terms as a document: what `make profiles` builds from published runs, and `topo calibrate` from your own."""

from __future__ import annotations

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

    `seen` names the generations and networks that the runs held; on others every time is an extrapolation. Raises
    NameChoiceError for a term that there is not, CaptureError for one that is missing or not positive.
    """

    name: str
    provenance: str
    terms: tuple[FittedTerm, ...]
    bands: tuple[Band, ...] = ()
    seen: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [term.name for term in self.terms]
        for term in self.terms:
            if term.name not in INDEX:
                raise NameChoiceError(f"term of profile {self.name}", term.name, INDEX)
            if not 0 < term.value < float("inf"):
                raise CaptureError(f"profile {self.name}: {term.name} is {term.value}, it must be positive and finite")
        missing = [name for name in INDEX if name not in names]
        if missing or len(set(names)) < len(names):
            twice = next((name for place, name in enumerate(names) if name in names[:place]), "")
            what = f"lacks {', '.join(missing[:3])}" if missing else f"states {twice} twice"
            raise CaptureError(f"profile {self.name} {what}: it must state each of {len(TERMS)} terms once")

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

    def band(self, num_bytes: float, *, several_nodes: bool) -> tuple[float, float]:
        """Factors on a predicted time between which four of five measured ones lie; (1, 1) where nothing is known."""
        regime = regime_of(num_bytes)
        rows = (band for band in self.bands if band.regime == regime and band.several_nodes == several_nodes)
        return next(((band.low, band.high) for band in rows), (1.0, 1.0))


def load_kernels(path: Path = SHIPPED) -> KernelProfile:
    """The profile in a file; CaptureError with the JSON path of what is wrong."""
    from topo.textfile import read_file

    return _decoded(read_file(path), str(path))


@lru_cache(maxsize=4)
def _decoded(text: str, source: str) -> KernelProfile:
    """The profile that a text holds; every machine asks for the same one."""
    from topo.jsonio import decode

    return decode(text, KernelProfile, SCHEMA, source)
