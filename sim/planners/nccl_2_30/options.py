"""NCCL's environment as a typed value: what the planner understands, and what it was given but does not model.

Names and meanings are those of NCCL 2.30.7's documentation (docs/userguide env.rst) and source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sim.planners.nccl_2_30.choice_lists import Allowed, parse_allowed
from sim.planners.nccl_2_30.kinds import PathKind
from topo.errors import NameChoiceError, UnitError

ALGORITHMS = ("tree", "ring", "collnet-direct", "collnet-chain", "nvls", "nvls-tree", "pat")
PROTOCOLS = ("ll", "ll128", "simple")
"""In NCCL's order, which decides ties."""
COLLNET = ("collnet-direct", "collnet-chain")
NVLS = ("nvls", "nvls-tree")
"""Algorithms that reduce in the network, and those that do so in NVSwitches."""

_ALGORITHM_TOKENS = {name.replace("-", ""): name for name in ALGORITHMS}
_PROTOCOL_TOKENS = {name: name for name in PROTOCOLS}
_LEVELS = {kind.name: kind for kind in PathKind if kind not in (PathKind.NET, PathKind.DIS)}
_OLD_LEVELS = (PathKind.LOC, PathKind.PIX, PathKind.PXB, PathKind.PHB, PathKind.SYS, PathKind.SYS)


@dataclass(frozen=True, slots=True)
class NetDevs:
    """How many of its local NICs a GPU uses: `limit` each, all of them, or its even share ("auto", "all", "max")."""

    policy: str = "auto"
    limit: int = 0


@dataclass(frozen=True, slots=True)
class NcclOptions:
    """What NCCL would read from its environment; each default is NCCL's own. None stands for "NCCL decides"."""

    algorithms: Allowed = ()
    protocols: Allowed = ()
    min_channels: int | None = None
    max_channels: int | None = None
    min_ctas: int | None = None
    max_ctas: int | None = None
    cross_nic: int = 2
    p2p_level: PathKind | None = None
    p2p_disable: bool = False
    shm_disable: bool = False
    net_disable_intra: bool = False
    net_gdr_level: PathKind | None = None
    net_gdr_read: int | None = None
    net_gdr_c2c: bool = True
    netdevs_policy: NetDevs = NetDevs()
    nvb_disable: bool = False
    pxn_disable: bool = False
    pxn_c2c: bool = True
    scatter_nets: bool = True
    nvls_enable: bool = True
    nvls_num_channels: int | None = None
    nvls_chunk_bytes: int | None = None
    nvls_tree_max_chunk_bytes: int | None = None
    collnet_enable: bool = False
    collnet_node_threshold: int = 2
    pat_enable: bool = True
    num_threads: int | None = None
    ll128_num_threads: int | None = None
    thread_thresholds: tuple[int, ...] = ()
    simple_buffer_bytes: int = 4 << 20
    ll_buffer_bytes: int = 8 * 512 * 8 * 16
    ll128_buffer_bytes: int = 120 * 640 * 8 * 8
    p2p_net_chunk_bytes: int = 128 << 10
    p2p_pci_chunk_bytes: int = 128 << 10
    p2p_nvl_chunk_bytes: int = 512 << 10
    net_overhead_s: float | None = None
    net_merge_level: str = "PORT"
    net_force_merge: tuple[str, ...] = ()
    not_modelled: tuple[str, ...] = ()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> NcclOptions:
        """The options that these variables make; names that are not NCCL's are left alone.

        Settings that NCCL knows but that this planner does not model are listed in `not_modelled`; a name that is
        neither raises NameChoiceError, and a value that NCCL could not read UnitError or NameChoiceError.
        """
        values: dict[str, Any] = {}
        ignored = []
        for name, text in environment.items():
            if not name.startswith("NCCL_"):
                continue
            if name in _READERS:
                field, read = _READERS[name]
                values[field] = read(name, text)
            elif name in _NOT_MODELLED or name.startswith(_NOT_MODELLED_FAMILIES):
                ignored.append(name)
            else:
                raise NameChoiceError("NCCL variable", name, (*_READERS, *_NOT_MODELLED))
        return cls(**values, not_modelled=tuple(ignored))

    def allows_algorithm(self, collective: str, algorithm: str) -> bool:
        """Whether NCCL_ALGO leaves this algorithm for the collective."""
        return all(algorithm in names for row, names in self.algorithms if row == collective)

    def protocol_setting(self, collective: str, protocol: str) -> bool | None:
        """True or False as NCCL_PROTO says for the collective, None where it says nothing."""
        for row, names in self.protocols:
            if row == collective:
                return protocol in names
        return None


