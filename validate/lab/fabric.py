"""What a lab is to look like: hosts, switches and the rate-limited links between them, as a checked value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from topo.errors import TopologyError
from validate.words import listed

if TYPE_CHECKING:
    from topo.topology import Topology

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,11}")
"""What hosts and switches may be called: names of network interfaces are made from it, which have 15 letters."""

MOST_HOSTS = 16
SLOW_SHARE = 3
"""The one slow link of a default fabric gets the rate over this."""

OVERSUBSCRIPTION = 3
"""What the hosts of a rack could send together, over what its uplink carries."""


@dataclass(frozen=True, slots=True)
class Cable:
    """Joins two places, in both directions at the same rate."""

    near: str
    far: str
    rate_bytes_per_s: float

    @property
    def ends(self) -> tuple[str, str]:
        """Both places."""
        return self.near, self.far

    @property
    def name(self) -> str:
        """`near-far`, as messages and --cut call it."""
        return f"{self.near}-{self.far}"


@dataclass(frozen=True, slots=True)
class Fabric:
    """Hosts, each with one port, and cables; what a cable joins and is no host is a switch.

    TopologyError where that is no tree that joins all hosts, since bridges would forward in circles on any other.
    """

    name: str
    hosts: tuple[str, ...]
    cables: tuple[Cable, ...]

    def __post_init__(self) -> None:
        _check_hosts(self)
        for cable in self.cables:
            _check_cable(self, cable)
        _check_ports(self)
        _check_tree(self)

    @property
    def switches(self) -> tuple[str, ...]:
        """What cables join and is no host, in order of appearance."""
        ends = dict.fromkeys(end for cable in self.cables for end in cable.ends)
        return tuple(end for end in ends if end not in self.hosts)


def _check_hosts(fabric: Fabric) -> None:
    hosts = fabric.hosts
    if not 2 <= len(hosts) <= MOST_HOSTS:
        raise TopologyError(f"a lab has 2 to {MOST_HOSTS} hosts, {len(hosts)} were given: list them under hosts")
    twice = [host for host in hosts if hosts.count(host) > 1]
    if twice:
        raise TopologyError(f"two hosts are called {twice[0]!r}: names must be unique, rename one")


def _check_cable(fabric: Fabric, cable: Cable) -> None:
    for end in cable.ends:
        if not NAME.fullmatch(end):
            raise TopologyError(f"{end!r} is no name for a host or switch: up to 12 letters, digits, - and _")
    if cable.near == cable.far:
        raise TopologyError(f"a link joins {cable.near!r} to itself: name two places")
    if all(end in fabric.hosts for end in cable.ends):
        raise TopologyError(f"link {cable.name} joins two hosts: join each of them to a switch")
    if not 0 < cable.rate_bytes_per_s < float("inf"):
        raise TopologyError(f"link {cable.name} has a rate of {cable.rate_bytes_per_s:g} B/s: it must be more than 0")


def _check_ports(fabric: Fabric) -> None:
    ports = [end for cable in fabric.cables for end in cable.ends]
    for host in fabric.hosts:
        if not NAME.fullmatch(host):
            raise TopologyError(f"{host!r} is no name for a host: up to 12 letters, digits, - and _")
        if host not in ports:
            raise TopologyError(f"nothing joins host {host!r}: add a link between it and a switch")
        if ports.count(host) > 1:
            raise TopologyError(f"host {host!r} has {ports.count(host)} links: a host has one port, join switches")


def _check_tree(fabric: Fabric) -> None:
    """All places hang together, and no link closes a circle."""
    group = {place: {place} for place in (*fabric.hosts, *fabric.switches)}
    for cable in fabric.cables:
        near, far = group[cable.near], group[cable.far]
        if near is far:
            raise TopologyError(f"link {cable.name} closes a circle, in which bridges forward for ever: remove a link")
        near |= far
        for place in far:
            group[place] = near
    apart = [host for host in fabric.hosts if group[host] is not group[fabric.hosts[0]]]
    if apart:
        raise TopologyError(f"no path from host {fabric.hosts[0]} to {listed(apart)}: join their switches with a link")


def topology_of(fabric: Fabric) -> Topology:
    """The fabric as stated, without anything being built: hosts are ranks, every direction of a cable is a link."""
    from topo.topology import Device, Link, Topology

    hosts = [Device(host, "process", host=host) for host in fabric.hosts]
    switches = [Device(switch, "net_switch") for switch in fabric.switches]
    ways = [(cable, ends) for cable in fabric.cables for ends in (cable.ends, cable.ends[::-1])]
    links = tuple(Link(*ends, "network", cable.rate_bytes_per_s) for cable, ends in ways)
    return Topology((*hosts, *switches), links, fabric.hosts, name=fabric.name)


def host_names(count: int) -> tuple[str, ...]:
    """h0, h1, ..."""
    return tuple(f"h{number}" for number in range(count))


def uniform(num_hosts: int, rate_bytes_per_s: float) -> Fabric:
    """All hosts on one switch, every port at the same rate."""
    hosts = host_names(num_hosts)
    return Fabric("uniform", hosts, tuple(Cable(host, "sw", rate_bytes_per_s) for host in hosts))


def slow_link(num_hosts: int, rate_bytes_per_s: float) -> Fabric:
    """The same with the last host's port at a third of the rate."""
    hosts = host_names(num_hosts)
    rates = [rate_bytes_per_s] * (num_hosts - 1) + [rate_bytes_per_s / SLOW_SHARE]
    return Fabric("slow-link", hosts, tuple(Cable(host, "sw", rate) for host, rate in zip(hosts, rates, strict=True)))


def two_racks(num_hosts: int, rate_bytes_per_s: float) -> Fabric:
    """Hosts in two racks; the uplink between them carries a third of what one rack's hosts could send together."""
    hosts = host_names(num_hosts)
    in_first = (num_hosts + 1) // 2
    racks = ["rack0"] * in_first + ["rack1"] * (num_hosts - in_first)
    cables = [Cable(host, rack, rate_bytes_per_s) for host, rack in zip(hosts, racks, strict=True)]
    uplink = max(num_hosts // 2, 1) * rate_bytes_per_s / OVERSUBSCRIPTION
    return Fabric("two-racks", hosts, (*cables, Cable("rack0", "rack1", uplink)))


def default_fabrics(num_hosts: int, rate_bytes_per_s: float) -> tuple[Fabric, ...]:
    """The three fabrics of a run without a file."""
    return tuple(make(num_hosts, rate_bytes_per_s) for make in (uniform, slow_link, two_racks))
