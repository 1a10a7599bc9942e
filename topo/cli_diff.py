"""`topo diff`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from topo.cli_common import Column, Output, Table, note, output_options

if TYPE_CHECKING:
    from topo.diff import Diff
    from topo.topology import Topology

EXIT_DIFFERENT = 1


@click.command()
@click.argument("before")
@click.argument("after")
@output_options("table", "json", "csv", "md")
def diff(before: str, after: str, output: Output) -> int:
    """Compare two topologies: what was lost, added, slower or faster.

    BEFORE and AFTER are any TOPOLOGY; of two kinds of source, what both show is compared. Devices are matched by bus
    id, name or number. Exit status: 0 where nothing differs, 1 where something does.
    """
    from topo.diff import diff as compare

    if before == after == "-":
        raise click.UsageError("BEFORE and AFTER are both standard input: give one of them as a file")
    machines = [_load(argument) for argument in (before, after)]
    found = compare(*machines)
    if not (found.num_devices or found.changes):
        raise click.UsageError(f"{before} and {after} show nothing in common: there is nothing to compare")
    note(_compared(found))
    if found.num_bridged_pairs:
        note(
            f"{found.num_bridged_pairs} pairs are NODE on one side and PHB on the other: no difference, since one side "
            "shows no host bridges, by which the two differ"
        )
    output.emit(_table(found), lambda: _document(found, machines))
    return 0 if found.is_equal else EXIT_DIFFERENT


def _load(argument: str) -> Topology:
    from topo.load import load_topology
    from topo.topology import Topology

    machine = load_topology(argument)
    assert isinstance(machine, Topology), "one node is a topology"
    return machine


def _compared(found: Diff) -> str:
    """How much was compared, and how much of it differs."""
    devices = ", ".join(kind.replace("_", " ") for kind in found.device_kinds)
    count = f"{len(found.changes)} differences" if len(found.changes) != 1 else "1 difference"
    compared = f"{found.num_devices} devices ({devices}), {found.num_links} links and {found.num_pairs} pairs' letters"
    return f"{'no difference' if found.is_equal else count}; compared: {compared}"


def _table(found: Diff) -> Table:
    from topo.diff_summary import summary

    titles = ("change", "part", "name", "before", "after")
    rows = tuple((row.change, row.part, row.name, row.before, row.after) for row in found.changes)
    return Table(tuple(Column(title, title) for title in titles), rows, summary(found.changes))


def _document(found: Diff, machines: list[Topology]) -> str:
    from topo import jsonio
    from topo.diff_summary import summary

    return jsonio.encode_document(
        "diff/1",
        {
            "before": machines[0].name,
            "after": machines[1].name,
            "equal": found.is_equal,
            "num_devices": found.num_devices,
            "num_links": found.num_links,
            "num_pairs": found.num_pairs,
            "num_bridged_pairs": found.num_bridged_pairs,
            "summary": summary(found.changes),
            "rows": found.changes,
        },
    )