def _integer(name: str, text: str) -> int:
    try:
        return int(text.strip(), 0)
    except ValueError:
        raise UnitError(f"{name}={text!r}: expected a whole number, set it to one or leave it out") from None


def _count(name: str, text: str) -> int:
    value = _integer(name, text)
    if value < 1:
        raise UnitError(f"{name}={text!r}: expected at least 1, set it so or leave it out")
    return value


def _flag(name: str, text: str) -> bool:
    return _integer(name, text) != 0


def _exactly_one(name: str, text: str) -> bool:
    return _integer(name, text) == 1


def _cross_nic(name: str, text: str) -> int:
    value = _integer(name, text)
    if value not in (0, 1, 2):
        raise UnitError(f"{name}={text!r}: expected 0 (same rail), 1 (any NIC) or 2 (NCCL decides)")
    return value


def _level(name: str, text: str) -> PathKind:
    if text in _LEVELS:
        return _LEVELS[text]
    if text.isdigit():
        return _OLD_LEVELS[min(int(text), len(_OLD_LEVELS) - 1)]
    raise NameChoiceError(f"level in {name}", text, _LEVELS)


def _netdevs(name: str, text: str) -> NetDevs:
    word, _, limit = text.partition(":")
    if word.upper() == "MAX" and limit:
        return NetDevs("max", _count(name, limit))
    if limit or word.upper() not in ("AUTO", "ALL"):
        raise NameChoiceError(f"policy in {name}", text, ("AUTO", "ALL", "MAX:1"))
    return NetDevs(word.lower())


def _thresholds(name: str, text: str) -> tuple[int, ...]:
    values = tuple(_integer(name, item) for item in text.split())
    if len(values) != 6:
        raise UnitError(f"{name}={text!r}: expected 6 numbers (tree and ring, LL LL128 Simple), found {len(values)}")
    return values


def _nanoseconds(name: str, text: str) -> float:
    return _integer(name, text) * 1e-9


def _merge_level(name: str, text: str) -> str:
    if text in ("LOC", "PORT"):
        return text
    if text in ("PIX", "PXB", "P2C", "PXN", "PHB", "SYS"):
        raise UnitError(f"{name}={text!r}: ports of one card are fused here (PORT) or none (LOC), not several cards")
    raise NameChoiceError(f"level in {name}", text, ("LOC", "PORT"))


def _groups(name: str, text: str) -> tuple[str, ...]:
    return tuple(group for group in text.split(";") if group.strip())


def _algorithms(name: str, text: str) -> Allowed:
    return parse_allowed(name, text, "algorithm", _ALGORITHM_TOKENS)


def _protocols(name: str, text: str) -> Allowed:
    return parse_allowed(name, text, "protocol", _PROTOCOL_TOKENS)


