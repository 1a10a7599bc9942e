"""`topo ddp`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sim.cli_drawings import plot_option, write_plot
from sim.cli_options import planner_options, profile_option
from topo.cli_common import Output, Share, TopologyArgument, finite, note, output_options, topology_argument

if TYPE_CHECKING:
    from sim.ddp.study import Request
    from sim.predict import Simulator
    from topo.cluster import Cluster
    from topo.topology import Topology

Command = TypeVar("Command", bound=Callable[..., Any])

MODEL_HELP = (
    "resnet18, resnet50, bert-large, gpt2, gpt2-xl, llama-7b and more; a family with its numbers, such as "
    "llama:layers=32,hidden=4096,ffn=11008,heads=32; or a ddp-model/1 file."
)


def model_options(command: Command) -> Command:
    """Gives a command the options that say which model is trained, how, and how long its layers take."""
    for option in reversed(
        (
            click.option("--model", required=True, metavar="NAME|FILE", help=MODEL_HELP),
            click.option("--batch", type=click.IntRange(1, 10**7), help="Samples of one rank (default: the model's)."),
            click.option("--dtype", help="Type of parameters and gradients (default: the model's, float32)."),
            click.option(
                "--first-bucket-cap-mb",
                type=click.FloatRange(min=0),
                callback=finite,
                default=1.0,
                show_default=True,
                help="Cap of the first bucket; newer torch takes --bucket-cap-mb for it too where that is set.",
            ),
            click.option(
                "--find-unused-parameters",
                is_flag=True,
                help="As with torch's flag: buckets keep the declared order, the small one comes last.",
            ),
            click.option("--gradient-as-bucket-view", is_flag=True, help="As torch's flag: no copy out of buckets."),
            click.option(
                "--compress", type=click.Choice(("fp16", "bf16")), help="Send gradients as this type (torch's hooks)."
            ),
            click.option(
                "--layer-times",
                type=click.Path(path_type=Path),
                metavar="FILE",
                help="Measured seconds of each layer, a layer-times/1 file, instead of modelled ones.",
            ),
            click.option("--forward", metavar="TIME", help="Forward takes so long in all, such as 40ms."),
            click.option("--backward", metavar="TIME", help="Backward takes so long in all, such as 80ms."),
        )
    ):
        command = option(command)
    return command


@click.command(short_help="Gradient buckets against backward: step time, exposed time.")
@topology_argument
@model_options
@click.option(
    "--bucket-cap-mb",
    "caps",
    default="25",
    show_default=True,
    metavar="LIST",
    help="Bucket caps in torch's MB (MiB), such as 10,25,100, or sweep.",
)
@click.option(
    "--schedule", "ways", default="ddp", show_default=True, metavar="LIST", help="ddp, zero-1, zero-2, fsdp, or all."
)
@click.option(
    "--algorithm",
    default="auto",
    show_default=True,
    metavar="LIST",
    help="What reduces: auto, all, or names such as ring,parameter-server.",
)
@click.option("--accumulate", type=int, default=1, show_default=True, help="Passes over a batch in one step.")
@click.option("--gpu-flops", metavar="RATE", help="A GPU's dense peak, such as 312T (default: the machine's GPU).")
@click.option(
    "--precision", default="bf16", show_default=True, metavar="NAME", help="Of the peak: fp32, tf32, fp16 or bf16."
)
@click.option(
    "--mfu",
    type=Share(0, 1, min_open=True),
    callback=finite,
    help="Share of the peak that is reached (default: 0.4; 0.2 for ResNets).",
)
@click.option("--without-nvlink", is_flag=True, help="Also without NVLink, with break-even points.")
@planner_options
@click.option("--server", metavar="LIST", help="Servers of parameter-server: host, or GPUs such as 0,1 (default 0).")
@click.option("--engine", default="auto", show_default=True, help="event, steady, kernels or auto.")
@profile_option
@plot_option("step and exposed time over the bucket caps")
@output_options("table", "json", "csv", "md")
def ddp(topology: TopologyArgument, output: Output, plot: Path | None, **options: Any) -> None:
    """Predict a data-parallel training step on TOPOLOGY: gradient buckets sent while backward still runs.

    Buckets are those of torch's DistributedDataParallel. Times are simulated, never measured: collectives on the
    machine, forward and backward from operations and the GPU's rate, or as given. Compute is not slowed down by
    communication beside it.
    """
    from sim.ddp.report import bucket_table, report_json, report_table, sentences
    from sim.ddp.study import study
    from sim.report import notes_before, notes_on

    machine = topology.load()
    simulators = _simulators(machine, options)
    request = _request(simulators[0], options)
    found = study(request, simulators, with_even=options["without_nvlink"])
    for simulator in found.simulators:
        for sentence in notes_before(simulator, request.algorithms, "all_reduce"):
            note(sentence)
    for costs in found.costs:
        for sentence in notes_on(costs.simulator, costs.predictions):
            note(sentence)
    for sentence in sentences(found):
        note(sentence)
    if plot is not None:
        from sim.ddp.chart import cap_charts

        write_plot(plot, cap_charts(found), f"{request.model.name} on {machine.name}, simulated")
    if output.format == "table" and len(found.rows) == 1 and found.rows[0].found.buckets:
        to_terminal = output.path is None
        tables = (report_table(found), bucket_table(found.rows[0].found))
        output.write("\n".join(table.text(terminal=to_terminal) for table in tables))
    else:
        output.emit(report_table(found), lambda: report_json(found))


def _simulators(machine: Topology | Cluster, options: dict[str, Any]) -> list[Simulator]:
    from sim.ddp.break_even import without_nvlinks
    from sim.planners.options import Options
    from sim.predict import Simulator
    from sim.profile import load_profile

    fixed = Options(None, None, options["server"], options["protocol"], options["environment"])
    machines = (machine, without_nvlinks(machine)) if options["without_nvlink"] else (machine,)
    return [
        Simulator(one, load_profile(options["profile"], one), fixed, options["engine"], options["planner"])
        for one in machines
    ]


def _request(simulator: Simulator, options: dict[str, Any]) -> Request:
    from sim.ddp.request import Options, request_of

    return request_of(simulator, Options(**{name: options[name] for name in Options.__slots__}))
