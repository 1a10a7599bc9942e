"""What a lab really looks like, read back from what iproute2 says of it: links, who their peers are, and their limits.

`look` runs commands and parses nothing, `read` parses and runs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from topo.errors import CaptureError
from topo.topology import Device, Link, Provenance, Topology
from validate.lab.commands import BRIDGE, PORT, SWITCHES, namespace
from validate.lab.namespaces import Runner, run


@dataclass(frozen=True, slots=True)
class Seen:
    """What `ip -json -details link show` and `tc -json qdisc show` printed in one namespace, verbatim."""

    links: str
    limits: str


def look(hosts: tuple[str, ...], prefix: str, runner: Runner = run) -> dict[str, Seen]:
    """What each host, and SWITCHES, shows of itself."""
    seen = {}
    for place in (SWITCHES, *hosts):
        inside = namespace(prefix, place)
        seen[place] = Seen(
            links=runner(("ip", "-netns", inside, "-json", "-details", "link", "show")),
            limits=runner(("tc", "-netns", inside, "-json", "qdisc", "show")),
        )
    return seen


def read(name: str, seen: Mapping[str, Seen]) -> Topology:
    """The topology that was seen: hosts are ranks in their order, bridges are switches.

    A link's bandwidth is the limit under which its near end sends: what passes it with all headers, not its payload.
    CaptureError where a device has no limit or no peer.
    """
    hosts = tuple(place for place in seen if place != SWITCHES)
    ports = {place: _devices(seen[place], place) for place in seen}
    inside = ports[SWITCHES]
    by_index = {port["ifindex"]: port for port in inside.values()}
    links = []
    for host in hosts:
        port = ports[host].get(PORT)
        far = by_index.get(port.get("link_index")) if port else None
        if port is None or far is None or "master" not in far:
            raise CaptureError(f"{host} has no port {PORT} that leads to a bridge", source="ip link")
        switch = _switch(far)
        links += [_link(host, switch, port, host), _link(switch, host, far, SWITCHES)]
    for port in inside.values():
        if "link" in port and "master" in port:
            links.append(_link(_switch(port), _switch(inside[port["link"]]), port, SWITCHES))
    switches = [device.removeprefix(BRIDGE) for device, port in inside.items() if _kind(port) == "bridge"]
    return Topology(
        (*(Device(host, "process", host=host) for host in hosts), *(Device(row, "net_switch") for row in switches)),
        tuple(links),
        hosts,
        name=name,
        provenance=(Provenance("iproute2: ip link and tc qdisc", name),),
    )


def _devices(seen: Seen, place: str) -> dict[str, dict[str, Any]]:
    """The devices of a namespace by name, each with the `rate` of its token bucket where it has one."""
    found = {row["ifname"]: dict(row) for row in _rows(seen.links, f"ip link of {place}")}
    for row in _rows(seen.limits, f"tc qdisc of {place}"):
        if row.get("kind") == "tbf" and row.get("dev") in found:
            found[row["dev"]]["rate"] = row.get("options", {}).get("rate")
    return found


def _rows(text: str, source: str) -> list[dict[str, Any]]:
    try:
        rows = json.loads(text)
    except ValueError as error:
        raise CaptureError(f"this is no JSON ({error}): iproute2 may be too old for -json", source=source) from None
    if not isinstance(rows, list):
        raise CaptureError("expected a JSON list of devices", source=source)
    return [row for row in rows if isinstance(row, dict)]


def _switch(port: Mapping[str, Any]) -> str:
    """The switch that a port belongs to."""
    return str(port["master"]).removeprefix(BRIDGE)


def _kind(port: Mapping[str, Any]) -> object:
    return port.get("linkinfo", {}).get("info_kind")


def _link(src: str, dst: str, port: Mapping[str, Any], place: str) -> Link:
    rate = port.get("rate")
    if not isinstance(rate, int | float) or rate <= 0:
        raise CaptureError(f"{port['ifname']} of {place} has no token bucket with a rate", source="tc qdisc")
    return Link(src, dst, "network", float(rate))
