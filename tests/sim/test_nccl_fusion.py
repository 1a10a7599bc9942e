"""NIC fusion: ports of one card become one NIC, as a real machine with and without it shows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sim.planners.nccl_2_30.from_topology import spec_from_topology
from sim.planners.nccl_2_30.fusion import fuse_nics, fused_names
from sim.planners.nccl_2_30.options import NcclOptions
from sim.planners.nccl_2_30.planner import plan_nccl
from sim.planners.nccl_2_30.spec import CpuSpec, GpuSpec, NetSpec, NicSpec, PciSpec, SystemSpec
from sim.planners.nccl_2_30.system import build_system
from tests.support import NO_CORPUS, corpus_dir
from topo.errors import NameChoiceError, TopologyError, UnitError
from topo.readers.nccl_xml import read

GIGA = 1e9


def options(**environment: str) -> NcclOptions:
    return NcclOptions.from_environment({f"NCCL_NET_{name}": value for name, value in environment.items()})


def card(*nets: NetSpec, bus_id: str = "0000:16:00.0") -> PciSpec:
    return PciSpec(bus_id, "0x020000", 0, "16.0 GT/s PCIe", 8, nic=NicSpec(nets))


def port(index: int, **changes: Any) -> NetSpec:
    plain = NetSpec(index, 12.5 * GIGA, port=index + 1, guid=7, gdr=True, name=f"mlx5_{index}")
    return replace(plain, **changes)


def machine(*cards: PciSpec | NicSpec) -> SystemSpec:
    """A GPU on each of two sockets, cards on the first."""
    gpus = [
        PciSpec(f"0000:{69 + n}:00.0", "0x030200", 0, "16.0 GT/s PCIe", 16, gpus=(GpuSpec(n, n, 80, True),))
        for n in (0, 1)
    ]
    sockets = [(*cards, gpus[0]), (gpus[1],)]
    return SystemSpec(
        tuple(CpuSpec(n, "h", "x86_64", "GenuineIntel", 6, 106, children=parts) for n, parts in enumerate(sockets))
    )


def nets_of(spec: SystemSpec) -> list[NetSpec]:
    return [net for cpu in spec.cpus for function in cpu.functions() if function.nic for net in function.nic.nets]


def test_ports_of_one_card_are_one_nic_by_default() -> None:
    spec = machine(card(port(0), port(1, gdr=False)))
    (fused,) = nets_of(fuse_nics(spec, NcclOptions()))
    assert (fused.name, fused.index, fused.bandwidth_bytes_per_s, fused.gdr) == ("mlx5_0+mlx5_1", 2, 25 * GIGA, False)
    assert fused_names(spec, NcclOptions()) == ("mlx5_0+mlx5_1",)
    assert nets_of(fuse_nics(spec, options(MERGE_LEVEL="LOC"))) == nets_of(spec)


def test_four_ports_at_most_and_cards_stay_apart() -> None:
    spec = machine(card(*(port(n) for n in range(6))), card(port(6), bus_id="0000:17:00.0"))
    assert [net.name for net in nets_of(fuse_nics(spec, NcclOptions()))] == [
        "mlx5_0+mlx5_1+mlx5_2+mlx5_3",
        "mlx5_4+mlx5_5",
        "mlx5_6",
    ]


def test_sockets_are_never_fused() -> None:
    spec = machine(card(port(0, port=0), port(1, port=0)), NicSpec((port(2, port=0), port(3, port=0))))
    assert fuse_nics(spec, NcclOptions()) is spec


def test_forced_groups_come_first() -> None:
    spec = machine(card(*(port(n) for n in range(4))))
    forced = options(FORCE_MERGE="mlx5_1,mlx5_3", MERGE_LEVEL="LOC")
    assert [net.name for net in nets_of(fuse_nics(spec, forced))] == ["mlx5_0", "mlx5_1+mlx5_3", "mlx5_2"]


@pytest.mark.parametrize(
    ("environment", "error", "message"),
    [
        (
            {"FORCE_MERGE": "mlx5_0,mlx5_9"},
            TopologyError,
            "there is no port 'mlx5_9', known are mlx5_0, mlx5_1, mlx5_2",
        ),
        ({"FORCE_MERGE": "mlx5_0,mlx5_2"}, TopologyError, "are not ports of one card"),
        ({"MERGE_LEVEL": "PIX"}, UnitError, "not several cards"),
        ({"MERGE_LEVEL": "PRT"}, NameChoiceError, "did you mean 'PORT'"),
    ],
)
def test_what_cannot_be_fused_is_said(environment: dict[str, str], error: type[Exception], message: str) -> None:
    spec = machine(card(port(0), port(1)), card(port(2), bus_id="0000:17:00.0"))
    with pytest.raises(error, match=message):
        fuse_nics(spec, options(**environment))


def test_two_hosts_search_one_fused_nic() -> None:
    """The pair of a public report: with two ports of 100 Gb/s the rings run at what 200 Gb/s allow."""
    spec = machine(card(port(0, gdr=False), port(1, gdr=False)))
    fused, apart = plan_nccl(spec, num_copies=2), plan_nccl(spec, num_copies=2, options=options(MERGE_LEVEL="LOC"))
    assert {net for channel in fused.wiring.graphs["ring"].channels for net in channel.nets} == {2}
    assert {net for channel in apart.wiring.graphs["ring"].channels for net in channel.nets} <= {0, 1}
    assert fused.wiring.num_channels == 2


@pytest.mark.corpus
@pytest.mark.skipif(corpus_dir() is None, reason=NO_CORPUS)
def test_a_real_machine_with_its_ports_apart_and_bonded() -> None:
    root = corpus_dir()
    assert root is not None
    apart, bonded = (
        spec_from_topology(read((root / "nccl-xml" / f"a100pcie-2-{form}.xml").read_text(), form))
        for form in ("normal", "bonded-real")
    )

    def graph(spec: SystemSpec) -> Any:
        """What a search sees, but for what the NIC is called."""
        system = build_system(spec)
        plain = [
            replace(node, cpu=None, net=node.net and replace(node.net, index=0, guid=None), net_id=0, asic=0, dev=0)
            for node in system.nodes
        ]
        return plain, system.edges, system.leaving

    assert [net.name for net in nets_of(bonded)] == ["mlx5_0+mlx5_1"]
    assert fused_names(apart, NcclOptions()) == ("mlx5_0+mlx5_1",)
    assert graph(fuse_nics(apart, NcclOptions())) == graph(bonded)
    assert graph(apart) != graph(bonded)
    for count in (1, 2):
        plans = [plan_nccl(spec, num_copies=count) for spec in (apart, bonded)]
        assert plans[0].wiring.rings == plans[1].wiring.rings
        assert plans[0].choose("all_reduce", 1 << 24).times_s == plans[1].choose("all_reduce", 1 << 24).times_s


@pytest.mark.corpus
@pytest.mark.skipif(corpus_dir() is None, reason=NO_CORPUS)
def test_the_pair_of_the_report_is_the_fused_machine() -> None:
    root = corpus_dir()
    assert root is not None
    text = (root / "machines" / "issue2397-a100pcie-fused.xml").read_text()
    fused = spec_from_topology(read(text, "fused"))
    assert fuse_nics(fused, NcclOptions()) is fused
    one = (
        '<net name="mlx5_{n}" dev="{n}" latency="0" speed="100000" port="{p}" guid="0x1000" maxconn="131072" gdr="0"/>'
    )
    start, end = text.index("<net "), text.index("/>", text.index("<net ")) + 2
    ports = "".join(one.format(n=n, p=n + 1) for n in (0, 1))
    apart = spec_from_topology(read(text[:start] + ports + text[end:], "ports"))
    plans = [plan_nccl(spec, num_copies=2) for spec in (apart, fused)]
    assert plans[0].wiring.rings == plans[1].wiring.rings
    assert plans[0].wiring.trees == plans[1].wiring.trees
    assert plans[0].times_s("all_reduce", 1 << 20) == plans[1].times_s("all_reduce", 1 << 20)
