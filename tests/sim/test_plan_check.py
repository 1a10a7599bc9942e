"""Plans beside logs: what agrees is counted, what differs is listed with a cause, on made and on real logs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sim.plan_check import check
from sim.plan_log import machine_as_logged
from sim.planners.nccl_2_30 import NcclPlan
from sim.planners.nccl_2_30.front_door import plan_machine
from tests.support import NO_CORPUS, corpus_dir
from topo.cli import main
from topo.cluster import Cluster
from topo.load import load_topology
from topo.readers import nccl_log
from topo.topology import Topology


def plan_of(name: str, count: int = 1) -> NcclPlan:
    return plan_machine(load_topology(name, nodes=count), {})


def log_of(plan: NcclPlan, *, per_node: int, version: str = "2.30.7+cuda13.0", devices: tuple[int, ...] = ()) -> str:
    """What NCCL would print of a plan: version, ranks, rings, trees, channels and a few choices."""
    wiring = plan.wiring
    total = wiring.num_ranks

    def said(rank: int, words: str) -> str:
        node, local = divmod(rank, per_node)
        device = devices[local] if devices else local
        return f"node{node}:{10 + local}:{110 + local} [{device}] NCCL INFO {words}\n"

    lines = [said(0, f"NCCL version {version}")]
    for rank in range(total):
        local = devices[rank % per_node] if devices else rank % per_node
        comm = f"comm 0x{rank + 1:x} rank {rank} nranks {total} cudaDev {local} nvmlDev {local} busId {rank + 1}000"
        lines.append(said(rank, f"{comm} commId 0x77 - Init START"))
    for channel, ring in enumerate(wiring.rings):
        lines.append(said(0, f"Channel {channel:02d}/{len(wiring.rings)} : {' '.join(map(str, ring))}"))
    for rank in range(total):
        places = []
        for channel, tree in enumerate(wiring.trees):
            down = [*tree.down[rank], *[-1] * (3 - len(tree.down[rank]))]
            places.append(f"[{channel}] {'/'.join(map(str, down))}->{rank}->{tree.up[rank]}")
        lines.append(said(rank, f"Trees {' '.join(places)}"))
    for size in (1 << 10, 1 << 20, 1 << 30):
        choice = plan.choose("all_reduce", size)
        names = f"Algo {choice.algorithm.replace('-', '_').upper()} proto {choice.protocol.upper()}"
        lines.append(
            said(0, f"AllReduce: {size} Bytes -> {names} channel{{Lo..Hi}}={{0..{choice.split.num_channels - 1}}}")
        )
    return "".join(lines)


@pytest.mark.parametrize(
    ("name", "count", "per_node"), [("dgx-h100", 1, 8), ("dgx-h100", 2, 8), ("alps-gh200x4", 3, 4)]
)
def test_a_log_of_the_plan_agrees_in_everything(name: str, count: int, per_node: int) -> None:
    plan = plan_of(name, count)
    found = check(plan, nccl_log.read(log_of(plan, per_node=per_node), "made.log"))
    assert found.differences == ()
    channels = plan.wiring.num_channels
    assert found.agreed == (
        f"{channels} channels",
        f"rings of channels 0-{channels - 1}",
        f"trees of channels 0-{channels - 1} as far as ranks show them",
        "3 choices of algorithm and protocol",
    )
    assert found.not_shown == ()


CHANGES: dict[str, tuple[Callable[[str], str], str, str]] = {
    "a ring": (
        lambda text: text.replace("Channel 03/24 : 0 1 2 3", "Channel 03/24 : 0 2 1 3"),
        "ring of channel 3",
        "no cause seen",
    ),
    "a tree": (
        lambda text: text.replace("[5] 4/-1/-1->3->2", "[5] 4/-1/-1->3->1"),
        "tree of channel 5",
        "no cause seen",
    ),
    "a choice": (
        lambda text: text.replace("1048576 Bytes -> Algo RING proto LL ", "1048576 Bytes -> Algo TREE proto LL128 "),
        "all_reduce of 1 MiB",
        "no cause seen",
    ),
    "the version": (
        lambda text: text.replace("2.30.7", "2.18.3").replace("Channel 03/24 : 0 1 2", "Channel 03/24 : 0 2 1"),
        "ring of channel 3",
        "the log is of NCCL 2.18.3+cuda13.0, which searches and tunes otherwise",
    ),
    "a plugin": (
        lambda text: (
            text.replace("Channel 03/24 : 0 1 2", "Channel 03/24 : 0 2 1")
            + "node0:10:110 [0] NCCL INFO Using network AWS Libfabric\n"
        ),
        "ring of channel 3",
        "network plugin AWS Libfabric",
    ),
    "a tuner plugin": (
        lambda text: (
            text.replace("1048576 Bytes -> Algo RING proto LL ", "1048576 Bytes -> Algo TREE proto LL ")
            + "node0:10:110 [0] NCCL INFO NCCL_TUNER_PLUGIN set by environment to x.so\n"
        ),
        "all_reduce of 1 MiB",
        "NCCL_TUNER_PLUGIN is set: a plugin chooses",
    ),
    "fewer NICs": (
        lambda text: (
            text.replace("Channel 03/24 : 0 1 2", "Channel 03/24 : 0 2 1")
            + "node0:10:110 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>\n"
        ),
        "ring of channel 3",
        "the run had 1 NIC on a host, the plan has 8",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_difference_is_named_with_its_cause(name: str) -> None:
    change, what, cause = CHANGES[name]
    plan = plan_of("dgx-h100")
    text = log_of(plan, per_node=8)
    assert change(text) != text
    found = check(plan, nccl_log.read(change(text), "made.log"))
    assert [row.what for row in found.differences] == [what]
    assert cause in found.differences[0].cause
    assert what in found.text


def test_ranks_in_another_order_than_the_gpus() -> None:
    plan = plan_of("dgx-h100")
    text = log_of(plan, per_node=8, devices=(4, 5, 6, 7, 0, 1, 2, 3)).replace(
        "Channel 00/24 : 0 1", "Channel 00/24 : 0 4"
    )
    text = text.replace("Channel 00/24 : 0 4 2 3 4", "Channel 00/24 : 0 4 2 3 1")
    (row,) = check(plan, nccl_log.read(text, "made.log")).differences
    assert "affinity or CUDA_VISIBLE_DEVICES" in row.cause


def test_the_machine_follows_the_log() -> None:
    node = load_topology("dgx-h100")
    assert isinstance(node, Topology)
    two = nccl_log.read(log_of(plan_of("dgx-h100", 2), per_node=8), "made.log")
    machine, said = machine_as_logged(node, two)
    assert isinstance(machine, Cluster)
    assert machine.count == 2
    assert said == ("planned for 2 nodes with GPUs 0-7, as the log shows its ranks",)
    half = plan_machine(node.take_ranks([1, 3, 5, 7]), {})
    part, said = machine_as_logged(node, nccl_log.read(log_of(half, per_node=4, devices=(1, 3, 5, 7)), "made.log"))
    assert isinstance(part, Topology)
    assert part.gpu_ids == ("GPU1", "GPU3", "GPU5", "GPU7")
    assert said == ("planned for 1 node with GPUs 1,3,5,7, as the log shows its ranks",)
    same, said = machine_as_logged(node, nccl_log.read(log_of(plan_of("dgx-h100"), per_node=8), "made.log"))
    assert same is node
    assert said == ()


def test_another_number_of_ranks_is_one_difference(tmp_path: Path) -> None:
    log = tmp_path / "nccl.log"
    log.write_text(log_of(plan_of("dgx-h100", 2), per_node=8))
    result = run("dgx-h100", "--gpus", "0-3", "--check", str(log))
    assert result.exit_code == 1
    assert "! ranks\n    planned 4\n    logged  16\n" in result.stdout


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["plan", *arguments])


def test_exit_status_and_document(tmp_path: Path) -> None:
    log = tmp_path / "nccl.log"
    log.write_text(log_of(plan_of("dgx-h100", 2), per_node=8))
    good = run("dgx-h100", "--check", str(log))
    assert good.exit_code == 0, good.stdout
    assert "no difference" in " ".join(good.stdout.split())
    assert not [line for line in good.stdout.splitlines() if len(line) > 80]
    document = run("dgx-h100", "--check", str(log), "--format", "json")
    assert json.loads(document.stdout)["check"]["differences"] == []


def test_settings_of_the_log_are_planned_with(tmp_path: Path) -> None:
    log = tmp_path / "nccl.log"
    text = log_of(plan_machine(load_topology("dgx-h100"), {"NCCL_ALGO": "tree"}), per_node=8)
    lines = "".join(
        f"node0:10:110 [0] NCCL INFO {name} set by environment to {value}\n"
        for name, value in (("NCCL_ALGO", "tree"), ("NCCL_WORK_FIFO_DEPTH", "4"), ("NCCL_DEBUG", "INFO"))
    )
    log.write_text(lines + text)
    result = run("dgx-h100", "--check", str(log))
    assert result.exit_code == 0, result.stdout
    assert "planned under the log's settings: NCCL_ALGO=tree" in result.stderr
    assert "NCCL_WORK_FIFO_DEPTH=4 of the log means nothing to NCCL 2.30: left out" in result.stderr
    other = run("dgx-h100", "--check", str(log), "--env", "NCCL_ALGO=ring")
    assert other.exit_code == 1
    assert "all_reduce of 1 KiB" in other.stdout


@dataclass(frozen=True)
class Capture:
    """A log of the corpus, the machine it is held against (its own tree where none), and how far it is reproduced.

    `agreed` are beginnings of what must agree; `differences` how many there are (0: reproduced), `because` a word of
    the likely cause.
    """

    log: str
    machine: str
    agreed: tuple[str, ...]
    differences: int = 0
    because: str = ""


CAPTURES = (
    Capture("007", "aws-p4d-a100", ("24 channels", "trees of channels 0-23")),
    Capture(
        "016",
        "",
        (
            "24 channels",
            "rings of channels 0-23",
            "trees of channels 0-23",
            "the ring graph: 12 channels of 20.0",
            "the tree graph: 12 channels of 40.0",
            "105 cells of the tuning table",
            "11 choices",
        ),
    ),
    Capture("021", "pcie-4gpu", ("2 channels", "rings of channels 0-1", "trees of channels 0-1")),
    Capture("022", "dgx-a100", ("24 channels", "rings of channels 0-23", "trees of channels 0-23")),
    Capture("025", "hgx-h200-1gpu", ("64 channels", "rings of channels 0-22")),
    Capture("037", "polaris-a100x4", ("8 channels", "rings of channels 0-7", "trees of channels 0-7")),
    Capture("057", "dgx-h100", ("24 channels", "ring of channel 16", "trees of channels 0-23")),
    Capture("001", "abci-v100x4", ("12 channels", "rings of channels 0-11", "trees of channels 0,6"), 5, "NCCL 2.7.8"),
    Capture("009", "aws-p4de-a100", ("8 channels", "rings of channels 0,2,4,6", "trees of channels 0-7"), 2, "2.18.3"),
    Capture("010", "aws-p4d-a100", ("8 channels", "rings of channels 0,2,4,6", "trees of channels 0-7"), 2, "2.8.3"),
    Capture("019", "pcie-4gpu", ("rings of channels 0-1", "trees of channels 0-1"), 1, "2.23.4"),
    Capture("014", "p3dn-v100", ("rings of channels 0-1", "tree of channel 0"), 2, "2.6.4"),
    Capture("012", "p3dn-v100", (), 5, "2.6.4"),
    Capture("003", "dgx-a100", ("tree of channel 0",), 4, "2.10.3"),
    Capture("005", "abci-v100x4", ("4 channels",), 5, "2.7.8"),
    Capture("027", "", ("rings of channels 0-1",), 4, "2.18.1"),
    Capture("061", "dgx-a100", ("rings of channels 0,2", "tree of channel 0"), 4, "IBext_v8"),
)


@pytest.mark.corpus
@pytest.mark.skipif(corpus_dir() is None, reason=NO_CORPUS)
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda capture: capture.log)
def test_real_logs_are_reproduced_or_explained(capture: Capture) -> None:
    root = corpus_dir()
    assert root is not None
    (path,) = (root / "nccl-log").glob(f"{capture.log}-*.txt")
    result = run(capture.machine or str(path), "--check", str(path))
    assert result.exit_code == (1 if capture.differences else 0), result.stdout
    agreed = [line.removeprefix("= ") for line in result.stdout.splitlines() if line.startswith("= ")]
    for start in capture.agreed:
        assert any(line.startswith(start) for line in agreed), start
    assert sum(line.startswith("! ") for line in result.stdout.splitlines()) == capture.differences
    assert capture.because in " ".join(result.stdout.split())
