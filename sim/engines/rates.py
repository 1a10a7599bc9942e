"""Max-min fair sharing: the rate of each route when several transfers use the same links at once.

Progressive filling (Bertsekas and Gallager, Data Networks, section 6.5.2): the link with the smallest fair share
fixes the transfers that cross it, its bandwidth is taken out, and so on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.engines.indexing import ragged
from sim.engines.network import Routes

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]

_MEMO_LIMIT = 4096
_TIE = 1 + 1e-12


@dataclass(frozen=True, eq=False)
class Sharing:
    """Bytes per second of one transfer on each active route, and the links that are in use."""

    rate_bytes_per_s: Floats
    links: Ints


class RateSolver:
    """Rates over fixed routes and link capacities; solutions are kept by the set of active routes."""

    def __init__(self, routes: Routes, capacity: Floats) -> None:
        """`capacity` is bytes per second by link."""
        self._first, self._links, self._capacity = routes.first, routes.links, capacity
        self._memo: dict[bytes, Sharing] = {}
        self.num_solves = 0

    def share(self, routes: Ints, counts: Ints) -> Sharing:
        """How `counts[i]` transfers on each of `routes[i]` share the links."""
        key = routes.tobytes() + counts.tobytes()
        known = self._memo.get(key)
        if known is None:
            self.num_solves += 1
            links = np.unique(self._links[ragged(self._first, routes)])
            known = Sharing(self._solve(routes, counts), links)
            if len(self._memo) >= _MEMO_LIMIT:
                self._memo.clear()
            self._memo[key] = known
        return known

    def _solve(self, routes: Ints, counts: Ints) -> Floats:
        entries = ragged(self._first, routes)
        link, of_link = np.unique(self._links[entries], return_inverse=True)
        of_route = np.repeat(np.arange(len(routes)), self._first[routes + 1] - self._first[routes])
        left = self._capacity[link].copy()
        rate = np.full(len(routes), np.inf)
        open_route = np.ones(len(routes), dtype=bool)
        weight = counts.astype(np.float64)
        while open_route.any():
            live = open_route[of_route]
            load = np.bincount(of_link, weights=np.where(live, weight[of_route], 0.0), minlength=len(link))
            with np.errstate(divide="ignore", invalid="ignore"):
                share = np.where(load > 0, left / load, np.inf)
            least = share.min(initial=np.inf)
            if not np.isfinite(least):
                break
            full = share <= least * _TIE
            fixed = np.zeros(len(routes), dtype=bool)
            fixed[of_route[live & full[of_link]]] = True
            rate[fixed] = least
            taken = np.bincount(of_link, weights=np.where(fixed[of_route], weight[of_route] * least, 0.0))
            left = np.maximum(left - taken, 0.0)
            open_route &= ~fixed
        return rate
