"""System graph and paths against the reference runs, field by field."""

from __future__ import annotations

from typing import Any

import pytest

from sim.planners.nccl_2_30.builder import Builder
from sim.planners.nccl_2_30.kinds import LinkKind, NodeKind, PathKind
from sim.planners.nccl_2_30.paths import NO_PATH, Path, PathFinder, join, local_nodes
from sim.planners.nccl_2_30.rates import cpu_bytes_per_s, nvlink_bytes_per_s, pci_class, pcie_bytes_per_s
from sim.planners.nccl_2_30.spec import CpuSpec, GpuSpec, NvlinkSpec, PciSpec, SystemSpec
from sim.planners.nccl_2_30.system import build_system, without_gpus
from sim.planners.nccl_2_30.tables import Table
from tests.sim.nccl_support import GIGA, REFERENCES, Reference, domain_of, plan_of
from topo.errors import TopologyError

NODE_NAMES = {
    "GPU": NodeKind.GPU,
    "PCI": NodeKind.PCI,
    "NVS": NodeKind.NVSWITCH,
    "CPU": NodeKind.CPU,
    "NIC": NodeKind.NIC,
    "NET": NodeKind.NET,
    "DEV": NodeKind.DEVICE,
}


def cells(table: Table) -> list[list[Any]]:
    return [
        [
            [path.kind.name, pytest.approx(path.bandwidth_bytes_per_s / GIGA, rel=1e-6), len(path.hops)]
            if path.kind < PathKind.DIS
            else None
            for path in row
        ]
        for row in table
    ]


def known(table: list[list[Any]]) -> list[list[Any]]:
    return [[None if cell is None or cell[0] == "DIS" else cell for cell in row] for row in table]


@pytest.mark.corpus
@pytest.mark.parametrize("reference", REFERENCES, ids=str)
class TestReference:
    def test_system(self, reference: Reference) -> None:
        result, domain = reference.result, domain_of(reference)
        counts = {name: len(domain.system.of_kind(kind)) for name, kind in NODE_NAMES.items()}
        assert counts == result["system"]["counts"]
        assert domain.max_bytes_per_s / GIGA == pytest.approx(result["system"]["maxBw"])
        assert domain.total_bytes_per_s / GIGA == pytest.approx(result["system"]["totalBw"])
        assert domain.inter == bool(result["system"]["inter"])

    def test_gpus_and_nets(self, reference: Reference) -> None:
        result, system = reference.result, domain_of(reference).system
        local_gpu = domain_of(reference).paths.local_gpu
        assert result["gpus"] == [
            {"index": g.index, "rank": g.rank, "dev": g.dev, "sm": g.compute_capability, "gdr": int(g.gdr)}
            for g in system.of_kind(NodeKind.GPU)
        ]
        assert result["nets"] == [
            {
                "index": n.index,
                "id": n.net_id,
                "dev": n.dev,
                "bw": n.net.bandwidth_bytes_per_s / GIGA if n.net else None,
                "localGpu": local_gpu[n.index],
            }
            for n in system.of_kind(NodeKind.NET)
        ]

    def test_paths(self, reference: Reference) -> None:
        result, paths = reference.result, domain_of(reference).paths
        assert known(result["paths_gpu_gpu"]) == cells(paths.gpu_gpu)
        assert known(result["paths_gpu_net"]) == cells(paths.gpu_net)
        if "paths_net_gpu" in result:
            assert known(result["paths_net_gpu"]) == cells(paths.net_gpu)

    def test_nodes(self, reference: Reference) -> None:
        result, plan = reference.result, plan_of(reference)
        assert (plan.wiring.num_nodes, plan.wiring.num_ranks) == (result["nNodes"], result["nRanks"])
        machine = plan.communicator.machine
        if "minCompCap" in result:
            assert machine.min_compute_capability == result["minCompCap"]
            assert machine.max_compute_capability == result["maxCompCap"]


@pytest.mark.parametrize(
    ("link_speed", "link_width", "gigabytes"),
    [
        ("2.5 GT/s PCIe", 16, 3),
        ("5.0 GT/s PCIe", 16, 6),
        ("8.0 GT/s PCIe", 16, 12),
        ("16.0 GT/s PCIe", 8, 12),
        ("32.0 GT/s PCIe", 16, 48),
        ("64.0 GT/s PCIe", 16, 96),
        ("32 GT/s", 4, 12),
        ("16.0 GT/s", 16, 12),
        ("64 GT/s", 16, 12),
        ("", 0, 12),
        ("2.5 GT/s", 1, 0.1875),
    ],
)
def test_pcie_words(link_speed: str, link_width: int, gigabytes: float) -> None:
    assert pcie_bytes_per_s(link_speed, link_width) == gigabytes * GIGA


@pytest.mark.parametrize(
    ("sm", "gigabytes"), [(60, 18), (70, 20), (80, 20), (86, 12), (89, 20), (90, 20.6), (103, 40.1)]
)
def test_nvlink_rate(sm: int, gigabytes: float) -> None:
    assert nvlink_bytes_per_s(sm) == pytest.approx(gigabytes * GIGA)


