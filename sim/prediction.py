"""What an engine answers: how long, how busy each link was, and which link limits."""

from __future__ import annotations

from dataclasses import dataclass

from sim.collective import collective
from sim.workload import Workload

MOSTLY_IDLE = 1 / 3
"""A link that is busy for less of the time does not limit by any reckoning.

NCCL's kernels keep the busiest link busy for 48 % of an all-reduce of 1 GiB at least, on every preset on one node and
on four: what is busy for between a third and half of the time decides together with the kernels, and is named.
"""


@dataclass(frozen=True, slots=True)
class LinkLoad:
    """What one link carried: bytes on the wire, its effective rate, and the share of the run it was in use.

    `num_links` counts the links that are alike where there are too many to list each.
    """

    link: str
    num_bytes: float
    bandwidth_bytes_per_s: float
    busy_fraction: float
    num_links: int = 1

    @property
    def is_mostly_idle(self) -> bool:
        """Whether something else than this link decides on the time, however busy the others are."""
        return self.busy_fraction < MOSTLY_IDLE


@dataclass(frozen=True, slots=True)
class Span:
    """One transfer: the row of the schedule, when it held its links and when its data had landed."""

    row: int
    start_s: float
    sent_s: float
    landed_s: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """The simulated run of one workload. Simulated times live here, measured ones in a Measurement, never together.

    `planner` said what runs; `instead_of` names what it would take, where that has no schedule here and this stands in.
    Four of five measured times are expected between `low_s` and `high_s`, None where no error is known. `extrapolated`:
    the profile was fitted to nothing of this kind.
    """

    workload: Workload
    num_ranks: int
    algorithm: str
    protocol: str
    num_channels: int
    engine: str
    profile: str
    duration_s: float
    link_loads: tuple[LinkLoad, ...] = ()
    spans: tuple[Span, ...] = ()
    planner: str = "topology"
    instead_of: str | None = None
    low_s: float | None = None
    high_s: float | None = None
    extrapolated: bool = False

    @property
    def algbw_bytes_per_s(self) -> float | None:
        """Bytes of the workload per second, as nccl-tests' algbw; None where no time passes."""
        return self.workload.num_bytes / self.duration_s if self.duration_s > 0 else None

    @property
    def busbw_bytes_per_s(self) -> float | None:
        """Algbw times the collective's factor (nccl-tests, doc/PERFORMANCE.md); None where no time passes."""
        algbw = self.algbw_bytes_per_s
        return None if algbw is None else algbw * collective(self.workload.collective).busbw_factor(self.num_ranks)

    @property
    def limiting(self) -> LinkLoad | None:
        """The link that needs longest for its bytes at full rate: no schedule of these bytes can beat it."""
        return max(self.link_loads, key=lambda load: load.num_bytes / load.bandwidth_bytes_per_s, default=None)

    @property
    def wire_bytes_per_s(self) -> float | None:
        """Bytes per second over the limiting link, counted on the link, never by a formula."""
        limiting = self.limiting
        return limiting.num_bytes / self.duration_s if limiting and self.duration_s > 0 else None
