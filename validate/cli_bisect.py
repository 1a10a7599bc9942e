"""`topo validate bisect`: which link is slow, and who is merely late."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from topo.cli_common import Output, TopologyArgument, note, output_options
from validate.cli_options import is_given, measuring_options, rank_options

if TYPE_CHECKING:
    from topo.topology import Topology
    from validate.bisect import Bisection
    from validate.bisect_session import Request
    from validate.jobs import BackendName

FINDING = 1
RANKS_BY_DEFAULT = 4
LAB_ITERATIONS, ITERATIONS = 5, 25
"""Of these the fastest counts; in the lab nothing else is in the way, and a message takes long."""


@click.command("bisect", short_help="Every pair measured: the slow link, the late rank.")
@click.argument("topology", required=False, metavar="[TOPOLOGY | SPEC.toml]")
@click.option(
    "--lab", "in_lab", is_flag=True, help="Pairs of hosts that are built here, as in topo validate lab (root)."
)
@click.option("--hosts", type=click.IntRange(2, 16), default=4, show_default=True, help="Of the lab without SPEC.toml.")
@click.option("--rate", default="200mbit", show_default=True, help="Of their ports.")
@click.option("--cut", "cuts", multiple=True, metavar="LINK=RATE", help="Cut a link of the lab, as h3-sw=66mbit.")
@click.option("--late", multiple=True, metavar="RANK=TIME", help="Hold a rank up before each meeting, as 2=200ms.")
@rank_options(2, 32)
@click.option("--profile", default="auto", show_default=True, help="For TOPOLOGY: auto, ideal, or a JSON file.")
@click.option("--size", "message", default="1M", show_default=True, metavar="SIZE", help="Of each message.")
@measuring_options(
    iterations=None,
    warmups=1,
    timeout_s=300,
    tolerance=0.3,
    most_tolerance=1,
    iterations_help="Timed runs (default 5 in the lab, else 25).",
    tolerance_help="Share of the speed that a pair may lack before it is slow.",
)
@output_options("table", "json", "csv", "md")
@click.pass_context
def bisect(
    context: click.Context,
    topology: str | None,
    in_lab: bool,
    hosts: int,
    rate: str,
    cuts: tuple[str, ...],
    late: tuple[str, ...],
    backend: str,
    ranks: int | None,
    gpus: str | None,
    profile: str,
    message: str,
    iterations: int | None,
    warmups: int,
    timeout: float,
    tolerance: float,
    output: Output,
) -> None:
    """Send a message between every two ranks, one pair at a time, and name the slow link or the late rank.

    A link is to blame if every message over it is slow. How late each rank comes is measured apart from transfers: by
    how long the others wait for it. Exit status 1: a link is slow, a rank is late, or it ended early.
    """
    from topo.jsonio import encode_document
    from topo.units import parse_size
    from validate import bisect_report
    from validate.bisect_session import Request

    _check_lab_options(context, in_lab)
    timed = iterations or (LAB_ITERATIONS if in_lab else ITERATIONS)
    request = Request(parse_size(message), timed, warmups, timeout, tolerance, _delays(late))
    if in_lab:
        found = _in_lab(topology, hosts, rate, cuts, request)
    else:
        found = _here(topology, backend, ranks, gpus, profile, request)
    output.emit(
        bisect_report.table(found, output.format),
        lambda: encode_document(bisect_report.SCHEMA, bisect_report.document(found)),
    )
    for sentence in bisect_report.notes(found):
        note(sentence)
    context.exit(0 if found.is_healthy else FINDING)


def _in_lab(spec: str | None, hosts: int, rate: str, cuts: tuple[str, ...], request: Request) -> Bisection:
    from topo.units import parse_rate
    from validate.bisect_session import bisect_lab
    from validate.lab.fabric import uniform
    from validate.lab.spec import read_fabric
    from validate.status_line import status_line

    fabric = uniform(hosts, parse_rate(rate)) if spec is None else read_fabric(Path(spec))
    rates = {name: parse_rate(text) for name, text in (_pair("--cut", cut, "h3-sw=66mbit") for cut in cuts)}
    with status_line() as line:
        return bisect_lab(fabric, rates, request, tell=line.tell)


def _here(
    topology: str | None, backend: str, ranks: int | None, gpus: str | None, profile: str, request: Request
) -> Bisection:
    from sim.profile import load_profile
    from validate.bisect_session import bisect_machine
    from validate.status_line import status_line

    chosen, machine = _place(topology, gpus, backend, ranks)
    num_ranks = machine.num_ranks if machine is not None else ranks or RANKS_BY_DEFAULT
    used = None if machine is None else load_profile(profile, machine)
    with status_line() as line:
        return bisect_machine(machine, used, num_ranks, chosen, request, tell=line.tell)


def _place(
    topology: str | None, gpus: str | None, backend: str, ranks: int | None
) -> tuple[BackendName, Topology | None]:
    """The backend, and the machine whose links are to be told apart, if one is given."""
    from topo.topology import Topology
    from validate.backends.gpus import num_gpus
    from validate.launch import require_torch

    require_torch()
    if topology is None and gpus is not None:
        raise click.UsageError("--gpus picks GPUs of TOPOLOGY: give one, or use --ranks")
    chosen: BackendName = "gloo" if backend == "gloo" or (backend == "auto" and num_gpus() < 2) else "nccl"
    if topology is None:
        return chosen, None
    machine = TopologyArgument(topology, gpus=gpus).load()
    if not isinstance(machine, Topology):
        raise click.UsageError(f"{topology} is a cluster: pairs are measured within one node")
    if ranks is not None and ranks > machine.num_ranks:
        raise click.UsageError(f"--ranks {ranks}: {machine.name} has {machine.num_ranks}")
    return chosen, machine if ranks is None else machine.take_ranks(range(ranks))


def _check_lab_options(context: click.Context, in_lab: bool) -> None:
    """UsageError for an option that goes with the other kind of run, or, where a file says it, with none."""
    of_lab, of_machine = ("hosts", "rate", "cuts"), ("backend", "ranks", "gpus", "profile")
    for name in of_machine if in_lab else of_lab:
        if is_given(context, name):
            option = "--" + name.removesuffix("s") if name == "cuts" else f"--{name}"
            raise click.UsageError(
                f"{option} is {'not ' if in_lab else ''}for the lab: {'leave it out' if in_lab else 'add --lab'}"
            )
    if in_lab and context.params["topology"] is not None:
        for name in ("hosts", "rate"):
            if is_given(context, name):
                raise click.UsageError(f"--{name} is for a lab without SPEC.toml, which says by itself what to build")


def _pair(option: str, text: str, example: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise click.UsageError(f"{option} {text}: expected NAME=VALUE, such as {example}")
    return name, value


def _delays(late: tuple[str, ...]) -> dict[int, float]:
    """Seconds by rank."""
    from topo.units import parse_duration

    found = {}
    for text in late:
        rank, duration = _pair("--late", text, "2=200ms")
        if not rank.isdecimal():
            raise click.UsageError(f"--late {text}: {rank!r} is no rank, expected a number from 0")
        found[int(rank)] = parse_duration(duration)
    return found