_READERS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "NCCL_ALGO": ("algorithms", _algorithms),
    "NCCL_PROTO": ("protocols", _protocols),
    "NCCL_MIN_NCHANNELS": ("min_channels", _count),
    "NCCL_MAX_NCHANNELS": ("max_channels", _count),
    "NCCL_MIN_CTAS": ("min_ctas", _count),
    "NCCL_MAX_CTAS": ("max_ctas", _count),
    "NCCL_CROSS_NIC": ("cross_nic", _cross_nic),
    "NCCL_P2P_LEVEL": ("p2p_level", _level),
    "NCCL_P2P_DISABLE": ("p2p_disable", _exactly_one),
    "NCCL_SHM_DISABLE": ("shm_disable", _exactly_one),
    "NCCL_NET_DISABLE_INTRA": ("net_disable_intra", _exactly_one),
    "NCCL_NET_GDR_LEVEL": ("net_gdr_level", _level),
    "NCCL_NET_GDR_READ": ("net_gdr_read", _integer),
    "NCCL_NET_GDR_C2C": ("net_gdr_c2c", _flag),
    "NCCL_NETDEVS_POLICY": ("netdevs_policy", _netdevs),
    "NCCL_NVB_DISABLE": ("nvb_disable", _flag),
    "NCCL_PXN_DISABLE": ("pxn_disable", _exactly_one),
    "NCCL_PXN_C2C": ("pxn_c2c", _flag),
    "NCCL_MNNVL_SCATTER_NETS_ENABLE": ("scatter_nets", _flag),
    "NCCL_NVLS_ENABLE": ("nvls_enable", _flag),
    "NCCL_NVLS_NCHANNELS": ("nvls_num_channels", _count),
    "NCCL_NVLS_CHUNKSIZE": ("nvls_chunk_bytes", _count),
    "NCCL_NVLSTREE_MAX_CHUNKSIZE": ("nvls_tree_max_chunk_bytes", _count),
    "NCCL_COLLNET_ENABLE": ("collnet_enable", _exactly_one),
    "NCCL_COLLNET_NODE_THRESHOLD": ("collnet_node_threshold", _integer),
    "NCCL_PAT_ENABLE": ("pat_enable", _flag),
    "NCCL_NTHREADS": ("num_threads", _count),
    "NCCL_LL128_NTHREADS": ("ll128_num_threads", _count),
    "NCCL_THREAD_THRESHOLDS": ("thread_thresholds", _thresholds),
    "NCCL_BUFFSIZE": ("simple_buffer_bytes", _count),
    "NCCL_LL_BUFFSIZE": ("ll_buffer_bytes", _count),
    "NCCL_LL128_BUFFSIZE": ("ll128_buffer_bytes", _count),
    "NCCL_P2P_NET_CHUNKSIZE": ("p2p_net_chunk_bytes", _count),
    "NCCL_P2P_PCI_CHUNKSIZE": ("p2p_pci_chunk_bytes", _count),
    "NCCL_P2P_NVL_CHUNKSIZE": ("p2p_nvl_chunk_bytes", _count),
    "NCCL_NET_OVERHEAD": ("net_overhead_s", _nanoseconds),
    "NCCL_NET_MERGE_LEVEL": ("net_merge_level", _merge_level),
    "NCCL_NET_FORCE_MERGE": ("net_force_merge", _groups),
}
_NOT_MODELLED_FAMILIES = (
    "NCCL_DEBUG",
    "NCCL_IB_",
    "NCCL_SOCKET_",
    "NCCL_CUMEM_",
    "NCCL_OOB_",
    "NCCL_RAS_",
    "NCCL_PROFILER_",
    "NCCL_INSPECTOR_",
    "NCCL_SYM_",
    "NCCL_GIN_",
)
_NOT_MODELLED = (
    "NCCL_NET",
    "NCCL_NET_PLUGIN",
    "NCCL_NET_FORCE_FLUSH",
    "NCCL_NET_MERGE_POLICY",
    "NCCL_NET_SHARED_BUFFERS",
    "NCCL_NET_SHARED_COMMS",
    "NCCL_TUNER_PLUGIN",
    "NCCL_TUNER_CONFIG_FILE",
    "NCCL_TOPO_FILE",
    "NCCL_TOPO_DUMP_FILE",
    "NCCL_TOPO_DUMP_FILE_RANK",
    "NCCL_GRAPH_FILE",
    "NCCL_GRAPH_DUMP_FILE",
    "NCCL_GRAPH_DUMP_FILE_RANK",
    "NCCL_MNNVL_ENABLE",
    "NCCL_MNNVL_UUID",
    "NCCL_MNNVL_CLIQUE_ID",
    "NCCL_MULTI_RANK_GPU_ENABLE",
    "NCCL_NSOCKS_PERTHREAD",
    "NCCL_IGNORE_CPU_AFFINITY",
    "NCCL_RUNTIME_CONNECT",
    "NCCL_LAUNCH_MODE",
    "NCCL_LAUNCH_ORDER_IMPLICIT",
    "NCCL_CGA_CLUSTER_SIZE",
    "NCCL_CTA_POLICY",
    "NCCL_MAX_P2P_NCHANNELS",
    "NCCL_MIN_P2P_NCHANNELS",
    "NCCL_NCHANNELS_PER_NET_PEER",
    "NCCL_WORK_FIFO_BYTES",
    "NCCL_BLOCKING_WAIT",
    "NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_DMABUF_ENABLE",
    "NCCL_LOCAL_REGISTER",
    "NCCL_GRAPH_REGISTER",
    "NCCL_LEGACY_CUDA_REGISTER",
    "NCCL_NVLS_UC_REGISTER",
    "NCCL_P2P_DIRECT_DISABLE",
    "NCCL_P2P_USE_CUDA_MEMCPY",
    "NCCL_P2P_READ_ENABLE",
    "NCCL_PXN_MAX_CHANNELS",
    "NCCL_CHECK_POINTERS",
    "NCCL_CHECKS_DISABLE",
    "NCCL_CONF_FILE",
    "NCCL_COMM_ID",
    "NCCL_COMM_BLOCKING",
    "NCCL_HOSTID",
    "NCCL_SET_STACK_SIZE",
    "NCCL_SET_CPU_STACK_SIZE",
    "NCCL_SINGLE_RING_THRESHOLD",
    "NCCL_P2P_LL_THRESHOLD",
)
"""Settings that NCCL knows and that do not change what is planned here, or that this planner cannot follow."""
