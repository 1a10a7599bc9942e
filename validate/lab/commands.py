"""A fabric as commands of iproute2, each with the one that undoes it; nothing is run here.

Every namespace's name begins with the prefix of its run. Links are made inside these namespaces, never in the host's
own network, so that removing the namespaces removes them, their bridges and their limits.
"""

from __future__ import annotations

from dataclasses import dataclass

from validate.lab.fabric import Cable, Fabric

SWITCHES = "_switches"
"""The namespace that holds all bridges; no host can be called so."""

BRIDGE, HOST_PORT = "b-", "p-"
"""How the names of bridges and of their ports to hosts begin, so that they are no words of iproute2's own."""

PORT = "eth0"
"""What a host calls its port."""

SUBNET = "10.77.0."
PACKET_BYTES = 8 * 1024
"""The largest packet that leaves a host undivided: below the burst, so that the limiter need not divide it again."""

SLACK_S = 0.0007
"""By so much the limiter's timer may be late without a loss of rate; what it allows at once passes for nothing."""

QUEUE_BYTES = 8 * 2**20

SETTINGS = {
    "tcp_congestion_control": "reno",
    "tcp_slow_start_after_idle": "0",
    "tcp_no_metrics_save": "1",
    "tcp_limit_output_bytes": "65536",
    "tcp_rmem": "4096 131072 524288",
}
"""TCP as all hosts speak it, whatever the machine's own default.

Few bytes wait in a sender's own queue and the windows are bounded, so that acknowledgements and announcements of the
other direction do not wait behind megabytes, and senders that share a port share it equally. BBR would pace by a
model of its own.
"""


@dataclass(frozen=True, slots=True)
class Command:
    """One command, and what undoes it; nothing where that goes with something else."""

    do: tuple[str, ...]
    undo: tuple[str, ...] = ()


def namespace(prefix: str, place: str) -> str:
    """The namespace of a host, or of SWITCHES."""
    return f"{prefix}{place}"


def address(number: int) -> str:
    """The address of the host of that number."""
    return f"{SUBNET}{number + 1}"


def burst_bytes(rate_bytes_per_s: float) -> int:
    """How many bytes pass at once: a packet, and what the rate is worth while the timer is late."""
    return PACKET_BYTES + round(rate_bytes_per_s * SLACK_S)


def commands(fabric: Fabric, prefix: str) -> tuple[Command, ...]:
    """All that builds the fabric, in order: bridges, hosts with their addresses, cables with their limits."""
    inside = namespace(prefix, SWITCHES)
    found = [_namespace(inside)]
    for switch in fabric.switches:
        name = f"{BRIDGE}{switch}"
        found += [_ip(inside, "link", "add", name, "type", "bridge"), _ip(inside, "link", "set", name, "up")]
    for number, host in enumerate(fabric.hosts):
        found += _host(fabric, prefix, number, host)
    for number, cable in enumerate(fabric.cables):
        if not set(cable.ends) & set(fabric.hosts):
            found += _trunk(inside, number, cable)
    return tuple(found)


def _host(fabric: Fabric, prefix: str, number: int, host: str) -> list[Command]:
    inside, place = namespace(prefix, SWITCHES), namespace(prefix, host)
    cable = next(cable for cable in fabric.cables if host in cable.ends)
    switch = cable.far if cable.near == host else cable.near
    port = f"{HOST_PORT}{host}"
    settings = " && ".join(f"echo {value} > /proc/sys/net/ipv4/{name}" for name, value in SETTINGS.items())
    return [
        _namespace(place),
        _ip(place, "link", "set", "lo", "up"),
        _ip(inside, "link", "add", port, "type", "veth", "peer", "name", PORT, "netns", place),
        Command(("ip", "netns", "exec", place, "sh", "-c", settings)),
        _ip(place, "address", "add", f"{address(number)}/24", "dev", PORT),
        _ip(inside, "link", "set", port, "master", f"{BRIDGE}{switch}"),
        *_limited(inside, port, cable.rate_bytes_per_s),
        *_limited(place, PORT, cable.rate_bytes_per_s),
    ]


def _trunk(inside: str, number: int, cable: Cable) -> list[Command]:
    """The two ends of a cable between switches."""
    near, far = f"t{number}-near", f"t{number}-far"
    return [
        _ip(inside, "link", "add", near, "type", "veth", "peer", "name", far),
        _ip(inside, "link", "set", near, "master", f"{BRIDGE}{cable.near}"),
        _ip(inside, "link", "set", far, "master", f"{BRIDGE}{cable.far}"),
        *_limited(inside, near, cable.rate_bytes_per_s),
        *_limited(inside, far, cable.rate_bytes_per_s),
    ]


def _limited(place: str, device: str, rate_bytes_per_s: float) -> list[Command]:
    """What limits the rate at which a device sends, and brings it up."""
    bits = f"{round(rate_bytes_per_s * 8)}bit"
    limit = ("burst", f"{burst_bytes(rate_bytes_per_s)}b", "limit", f"{QUEUE_BYTES}b")
    return [
        _ip(place, "link", "set", device, "gso_max_size", str(PACKET_BYTES)),
        Command(("tc", "-netns", place, "qdisc", "add", "dev", device, "root", "tbf", "rate", bits, *limit)),
        _ip(place, "link", "set", device, "up"),
    ]


def _namespace(name: str) -> Command:
    return Command(("ip", "netns", "add", name), ("ip", "netns", "delete", name))


def _ip(place: str, *words: str) -> Command:
    return Command(("ip", "-netns", place, *words))
