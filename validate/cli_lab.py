"""`topo validate lab`: the model held against rate-limited hosts that are built on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from sim.cli_options import size_options
from topo.cli_common import Output, note, output_options
from validate.cli_options import is_given, measuring_options

FINDING = 1
DEFAULT_ALGORITHMS = ("ring", "tree", "parameter-server", "builtin")


@click.command("lab", short_help="Rate-limited hosts built here: predicted beside measured.")
@click.argument("spec", required=False, type=click.Path(path_type=Path), metavar="[SPEC.toml]")
@click.option(
    "--hosts", type=click.IntRange(2, 16), default=4, show_default=True, help="How many hosts, without SPEC.toml."
)
@click.option("--rate", default="200mbit", show_default=True, help="Of every port, without SPEC.toml.")
@click.option(
    "--algorithm",
    "algorithms",
    multiple=True,
    metavar="LIST",
    help=f"What runs (default {','.join(DEFAULT_ALGORITHMS)}).",
)
@click.option(
    "--chunks", type=click.IntRange(1, 4096), default=1, show_default=True, help="Pipeline chunks per tree or server."
)
@measuring_options(iterations=3, warmups=1, timeout_s=600, tolerance=0.1)
@size_options("1M", "16M", 4)
@output_options("table", "json", "csv", "md")
@click.pass_context
def lab(
    context: click.Context,
    spec: Path | None,
    hosts: int,
    rate: str,
    algorithms: tuple[str, ...],
    chunks: int,
    iterations: int,
    warmups: int,
    timeout: float,
    tolerance: float,
    sizes: tuple[int, ...],
    output: Output,
) -> None:
    """Build hosts with rate-limited links on this machine, and compare what is predicted with what they measure.

    Needs Linux, root and iproute2. Hosts are network namespaces behind bridges; the machine's own network is left
    alone, and everything is removed at the end, also after Ctrl-C. Without SPEC.toml three fabrics are built: uniform,
    one slow link, and two racks behind an oversubscribed uplink. Each is discovered, calibrated on messages between
    two hosts, and only then asked for collectives. Exit status 1: a row is off, an order is wrong, or it ended early.
    """
    from topo.jsonio import encode_document
    from topo.units import parse_rate
    from validate.lab import report
    from validate.lab.fabric import default_fabrics
    from validate.lab.session import run_lab
    from validate.lab.spec import read_fabric
    from validate.lab.trial import Request
    from validate.status_line import status_line

    given = [name for name in ("hosts", "rate") if is_given(context, name)]
    if spec is not None and given:
        raise click.UsageError(f"--{given[0]} is for the default fabrics, {spec} says by itself what to build")
    request = Request(sizes, _names(algorithms), iterations, warmups, chunks, timeout, tolerance)
    fabrics = (read_fabric(spec),) if spec is not None else default_fabrics(hosts, parse_rate(rate))
    with status_line() as line:
        found = run_lab(fabrics, request, tell=line.tell)
    output.emit(report.table(found, output.format), lambda: encode_document(report.SCHEMA, report.document(found)))
    for sentence in report.notes(found):
        note(sentence)
    context.exit(FINDING if report.has_finding(found) else 0)


def _names(given: tuple[str, ...]) -> tuple[str, ...]:
    """The algorithms of a list with commas, of repeated options, or of both; each once."""
    return tuple(dict.fromkeys(name.strip() for text in given for name in text.split(","))) or DEFAULT_ALGORITHMS
