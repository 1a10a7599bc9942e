"""The rates of a machine's links three times: as built, as NCCL counts them, and as data arrives under a profile."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.profile import nccl_constants
from topo.cli_common import Column, Table
from topo.topology import LinkKind, Topology

if TYPE_CHECKING:
    from sim.profile import Profile
    from topo.cluster import Cluster

COLUMNS = (
    Column("links", "kind"),
    Column("lanes", "lanes"),
    Column("how many", "num_links"),
    Column("nominal GB/s", "nominal_gb_per_s", ".2f"),
    Column("NCCL counts", "effective_gb_per_s", ".2f"),
    Column("calibrated", "calibrated_gb_per_s", ".2f"),
)

NEVER_LIMITS: tuple[LinkKind, ...] = ("local",)


@dataclass(frozen=True, slots=True)
class RateRow:
    """Alike links of a machine, in bytes/s and one direction; NICs' ports count as links of kind network.

    `effective` is what NCCL's planner counts, None for links as a description gives them; `calibrated` is what data
    gets under the profile.
    """

    kind: LinkKind
    lanes: int
    num_links: int
    nominal_bytes_per_s: float
    effective_bytes_per_s: float | None
    calibrated_bytes_per_s: float


def rates(machine: Topology | Cluster, profile: Profile) -> tuple[RateRow, ...]:
    """A row for each kind, width and rate of the node's active links, both directions counted, in their order."""
    node = machine if isinstance(machine, Topology) else machine.node
    links = [(link.kind, link.lanes, link.bandwidth_bytes_per_s) for link in node.links if link.state == "active"]
    ports: list[tuple[LinkKind, int, float]] = [
        ("network", 1, rate)
        for nic in node.of_kind("nic")
        if nic.nic is not None and (rate := nic.nic.bandwidth_bytes_per_s) is not None
    ]
    counted = None if node.synthetic else nccl_constants(node)
    return tuple(
        RateRow(
            kind,
            lanes,
            count,
            nominal,
            None if counted is None else nominal * counted.transport(kind).efficiency,
            nominal * profile.transport(kind).efficiency,
        )
        for (kind, lanes, nominal), count in Counter((*links, *ports)).items()
        if kind not in NEVER_LIMITS
    )


def rates_table(rows: tuple[RateRow, ...], machine: Topology | Cluster, profile: Profile) -> Table:
    """The rows in GB/s."""
    cells = tuple(
        (
            row.kind,
            row.lanes,
            row.num_links,
            row.nominal_bytes_per_s / 1e9,
            None if row.effective_bytes_per_s is None else row.effective_bytes_per_s / 1e9,
            row.calibrated_bytes_per_s / 1e9,
        )
        for row in rows
    )
    return Table(
        COLUMNS, cells, f"{machine.name}: links of a node, one direction; calibrated is profile {profile.name}"
    )
