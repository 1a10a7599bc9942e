"""Max-min fair sharing: the rate of each route when several transfers use the same links at once.

Progressive filling (Bertsekas and Gallager, Data Networks, section 6.5.2): the link with the smallest fair share
fixes the transfers that cross it, its bandwidth is taken out, and so on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.engines.indexing import ragged
from sim.engines.routes import Routes

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]

_MEMO_BYTES = 64 * 2**20
_TIE = 1 + 1e-12


@dataclass(frozen=True, eq=False)
class Sharing:
    """Bytes per second of one transfer on each route, 0 where none is active, and the links that are in use.

    Behind the routes stands a 0 for what is on none.
    """

    rate_bytes_per_s: Floats
    links: Ints


class RateSolver:
    """Rates over fixed routes and link capacities; solutions are kept by how many transfers are on each route."""

    def __init__(self, routes: Routes, capacity: Floats) -> None:
        """`capacity` is bytes per second by link."""
        self._first, self._capacity = routes.first, capacity
        self._links = routes.links.astype(np.int64)
        self._route = np.repeat(np.arange(len(routes.latency_s)), np.diff(routes.first))
        self._weight = np.ones(len(routes.links)) if routes.weight is None else routes.weight
        self._memo: dict[bytes, Sharing] = {}
        self.num_solves = 0

    def share(self, on_route: Ints) -> Sharing:
        """How the links are shared by `on_route[r]` transfers on each route r."""
        key = on_route.tobytes()
        known = self._memo.get(key)
        if known is None:
            self.num_solves += 1
            known = self._solve(on_route)
            if len(self._memo) * len(key) >= _MEMO_BYTES:
                self._memo.clear()
            self._memo[key] = known
        return known

    def _solve(self, on_route: Ints) -> Sharing:
        routes = np.flatnonzero(on_route)
        entries = ragged(self._first, routes)
        if len(self._capacity) <= 4 * len(entries):
            used, link = np.arange(len(self._capacity)), self._links[entries]
        else:
            used, link = np.unique(self._links[entries], return_inverse=True)
        route = self._route[entries]
        weight = self._weight[entries] * on_route[route]
        left = self._capacity[used].astype(np.float64)
        rate = np.zeros(len(on_route) + 1)
        crossed: Floats | None = None
        while len(link):
            load: Floats = np.bincount(link, weights=weight, minlength=len(left)).astype(np.float64)
            crossed = load if crossed is None else crossed
            share = np.full(len(left), np.inf)
            np.divide(left, load, out=share, where=load > 0)
            least = share.min()
            full = share <= least * _TIE
            rate[route[full[link]]] = least
            going = rate[route] == 0
            done = ~going
            left -= np.bincount(link[done], weights=weight[done], minlength=len(left)) * least
            np.maximum(left, 0.0, out=left)
            if least == 0:
                break
            link, route, weight = link[going], route[going], weight[going]
        in_use = used[:0] if crossed is None else used[crossed > 0]
        return Sharing(rate, in_use.astype(np.int32))
