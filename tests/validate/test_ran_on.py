"""Another machine than the one that was measured is told: its GPUs however they are spelled, and its hosts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support import corpus_files
from topo.cli import main
from topo.cluster import Cluster
from topo.errors import TopoError
from topo.presets import preset
from topo.topology import Topology
from validate.documents import Hints, parse_measurements, read_measurements
from validate.measurement_set import MeasurementSet, RanOn
from validate.published.document import read
from validate.published.machines import Machines
from validate.ran_on import moved, ran_on, strangers

SPELLINGS = {
    "V100 SXM": ("Tesla V100-SXM2-16GB", "V100 SXM"),
    "A100 SXM4 80GB": ("NVIDIA A100-SXM4-80GB", "A100-SXM4-40GB", "A100"),
    "H100 SXM5": ("NVIDIA H100 80GB HBM3", "H100", "NVIDIA H100"),
    "B200": ("NVIDIA B200", "B200"),
    "L40S": ("NVIDIA L40S",),
}
MACHINES = {"V100 SXM": "dgx1-v100", "A100 SXM4 80GB": "dgx-a100", "H100 SXM5": "dgx-h100", "B200": "dgx-b200"}


def run_of(*gpus: str, hosts: int = 1, ranks: int = 8) -> str:
    """What nccl-tests prints of a run on these GPUs, in turn, spread over hosts."""
    listed = [
        f"#  Rank {rank:2} Group  0 Pid {900 + rank} on node{rank * hosts // ranks} device {rank:2} "
        f"[0x{rank:02x}] {gpus[rank % len(gpus)]}"
        for rank in range(ranks)
    ]
    factor = 2 * (ranks - 1) / ranks
    return "\n".join(
        (
            "# Collective test starting: all_reduce_perf",
            *listed,
            "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong",
            f"4000000 1000000 float sum -1 40.00 100.00 {100 * factor:.2f} 0 40.00 100.00 {100 * factor:.2f} 0",
            "",
        )
    )


def measured(*gpus: str, hosts: int = 1, ranks: int = 8) -> MeasurementSet:
    return parse_measurements(run_of(*gpus, hosts=hosts, ranks=ranks), "run.txt", Hints())


@pytest.mark.parametrize("product", SPELLINGS)
@pytest.mark.parametrize("machine", MACHINES)
def test_other_gpus_are_told_and_other_spellings_are_not(product: str, machine: str) -> None:
    node = preset(MACHINES[machine])
    for name in SPELLINGS[product]:
        said = strangers(measured(name), node)
        if product == machine:
            assert not said
        else:
            (sentence,) = said
            assert f"run was measured on {name}, {node.name} has {machine}: another machine is predicted" in sentence


@pytest.mark.parametrize("machine", MACHINES)
def test_a_machine_that_tells_only_its_generation_is_held_to_that(machine: str) -> None:
    whole = preset(MACHINES[machine])
    node = replace(whole, devices=tuple(replace(device, model=None) for device in whole.devices))
    for product, (name, *_) in SPELLINGS.items():
        assert bool(strangers(measured(name), node)) == (product != machine)


@pytest.mark.parametrize(("name", "machine"), [("NVIDIA H200", "dgx-h100"), ("NVIDIA H100 80GB HBM3", "aws-p5en-h200")])
def test_gpus_that_are_predicted_alike_are_named_and_no_more(name: str, machine: str) -> None:
    (sentence,) = strangers(measured(name), preset(machine))
    assert sentence.endswith("so that they are predicted alike")


@pytest.mark.parametrize("name", ["NVIDIA Graphics Device", "some GPU of tomorrow"])
def test_a_name_that_nobody_knows_says_nothing(name: str) -> None:
    assert not strangers(measured(name), preset("dgx-h100"))


def test_one_strange_gpu_among_many_is_told() -> None:
    (sentence,) = strangers(measured("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"), preset("dgx-h100"))
    assert "measured on NVIDIA A100-SXM4-80GB, dgx-h100 has" in sentence


@pytest.mark.parametrize("hosts", [1, 2, 4])
@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_another_number_of_hosts_is_told(hosts: int, nodes: int) -> None:
    node = preset("dgx-h100").take_ranks(range(8 // nodes))
    machine: Topology | Cluster = node if nodes == 1 else Cluster(node, nodes)
    said = strangers(measured("NVIDIA H100", hosts=hosts), machine)
    assert bool(said) == (hosts != nodes)
    for sentence in said:
        words = [f"{number} host{'s' if number > 1 else ''}" for number in (hosts, nodes)]
        assert f"measured on {words[0]}, {machine.name} has {words[1]}: another machine" in sentence
        assert sentence.endswith("--nodes and --gpus")


def test_hosts_in_one_domain_of_nvlinks_are_counted_as_hosts() -> None:
    trays = preset("gb200-nvl8")
    assert not strangers(measured("NVIDIA GB200", hosts=2), trays)
    assert strangers(measured("NVIDIA GB200", hosts=1), trays)


def test_a_list_of_ranks_that_the_user_corrects_says_nothing_of_hosts() -> None:
    lines = run_of("NVIDIA H100", hosts=2).splitlines(keepends=True)
    cut = "".join(line for line in lines if "Rank  7" not in line)
    found = parse_measurements(cut, "run.txt", Hints(num_ranks=8))
    assert ran_on(found) == RanOn(("NVIDIA H100",), None)


@pytest.mark.parametrize("path", corpus_files("measurements/*.json")[::3], ids=lambda path: path.stem)
def test_published_runs_are_at_home_on_their_own_machine(path: Path) -> None:
    run = read(path.read_text(encoding="utf-8"))
    try:
        machine = Machines().machine_of(run)
    except TopoError:
        return  # A run on GPUs of two kinds, or on more than the machine has: nothing is predicted of it.
    said = strangers(read_measurements(path), machine)
    assert all(sentence.endswith("predicted alike") for sentence in said)


def test_files_of_our_own_tell_by_their_topology() -> None:
    found = replace(measured("H100"), ran_on=None, topology=preset("dgx-h100"))
    assert ran_on(found) == RanOn(("H100 SXM5",), 1)
    assert not strangers(found, preset("dgx-h100"))
    assert strangers(found, preset("dgx-a100"))


def test_between_two_runs_the_machine_counts_as_a_difference() -> None:
    before, after = measured("H100"), measured("NVIDIA A100-SXM4-80GB", hosts=2)
    assert [row.sentence for row in moved(before, after)] == [
        "GPU was H100, now it is NVIDIA A100-SXM4-80GB",
        "number of hosts was 1, now it is 2",
    ]
    assert not moved(before, measured("NVIDIA H100 80GB HBM3"))


def test_the_command_says_it_first_and_keeps_it_in_its_document(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_text(run_of("NVIDIA H100 80GB HBM3"))
    result = CliRunner().invoke(main, ["validate", "compare", str(path), "--topology", "dgx-a100", "--format", "json"])
    (remark,) = json.loads(result.stdout)["remarks"]
    assert "NVIDIA H100 80GB HBM3, dgx-a100 has A100 SXM4 80GB" in remark
    assert result.stderr.startswith(f"topo: {remark}\n")
