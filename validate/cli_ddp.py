"""`topo validate ddp`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sim.cli_ddp import MODEL_HELP
from topo.cli_common import Output, TopologyArgument, finite, note, output_options
from validate.cli_options import measuring_options, rank_options

if TYPE_CHECKING:
    from topo.cluster import Cluster
    from topo.topology import Topology
    from validate.ddp import DdpRequest
    from validate.jobs import BackendName

FINDING = 1
RANKS_BY_DEFAULT = 4


@click.command("ddp", short_help="Training steps replayed: predicted beside measured.")
@click.argument("topology", required=False)
@click.option("--model", required=True, metavar="NAME|FILE", help=MODEL_HELP)
@click.option(
    "--bucket-cap-mb", "caps", default="1,5,25", show_default=True, metavar="LIST", help="Bucket caps in MB (MiB)."
)
@click.option(
    "--first-bucket-cap-mb",
    type=click.FloatRange(min=0),
    callback=finite,
    default=1.0,
    show_default=True,
    help="Cap of the first bucket.",
)
@rank_options(2, 1024)
@click.option("--forward", metavar="TIME", help="Forward idles so long (default: 100ms, or as the file says).")
@click.option("--backward", metavar="TIME", help="Backward idles so long in all (default: 400ms, or as the file says).")
@click.option(
    "--layer-times",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Seconds of each layer, a layer-times/1 file; without it totals are shared by operations.",
)
@click.option("--compress", type=click.Choice(("fp16", "bf16")), help="Send gradients as this type.")
@click.option(
    "--costs",
    "costs_from",
    type=click.Choice(("all-reduce", "point-to-point")),
    default="all-reduce",
    show_default=True,
    help="Without TOPOLOGY: what is measured alone to know what collectives cost.",
)
@measuring_options(iterations=10, warmups=2, timeout_s=300, tolerance=0.1, called="steps")
@click.option("--profile", default="auto", show_default=True, help="For TOPOLOGY: auto, ideal, or a JSON file.")
@output_options("table", "json", "csv", "md")
@click.pass_context
def ddp(context: click.Context, /, output: Output, **options: Any) -> None:
    """Run torch's DistributedDataParallel on a model whose layers idle, and print predicted beside measured.

    Forward and backward are replayed: gradients of the model's sizes appear at given times, so that what a step takes
    beyond them is its communication. Without TOPOLOGY what collectives cost is measured first, alone. Exit status 1: a
    rank died or hung, a gradient is wrong, or TOPOLOGY was given and a step is LOW.
    """
    from sim.profile import load_profile
    from validate.ddp import run_ddp
    from validate.ddp_report import report_json, report_table, sentences
    from validate.launch import require_torch
    from validate.status_line import status_line

    require_torch()
    machine = TopologyArgument(options["topology"], gpus=options["gpus"]).load() if options["topology"] else None
    if options["gpus"] is not None and machine is None:
        raise click.UsageError("--gpus picks GPUs of TOPOLOGY: give one, or use --ranks and CUDA_VISIBLE_DEVICES")
    request = _request(machine, options)
    profile = None if machine is None else load_profile(options["profile"], machine)
    with status_line() as line:
        session = run_ddp(request, machine, profile, tell=line.tell)
    if session.rows or output.format == "json":
        output.emit(report_table(session), lambda: report_json(session))
    for sentence in sentences(session):
        note(sentence)
    low = machine is not None and any(row.verdict == "LOW" for row in session.rows)
    context.exit(FINDING if session.failure is not None or session.findings or low else 0)


def _request(machine: Topology | Cluster | None, options: dict[str, Any]) -> DdpRequest:
    from sim.ddp.models import load_model
    from sim.ddp.request import replayed_times
    from sim.ddp.study import caps_of
    from validate.backends.gpus import num_gpus
    from validate.ddp import DdpRequest

    model = load_model(options["model"])
    found = 0 if options["backend"] == "gloo" else num_gpus()
    backend: BackendName = "nccl" if options["backend"] == "nccl" or found > 1 else "gloo"
    default = machine.num_ranks if machine else found if backend == "nccl" else RANKS_BY_DEFAULT
    return DdpRequest(
        backend=backend,
        num_ranks=options["ranks"] or default,
        model=model,
        times=replayed_times(model, options["layer_times"], options["forward"], options["backward"]),
        caps=caps_of(options["caps"], options["first_bucket_cap_mb"]),
        compression=options["compress"],
        costs_from=options["costs_from"],
        num_iterations=options["iterations"],
        num_warmups=options["warmups"],
        timeout_s=options["timeout"],
        tolerance=options["tolerance"],
    )