@pytest.mark.parametrize(
    ("arch", "vendor", "family", "model", "gigabytes"),
    [
        ("x86_64", "GenuineIntel", 6, 79, 6),
        ("x86_64", "GenuineIntel", 6, 85, 10),
        ("x86_64", "GenuineIntel", 6, 106, 10),
        ("x86_64", "GenuineIntel", 6, 143, 22),
        ("x86_64", "GenuineIntel", 6, 207, 40),
        ("x86_64", "GenuineIntel", 7, 207, 6),
        ("x86_64", "AuthenticAMD", 175, 1, 16),
        ("x86_64", "CentaurHauls", 7, 0x5B, 9),
        ("x86_64", "  Shanghai  ", 7, 1, 6),
        ("x86_64", "SomeoneElse", 1, 1, 5000),
        ("arm64", "ARM", 0, 0, 6),
        ("ppc64", None, 0, 0, 32),
    ],
)
def test_cpu_rate(arch: str, vendor: str | None, family: int, model: int, gigabytes: float) -> None:
    cpu = CpuSpec(numa_node=0, arch=arch, vendor=vendor, family=family, model=model)
    assert cpu_bytes_per_s(cpu) == gigabytes * GIGA


def test_class_is_a_prefix() -> None:
    assert [pci_class(text) for text in ("0x060400", "0x030200", "0x020700", "0x068000", "0x068001", "0x010802")] == [
        "bridge",
        "gpu",
        "nic",
        "nvswitch",
        "cpu",
        "bridge",
    ]


def gpu(rank: int, bus_id: str, *nvlinks: NvlinkSpec, compute_capability: int = 80) -> PciSpec:
    own = GpuSpec(rank, rank, compute_capability, gdr=True, nvlinks=nvlinks)
    return PciSpec(bus_id, "0x030200", 0, "16.0 GT/s PCIe", 16, gpus=(own,))


def switch(bus_id: str, *children: PciSpec, ids: int = 0) -> PciSpec:
    return PciSpec(bus_id, "0x060400", ids, "16.0 GT/s PCIe", 16, children=children)


def on_cpu(*children: PciSpec, numa_node: int = 0) -> CpuSpec:
    return CpuSpec(numa_node, arch="x86_64", vendor="AuthenticAMD", children=children)


def test_broadcom_levels_become_one_switch() -> None:
    upper, lower = 0x1000_C010_1000_A001, 0x1000_C010_1000_A002
    machine = SystemSpec(
        (on_cpu(switch("a", switch("b", gpu(0, "c"), ids=lower), switch("d", gpu(1, "e"), ids=lower), ids=upper)),)
    )
    system = build_system(machine)
    assert len(system.of_kind(NodeKind.PCI)) == 1
    only = system.of_kind(NodeKind.PCI)[0].number
    devices = {node.number for node in system.of_kind(NodeKind.DEVICE)}
    assert devices < {system.edges[edge].dst for edge in system.leaving[only]}
    first, second = (node.number for node in system.of_kind(NodeKind.GPU))
    assert PathFinder(system).to(second)[first].kind == PathKind.PIX


def test_other_switches_keep_their_levels() -> None:
    machine = SystemSpec((on_cpu(switch("a", switch("b", gpu(0, "c")), switch("d", gpu(1, "e")))),))
    system = build_system(machine)
    assert len(system.of_kind(NodeKind.PCI)) == 3
    first, second = (node.number for node in system.of_kind(NodeKind.GPU))
    assert PathFinder(system).to(second)[first].kind == PathKind.PXB


def test_link_upwards_comes_last() -> None:
    builder = Builder(SystemSpec((on_cpu(switch("a", gpu(0, "c"))),)))
    builder.add_cpus()
    builder.sort_links()
    system = builder.freeze()
    device, cpu = system.of_kind(NodeKind.DEVICE)[0], system.of_kind(NodeKind.CPU)[0]
    bridge = system.of_kind(NodeKind.PCI)[0]
    assert system.edges[system.leaving[bridge.number][-1]].dst == cpu.number
    assert system.edges[system.leaving[device.number][-1]].kind == LinkKind.PCI


def test_nvlink_of_one_end_only_is_refused() -> None:
    link = NvlinkSpec("c", "gpu", 4)
    machine = SystemSpec((on_cpu(gpu(0, "b", link)), on_cpu(gpu(1, "c"), numa_node=1)))
    system = build_system(machine)
    with pytest.raises(TopologyError, match="only one of its two ends"):
        PathFinder(system).to(system.of_kind(NodeKind.GPU)[0].number)


def test_removing_gpus_renumbers_the_rest() -> None:
    system = build_system(SystemSpec((on_cpu(gpu(0, "a"), gpu(1, "b"), gpu(2, "c")),)))
    rest = without_gpus(system, [1])
    assert [(node.index, node.rank) for node in rest.of_kind(NodeKind.GPU)] == [(0, 0), (1, 2)]
    assert len(rest.of_kind(NodeKind.DEVICE)) == 3
    assert all(rest.nodes[node.device].kind == NodeKind.DEVICE for node in rest.of_kind(NodeKind.GPU))
    for number, leaving in enumerate(rest.leaving):
        assert all(rest.edges[edge].src == number for edge in leaving)
    assert all(rest.edges[edge.reverse].dst == edge.src for edge in rest.edges)
    assert without_gpus(system, []) is system


def test_joining_paths() -> None:
    c2c, phb = Path(PathKind.C2C, 200.0, (1,)), Path(PathKind.PHB, 48.0, (2, 3))
    assert join(c2c, phb) == Path(PathKind.P2C, 48.0, (1, 2, 3))
    assert join(phb, phb).kind == PathKind.PHB
    assert join(c2c, phb, at_gpu=True).kind == PathKind.PXN
    assert join(c2c, NO_PATH) == NO_PATH


def test_local_prefers_bandwidth_over_kind() -> None:
    slow_near, fast_far = Path(PathKind.PIX, 12.0, (1,)), Path(PathKind.SYS, 24.0, (2,))
    assert local_nodes([slow_near, fast_far, fast_far]) == (1, 2)
    assert local_nodes([NO_PATH, NO_PATH]) == (0, 1)
    assert local_nodes([]) == ()
