"""Topologies as NCCL's system graph: through our reader and presets it is the one of the file itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sim.planners.nccl_2_30.from_topology import spec_from_topology
from sim.planners.nccl_2_30.kinds import NodeKind
from sim.planners.nccl_2_30.planner import plan_nccl
from sim.planners.nccl_2_30.spec import SystemSpec
from sim.planners.nccl_2_30.system import build_system
from tests.sim.nccl_support import machine_names, machine_text, spec_of
from topo.errors import TopologyError
from topo.presets import PRESETS, preset
from topo.readers.nccl_xml import read
from topo.topology import CpuFacts, Device, GpuFacts, Link, NicFacts, Topology


def graph_of(spec: SystemSpec) -> Any:
    """Everything that a search sees of a machine; what the source calls its parts left out."""
    system = build_system(spec)
    return [replace(node, cpu=None) for node in system.nodes], system.edges, system.leaving


@pytest.mark.corpus
@pytest.mark.parametrize("name", machine_names())
class TestMachines:
    def test_through_the_reader(self, name: str) -> None:
        text = machine_text(name)
        through = spec_from_topology(read(text, name))
        assert graph_of(through) == graph_of(spec_of(text))
        assert through.assumed == ()

    def test_presets_are_the_machines(self, name: str) -> None:
        if name not in PRESETS:
            pytest.skip(f"no preset {name}")
        assert graph_of(spec_from_topology(preset(name))) == graph_of(spec_of(machine_text(name)))


PROCESSORS = {"numa0": CpuFacts(arch="x86_64", family=6, model=143), "numa1": None}


def two_gpus(**changes: Any) -> Topology:
    """Two GPUs below a host bridge each, a NIC of two ports beside the first; `changes` replace fields of the GPUs."""
    gpus = [
        Device(
            f"GPU{index}",
            "gpu",
            vendor="nvidia",
            label=f"GPU{index}",
            gpu=GpuFacts(**{"index": index, "compute_capability": 90, "gdr": True, **changes}),
        )
        for index in range(2)
    ]
    cpus = [
        Device(name, "cpu", vendor="GenuineIntel", numa_node=node, cpu=facts)
        for node, (name, facts) in enumerate(PROCESSORS.items())
    ]
    bridges = [Device(f"bridge{index}", "host_bridge") for index in range(2)]
    ports = [Device(f"mlx5_{index}", "nic", nic=NicFacts(index=index, gdr=True, port=index)) for index in range(2)]
    pairs = (
        ("bridge0", "numa0"),
        ("bridge1", "numa1"),
        ("GPU0", "bridge0"),
        ("GPU1", "bridge1"),
        ("card", "bridge0"),
    )
    links = [Link(*ends, "pcie", 31.5e9, 16) for src, dst in pairs for ends in ((src, dst), (dst, src))]
    links += [Link(*ends, "local", 5e12) for port in ("mlx5_0", "mlx5_1") for ends in ((port, "card"), ("card", port))]
    links += [Link("numa0", "numa1", "cpu", 20e9), Link("numa1", "numa0", "cpu", 20e9)]
    links += [Link("GPU0", "GPU1", "nvlink", 100e9, 4), Link("GPU1", "GPU0", "nvlink", 100e9, 4)]
    return Topology(
        (*cpus, *bridges, gpus[0], Device("card", "nic_card"), *ports, gpus[1]), tuple(links), ("GPU0", "GPU1")
    )


def test_host_bridges_fold_into_their_cpu_and_ports_share_a_card() -> None:
    system = build_system(spec_from_topology(two_gpus()))
    counts = {kind: len(system.of_kind(kind)) for kind in NodeKind}
    assert counts == {
        NodeKind.GPU: 2,
        NodeKind.PCI: 0,
        NodeKind.NVSWITCH: 0,
        NodeKind.CPU: 2,
        NodeKind.NIC: 1,
        NodeKind.NET: 2,
        NodeKind.DEVICE: 2,
    }
    rates = {edge.kind.name: edge.bandwidth_bytes_per_s for edge in system.edges}
    assert rates["PCI"] == 24e9, "words of the link follow from its rate: generation 4"
    assert rates["NVL"] == pytest.approx(4 * 20.6e9)


def test_what_was_assumed_is_said() -> None:
    assumed = spec_from_topology(two_gpus(gdr=None)).assumed
    assert any("GPU0, GPU1: taken as able to do GPUDirect" in sentence for sentence in assumed)
    assert any("numa1: processor unknown" in sentence for sentence in assumed)
    assert any("mlx5_0, mlx5_1: port speed unknown" in sentence for sentence in assumed)


def test_unknown_processor_keeps_the_stated_rate() -> None:
    system = build_system(spec_from_topology(two_gpus()))
    rates = [edge.bandwidth_bytes_per_s for edge in system.edges if edge.kind.name == "SYS"]
    assert rates == [22e9, 20e9]


def test_only_chosen_gpus_take_part() -> None:
    plan = plan_nccl(spec_from_topology(preset("dgx-h100").take_ranks([5, 2, 7])))
    assert [node.rank for node in plan.wiring.domains[0].system.of_kind(NodeKind.GPU)] == [1, 0, 2]
    assert all(sorted(ring) == [0, 1, 2] for ring in plan.wiring.rings)


def test_inactive_links_do_not_count() -> None:
    topology = two_gpus()
    links = tuple(replace(link, state="inactive") if link.kind == "nvlink" else link for link in topology.links)
    system = build_system(spec_from_topology(replace(topology, links=links)))
    assert all(edge.kind.name != "NVL" for edge in system.edges)


@pytest.mark.parametrize(
    ("topology", "message"),
    [
        (two_gpus(compute_capability=None), "the model of GPU0 is unknown"),
        (two_gpus(mlopart=0), "split GPU"),
        (replace(two_gpus(), synthetic=True), "description without PCIe"),
        (
            replace(two_gpus(), devices=tuple(replace(d, vendor="amd") for d in two_gpus().devices)),
            "no NVIDIA GPU",
        ),
        (
            replace(
                two_gpus(), links=tuple(link for link in two_gpus().links if "bridge1" not in (link.src, link.dst))
            ),
            "GPU1: NCCL finds no way down",
        ),
        (Topology((Device("GPU0", "gpu"),), (), ("GPU0",)), "no CPU"),
    ],
    ids=["model", "mlopart", "synthetic", "amd", "adrift", "no-cpu"],
)
def test_what_nccl_needs_is_asked_for(topology: Topology, message: str) -> None:
    with pytest.raises(TopologyError, match=message) as refused:
        spec_from_topology(topology)
    assert "\n" not in str(refused.value)


def test_model_name_gives_the_compute_capability() -> None:
    topology = two_gpus(compute_capability=None)
    devices = tuple(replace(d, model="NVIDIA H100 80GB HBM3") if d.kind == "gpu" else d for d in topology.devices)
    spec = spec_from_topology(replace(topology, devices=devices))
    assert {gpu.compute_capability for gpu in spec.gpus()} == {90}
