"""Fabrics of every shape for properties: any tree of switches, with hosts anywhere."""

from __future__ import annotations

from hypothesis import strategies as st

from validate.lab.fabric import Cable, Fabric

RATES = (1e6, 25e6, 8_333_333.0, 125e6)


@st.composite
def fabrics(draw: st.DrawFn) -> Fabric:
    """2 to 7 hosts on 1 to 4 switches, which hang together as a tree."""
    rate = st.sampled_from(RATES)
    switches = [f"s{number}" for number in range(draw(st.integers(1, 4)))]
    hosts = [f"h{number}" for number in range(draw(st.integers(2, 7)))]
    cables = [
        Cable(switch, switches[draw(st.integers(0, number - 1))], draw(rate))
        for number, switch in enumerate(switches)
        if number
    ]
    for host in hosts:
        ends = [host, draw(st.sampled_from(switches))]
        cables.append(Cable(*(ends if draw(st.booleans()) else ends[::-1]), draw(rate)))
    return Fabric("drawn", tuple(hosts), tuple(draw(st.permutations(cables))))
