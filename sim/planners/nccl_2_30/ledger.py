"""What every link still has during a search, and the hops of the channels that stand (ncclTopoFollowPath)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sim.planners.nccl_2_30.ground import Route
from sim.planners.nccl_2_30.kinds import RESOLUTION_BYTES_PER_S, PathKind

Legs = Sequence[tuple["Route | None", float]]
"""Routes to be followed together, each with a multiple of the bandwidth."""


class Ledger:
    """Takes bandwidth from links and gives it back; what is left is rounded as NCCL does after each step.

    Routes that charge each link once and in full, by far the most, take a short way on which nothing needs rounding.
    """

    def __init__(self, bandwidths_bytes_per_s: Iterable[float]) -> None:
        self.left = list(bandwidths_bytes_per_s)
        self.num_hops = 0
        self._exact = not any(rate % RESOLUTION_BYTES_PER_S for rate in self.left)

    def follow(self, route: Route | None, bytes_per_s: float, limit: PathKind, *, both_ways: bool = False) -> bool:
        """Take the bandwidth on every hop, or on none; whether it was there and the path no worse than the limit.

        `both_ways` asks the same of the kind of the way back.
        """
        if route is None or route.kind > limit or (both_ways and route.back_kind > limit):
            return False
        if not self._charge(route, bytes_per_s):
            return False
        self.num_hops += route.num_hops
        return True

    def release(self, route: Route | None, bytes_per_s: float) -> None:
        """Give back what `follow` took."""
        assert route is not None
        self._refund(route, bytes_per_s)
        self.num_hops -= route.num_hops

    def follow_legs(self, legs: Legs, bytes_per_s: float, limit: PathKind) -> bool:
        """Follow all legs or none. NCCL tests the kind of a path only where the multiple is 1."""
        for position, (route, multiple) in enumerate(legs):
            tested = multiple == 1.0
            if route is None or (tested and route.kind > limit) or not self._charge(route, bytes_per_s * multiple):
                self.release_legs(legs[:position], bytes_per_s)
                return False
            self.num_hops = int(self.num_hops + multiple * route.num_hops)
        return True

    def release_legs(self, legs: Legs, bytes_per_s: float) -> None:
        """Give back what `follow_legs` took, last leg first: fractions of hops are cut off at every step."""
        for route, multiple in reversed(legs):
            assert route is not None
            self._refund(route, bytes_per_s * multiple)
            self.num_hops = int(self.num_hops - multiple * route.num_hops)

    def _charge(self, route: Route, bytes_per_s: float) -> bool:
        left = self.left
        if route.plain and self._exact and not bytes_per_s % RESOLUTION_BYTES_PER_S:
            for edge in route.edges:
                if left[edge] < bytes_per_s:
                    return False
            for edge in route.edges:
                left[edge] -= bytes_per_s
            return True
        for position, (edge, share) in enumerate(route.charges):
            rest = left[edge] - bytes_per_s * share
            if rest < 0:
                self._refund_each(route.charges[:position], bytes_per_s)
                return False
            left[edge] = rest if not rest % RESOLUTION_BYTES_PER_S else _rounded(rest)
        return True

    def _refund(self, route: Route, bytes_per_s: float) -> None:
        if route.plain and self._exact and not bytes_per_s % RESOLUTION_BYTES_PER_S:
            left = self.left
            for edge in route.edges:
                left[edge] += bytes_per_s
        else:
            self._refund_each(route.charges, bytes_per_s)

    def _refund_each(self, charges: Iterable[tuple[int, float]], bytes_per_s: float) -> None:
        left = self.left
        for edge, share in charges:
            rest = left[edge] + bytes_per_s * share
            left[edge] = rest if not rest % RESOLUTION_BYTES_PER_S else _rounded(rest)


def _rounded(bytes_per_s: float) -> float:
    """To NCCL's resolution, halves away from zero."""
    return int(bytes_per_s / RESOLUTION_BYTES_PER_S + 0.5) * RESOLUTION_BYTES_PER_S
