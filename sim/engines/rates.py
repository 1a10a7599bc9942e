"""Max-min fair sharing: the rate of each route when several transfers use the same links at once.

Progressive filling (Bertsekas and Gallager, Data Networks, section 6.5.2), many links at a time: a link that offers
each of its transfers no more than any other link of theirs does fixes them at its fair share, since what others offer
can only grow as transfers are fixed. What they take is taken out, and so on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.engines.routes import Routes

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]

_MEMO_BYTES = 64 * 2**20
_TIE = 1 + 1e-12


@dataclass(eq=False, slots=True)
class Sharing:
    """Bytes per second of one transfer on each route, 0 where none is active, and the links that are in use.

    Behind the routes stands a 0 for what is on none. `held_s` is for how long links were shared so.
    """

    rate_bytes_per_s: Floats
    links: Ints
    held_s: float = 0.0


class RateSolver:
    """Rates over fixed routes and link capacities; solutions are kept by how many transfers are on each route."""

    def __init__(self, routes: Routes, capacity: Floats) -> None:
        """`capacity` is bytes per second by link."""
        self._capacity = np.append(capacity, np.inf)
        self._links, self._weight = _by_place(routes, len(capacity))
        self._memo: dict[bytes, Sharing] = {}
        self._forgotten_busy_s = np.zeros(len(capacity))
        self.num_solves = 0

    def share(self, on_route: Ints) -> Sharing:
        """How the links are shared by `on_route[r]` transfers on each route r."""
        key = on_route.tobytes()
        known = self._memo.get(key)
        if known is None:
            self.num_solves += 1
            known = self._solve(on_route)
            if len(self._memo) * len(key) >= _MEMO_BYTES:
                self._forgotten_busy_s = self.link_busy_s
                self._memo.clear()
            self._memo[key] = known
        return known

    @property
    def link_busy_s(self) -> Floats:
        """For how long each link was in use, by how long each solution was held."""
        busy_s = self._forgotten_busy_s.copy()
        for sharing in self._memo.values():
            busy_s[sharing.links] += sharing.held_s
        return busy_s

    def _solve(self, on_route: Ints) -> Sharing:
        route = on_route.nonzero()[0]
        links, weight = self._links.take(route, axis=1), self._weight.take(route, axis=1) * on_route[route]
        if len(self._capacity) <= 4 * links.size:
            used = np.arange(len(self._capacity))
        else:
            used, position = np.unique(links, return_inverse=True)
            links = position.reshape(links.shape)
        left = self._capacity[used]
        rate = np.zeros(len(on_route) + 1)
        in_use = used[:0]
        while len(route):
            load = np.bincount(links.ravel(), weights=weight.ravel(), minlength=len(left))
            fixed = load > 0
            if not len(in_use):
                in_use = used[fixed]
            share = np.full(len(left), np.inf)
            np.divide(left, load, out=share, where=fixed)
            offered = share[links]
            least = offered.min(axis=0)
            fixed[links[offered > least * _TIE]] = False
            settled: npt.NDArray[np.bool_] = np.logical_or.reduce(fixed[links], axis=0)
            done, going = settled.nonzero()[0], (~settled).nonzero()[0]
            rate[route[done]] = least[done]
            gone = links.take(done, axis=1).ravel(), (weight.take(done, axis=1) * least[done]).ravel()
            left -= np.bincount(gone[0], weights=gone[1], minlength=len(left))
            np.maximum(left, 0.0, out=left)
            links, weight, route = links.take(going, axis=1), weight.take(going, axis=1), route[going]
        return Sharing(rate, in_use.astype(np.int32))


def _by_place(routes: Routes, no_link: int) -> tuple[npt.NDArray[np.int64], Floats]:
    """Links and weights by place on a route and by route; shorter routes end with `no_link`, which weighs nothing."""
    lengths = np.diff(routes.first)
    shape = int(lengths.max(initial=1)), len(lengths)
    links, weight = np.full(shape, no_link, dtype=np.int64), np.zeros(shape)
    route = np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(len(routes.links)) - routes.first[route]
    links[place, route] = routes.links
    weight[place, route] = 1.0 if routes.weight is None else routes.weight
    return links, weight
