"""What --algorithm may say, the same for all commands."""

from __future__ import annotations

import pytest

from sim.naming import named_algorithms
from sim.predict import Simulator
from sim.workload import Workload
from topo.errors import NameChoiceError, ScheduleError
from topo.load import load_topology

MIB = 2**20
STAR = "switch:4,bandwidth=200GB/s,latency=1us"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("auto", ("auto",)),
        ("ring", ("ring",)),
        (" ring , tree ", ("ring", "tree")),
        ("ring,ring,tree,ring", ("ring", "tree")),
        ("auto,ring", ("auto", "ring")),
        ("collnet-chain", ("collnet-chain",)),
    ],
)
def test_names_are_read_each_once(text: str, names: tuple[str, ...]) -> None:
    assert named_algorithms(text, "all_reduce") == names


@pytest.mark.parametrize("text", ["", ",", "ring,", "rign", "Ring", "ring;tree"])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(NameChoiceError, match="unknown algorithm"):
        named_algorithms(text, "all_reduce")


def test_all_stands_alone() -> None:
    with pytest.raises(ScheduleError, match="write it alone"):
        named_algorithms("ring,all", "all_reduce")


def test_an_algorithm_runs_its_collectives() -> None:
    with pytest.raises(ScheduleError, match="direct runs all_to_all, sendrecv, not all_reduce"):
        named_algorithms("ring,direct", "all_reduce")


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "all_to_all", "broadcast"])
@pytest.mark.parametrize("machine", [STAR, "dgx-h100", "dgx1-v100"])
def test_all_are_those_that_run(machine: str, collective: str) -> None:
    simulator, workload = Simulator(load_topology(machine)), Workload(collective, MIB)
    names = simulator.names("all", workload)
    assert names
    for name in names:
        assert simulator.run(workload, name).algorithm == name


def test_where_none_can_run_that_is_said() -> None:
    simulator = Simulator(load_topology(STAR), engine="kernels")
    with pytest.raises(ScheduleError):
        simulator.names("all", Workload("all_reduce", MIB))
