"""NCCL's environment as typed options: what is understood, what is reported, what is refused."""

from __future__ import annotations

import pytest

from sim.planners.nccl_2_30.kinds import PathKind
from sim.planners.nccl_2_30.options import NcclOptions, NetDevs
from topo.errors import NameChoiceError, TopoError, UnitError


def options(**environment: str) -> NcclOptions:
    return NcclOptions.from_environment({f"NCCL_{name}": value for name, value in environment.items()})


def test_nothing_said_is_the_default() -> None:
    assert options() == NcclOptions()
    assert NcclOptions.from_environment({"PATH": "/bin", "CUDA_VISIBLE_DEVICES": "0"}) == NcclOptions()


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("CROSS_NIC", "1", "cross_nic", 1),
        ("P2P_LEVEL", "SYS", "p2p_level", PathKind.SYS),
        ("P2P_LEVEL", "2", "p2p_level", PathKind.PXB),
        ("P2P_LEVEL", "9", "p2p_level", PathKind.SYS),
        ("P2P_DISABLE", "1", "p2p_disable", True),
        ("P2P_DISABLE", "2", "p2p_disable", False),
        ("SHM_DISABLE", "0", "shm_disable", False),
        ("NET_GDR_LEVEL", "PIX", "net_gdr_level", PathKind.PIX),
        ("NET_GDR_READ", "0", "net_gdr_read", 0),
        ("NETDEVS_POLICY", "MAX:2", "netdevs_policy", NetDevs("max", 2)),
        ("NETDEVS_POLICY", "all", "netdevs_policy", NetDevs("all")),
        ("BUFFSIZE", "0x800000", "simple_buffer_bytes", 8 << 20),
        ("NVLS_ENABLE", "0", "nvls_enable", False),
        ("COLLNET_ENABLE", "1", "collnet_enable", True),
        ("NTHREADS", "256", "num_threads", 256),
        ("NET_OVERHEAD", "1500", "net_overhead_s", 1.5e-6),
        ("THREAD_THRESHOLDS", "8 8 64 16 8 64", "thread_thresholds", (8, 8, 64, 16, 8, 64)),
    ],
)
def test_settings(name: str, text: str, field: str, value: object) -> None:
    assert getattr(options(**{name: text}), field) == value


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("CROSS_NIC", "3", UnitError),
        ("CROSS_NIC", "yes", UnitError),
        ("P2P_LEVEL", "sys", NameChoiceError),
        ("NETDEVS_POLICY", "SOME", NameChoiceError),
        ("NETDEVS_POLICY", "MAX:0", UnitError),
        ("MAX_NCHANNELS", "0", UnitError),
        ("THREAD_THRESHOLDS", "1 2", UnitError),
        ("ALGO", "rings", NameChoiceError),
        ("PROTO", "LL256", NameChoiceError),
        ("ALGO", "everything:ring", NameChoiceError),
        ("ALGO", "ring;tree", NameChoiceError),
        ("MAX_CHANNELZ", "8", NameChoiceError),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(name: str, text: str, error: type[TopoError]) -> None:
    with pytest.raises(error) as refused:
        options(**{name: text})
    assert f"NCCL_{name}" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_is_not_modelled_is_reported() -> None:
    given = options(DEBUG="INFO", IB_HCA="mlx5_0", CROSS_NIC="0", TUNER_PLUGIN="x.so")
    assert given.not_modelled == ("NCCL_DEBUG", "NCCL_IB_HCA", "NCCL_TUNER_PLUGIN")
    assert given.cross_nic == 0


class TestAlgorithmLists:
    def test_one_list_for_all(self) -> None:
        given = options(ALGO="Ring,NVLSTree")
        assert given.allows_algorithm("all_reduce", "nvls-tree")
        assert given.allows_algorithm("broadcast", "ring")
        assert not given.allows_algorithm("broadcast", "tree")

    def test_lists_by_collective(self) -> None:
        given = options(ALGO="ring,collnetdirect;AllReduce:tree;broadcast:^ring")
        assert not given.allows_algorithm("all_reduce", "ring")
        assert given.allows_algorithm("all_reduce", "tree")
        assert given.allows_algorithm("all_gather", "collnet-direct")
        assert not given.allows_algorithm("broadcast", "ring")
        assert given.allows_algorithm("broadcast", "pat")

    def test_collectives_that_are_not_named_keep_all(self) -> None:
        given = options(ALGO="allreduce:tree")
        assert given.allows_algorithm("broadcast", "ring")

    def test_protocols(self) -> None:
        given = options(PROTO="allreduce:^LL128")
        assert given.protocol_setting("all_reduce", "ll128") is False
        assert given.protocol_setting("all_reduce", "ll") is True
        assert given.protocol_setting("broadcast", "ll") is None
