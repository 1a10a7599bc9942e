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

_MEMO_BYTES = 64 * 2**20
_TIE = 1 + 1e-12


@dataclass(frozen=True, eq=False)
class Sharing:
    """Bytes per second of one transfer on each route, 0 where none is active, and the links that are in use."""

    rate_bytes_per_s: Floats
    links: Ints


class RateSolver:
    """Rates over fixed routes and link capacities; solutions are kept by how many transfers are on each route."""

    def __init__(self, routes: Routes, capacity: Floats) -> None:
        """`capacity` is bytes per second by link."""
        self._first, self._links, self._capacity = routes.first, routes.links, capacity
        self._weight = np.ones(len(routes.links)) if routes.weight is None else routes.weight
        self._memo: dict[bytes, Sharing] = {}
        self.num_solves = 0

    def share(self, on_route: Ints) -> Sharing:
        """How the links are shared by `on_route[r]` transfers on each route r."""
        key = on_route.tobytes()
        known = self._memo.get(key)
        if known is None:
            self.num_solves += 1
            routes = np.flatnonzero(on_route).astype(np.int32)
            rate = np.zeros(len(on_route))
            rate[routes] = self._solve(routes, on_route[routes])
            known = Sharing(rate, np.unique(self._links[ragged(self._first, routes)]))
            if len(self._memo) * len(key) >= _MEMO_BYTES:
                self._memo.clear()
            self._memo[key] = known
        return known

    def _solve(self, routes: Ints, counts: Ints) -> Floats:
        entries = ragged(self._first, routes)
        link, of_link = np.unique(self._links[entries], return_inverse=True)
        lengths = self._first[routes + 1] - self._first[routes]
        of_route = np.repeat(np.arange(len(routes)), lengths)
        weight = self._weight[entries] * counts[of_route]
        left = self._capacity[link].copy()
        rate = np.full(len(routes), np.inf)
        live = np.ones(len(entries), dtype=bool)
        while live.any():
            load = np.bincount(of_link[live], weights=weight[live], minlength=len(link))
            with np.errstate(divide="ignore", invalid="ignore"):
                share = np.where(load > 0, left / load, np.inf)
            least = share.min()
            fixed = np.zeros(len(routes), dtype=bool)
            fixed[of_route[live & (share <= least * _TIE)[of_link]]] = True
            rate[fixed] = least
            done = fixed[of_route]
            left -= np.bincount(of_link[done], weights=weight[done] * least, minlength=len(link))
            left = np.maximum(left, 0.0)
            live &= ~done
        return rate
