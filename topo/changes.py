"""What one may change of a machine or a run, as values: `topo.change_verbs` reads them from text.

Nothing here knows a machine: names are looked up where a change is made (`topo.edit`), and what is about a run rather
than a machine (`late`, `env`, `p2p`, `server`) is left to whoever runs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from topo.errors import ChangeError, TopoError
from topo.fabric import Fabric

FABRIC_PART = "fabric"
"""The part that `scale` and `set` know beside those of a machine: what joins the nodes."""


@dataclass(frozen=True, slots=True)
class Break:
    """The links of a part carry nothing any more."""

    part: str


@dataclass(frozen=True, slots=True)
class Lanes:
    """The links of a part have so many lanes, each as fast as before."""

    part: str
    lanes: int


@dataclass(frozen=True, slots=True)
class Scale:
    """The links of a part have `factor` times their `bandwidth` or `latency`; what they say of themselves stays."""

    part: str
    quantity: str
    factor: float


@dataclass(frozen=True, slots=True)
class Put:
    """A quantity of a part is this: `bandwidth` (bytes/s), `latency` (s), `generation`, `width` or `lanes`."""

    part: str
    quantity: str
    value: float


@dataclass(frozen=True, slots=True)
class AddNic:
    """So many more NICs of a rate stand at a place: below a switch, a processor, or beside a GPU."""

    place: str
    rate_bytes_per_s: float
    count: int = 1


@dataclass(frozen=True, slots=True)
class ReplaceGpu:
    """Every GPU is of another model."""

    model: str


@dataclass(frozen=True, slots=True)
class Nodes:
    """The node stands so often; several counts are several machines."""

    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class JoinBy:
    """Another fabric joins the nodes."""

    fabric: Fabric


@dataclass(frozen=True, slots=True)
class Late:
    """The ranks of a part start this much later than the others."""

    part: str
    late_s: float


@dataclass(frozen=True, slots=True)
class SetVariable:
    """NCCL reads this variable."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class PeerToPeer:
    """Whether GPUs of one machine reach each other's memory; where not, everything passes through the host's."""

    on: bool


@dataclass(frozen=True, slots=True)
class ServeFrom:
    """A parameter server on these places does the reduction."""

    places: str


MachineChange = Break | Lanes | Scale | Put | AddNic | ReplaceGpu | Nodes | JoinBy
RunChange = Late | SetVariable | PeerToPeer | ServeFrom
Change = MachineChange | RunChange


def require_consistent(text: str, changes: Sequence[Change]) -> None:
    """Raise ChangeError where two of the changes say different things of one subject."""
    seen: dict[tuple[str, ...], Change] = {}
    for change in changes:
        subject = _subject(change)
        if subject is None:
            continue
        if subject in seen:
            same = "twice" if seen[subject] == change else "in two ways"
            raise ChangeError(text, f"{' '.join(subject)} is changed {same}: keep one")
        seen[subject] = change


@contextmanager
def naming(change: str) -> Iterator[None]:
    """Names the change in whatever error comes from reading or making it."""
    try:
        yield
    except ChangeError:
        raise
    except TopoError as error:
        raise ChangeError(change, str(error)) from error


def _subject(change: Change) -> tuple[str, ...] | None:
    """What a change fixes, of which there can be one; None where changes add up. To break is to leave no lanes."""
    match change:
        case Lanes(part) | Break(part):
            return ("lanes of", part.lower())
        case Put(part, quantity):
            return (f"{quantity} of", part.lower())
        case Late(part):
            return ("the start of", part.lower())
        case PeerToPeer() | SetVariable("NCCL_P2P_DISABLE"):
            return ("variable", "NCCL_P2P_DISABLE")
        case SetVariable(name):
            return ("variable", name)
    return _SINGLE.get(type(change))


_SINGLE: Mapping[type, tuple[str, ...]] = {
    ReplaceGpu: ("the GPU model",),
    Nodes: ("the number of nodes",),
    JoinBy: ("the fabric",),
    ServeFrom: ("the server",),
}
"""Changes of which there can be one, whatever they say."""
