"""Which ways to run a collective NCCL leaves out, and by which rule, in words (src/graph/tuning.cc of NCCL 2.30.7).

Every rule is a sentence where it applies and an empty text where it does not, so that what decides also explains.
"""

from __future__ import annotations

from sim.planners.nccl_2_30.graphs import Graph
from sim.planners.nccl_2_30.kinds import PathKind
from sim.planners.nccl_2_30.machine import Machine
from sim.planners.nccl_2_30.options import COLLNET, NVLS, NcclOptions
from sim.planners.nccl_2_30.requests import COLLNET_MAX_LOCAL_RANKS
from topo.words import counted

NVLS_MAX_LOCAL_RANKS = 32
SIMPLE_ONLY = ("nvls", "nvls-tree", "pat")
"""Algorithms whose other protocols have no row in the tuner's table."""
_NVLS_ANY_SIGN = ("int32", "int64", "uint32", "uint64", "float16", "bfloat16")
_NVLS_SUM_ONLY = ("float32", "float64")


def why_missing(machine: Machine, options: NcclOptions, collective: str, algorithm: str) -> str:
    """Why the tuner has no row for the algorithm in this collective; empty where it has one."""
    if collective in ("broadcast", "reduce"):
        return "" if algorithm == "ring" else f"{collective} runs by ring alone"
    if algorithm in NVLS and not machine.nvls:
        return "there is no NVLS here"
    if collective == "all_reduce":
        return "pat runs all_gather and reduce_scatter alone" if algorithm == "pat" else ""
    if algorithm == "pat":
        return _why_no_pat(machine, options)
    return "" if algorithm in ("ring", "nvls", "collnet-direct") else f"{algorithm} runs all_reduce alone"


def _why_no_pat(machine: Machine, options: NcclOptions) -> str:
    if machine.ranks_per_node != 1:
        return f"pat needs one rank on each node, here are {machine.ranks_per_node}"
    if machine.min_compute_capability < 60:
        return "pat needs compute capability 6.0"
    return "" if options.pat_enable else "NCCL_PAT_ENABLE=0"


def why_barred(
    machine: Machine, graph: Graph, options: NcclOptions, collective: str, algorithm: str, protocol: str
) -> str:
    """Why environment or machine leave this combination out, though it has a row; empty where it may be taken."""
    if not options.allows_algorithm(collective, algorithm):
        return "NCCL_ALGO leaves it out"
    setting = options.protocol_setting(collective, protocol)
    if setting is False:
        return "NCCL_PROTO leaves it out"
    unsafe = _why_no_ll128(machine, graph) if setting is None and protocol == "ll128" else ""
    if unsafe:
        return unsafe
    if algorithm in COLLNET:
        return _why_no_collnet(machine, graph, options, protocol)
    if algorithm in NVLS:
        return _why_no_nvls(machine, graph, options, collective, algorithm)
    return ""


def _why_no_collnet(machine: Machine, graph: Graph, options: NcclOptions, protocol: str) -> str:
    if not machine.collnet:
        return _why_collnet_off(machine, options)
    if protocol != "simple":
        return "reducing in the network knows simple alone"
    return "" if graph.num_channels else "no channel of its graph was found"


def _why_collnet_off(machine: Machine, options: NcclOptions) -> str:
    if not options.collnet_enable:
        return "reducing in the network is off: NCCL_COLLNET_ENABLE=1 allows it"
    least = max(2, options.collnet_node_threshold)
    if machine.num_nodes < least:
        return f"reducing in the network needs {least} nodes, {counted(machine.num_nodes, 'node')} here"
    if machine.max_ranks_per_node > COLLNET_MAX_LOCAL_RANKS:
        return f"reducing in the network takes {COLLNET_MAX_LOCAL_RANKS} ranks on a node at most"
    return "no NIC here says that its network reduces (coll=1)"


def _why_no_nvls(machine: Machine, graph: Graph, options: NcclOptions, collective: str, algorithm: str) -> str:
    several = machine.num_nodes > 1
    if graph.num_channels < 2:
        return f"NVLS needs 2 heads, the search found {graph.num_channels}"
    if algorithm == "nvls-tree" and not several:
        return "nvls-tree joins several nodes, here is one"
    if algorithm == "nvls" and several and not machine.collnet:
        return f"nvls alone joins no nodes: {_why_collnet_off(machine, options)}"
    if collective != "all_reduce" and machine.max_ranks_per_node > NVLS_MAX_LOCAL_RANKS:
        return f"nvls does {collective} for {NVLS_MAX_LOCAL_RANKS} ranks on a node at most"
    return ""


def _why_no_ll128(machine: Machine, graph: Graph) -> str:
    """Whether stores of 128 bytes may not arrive whole on some connection of the graph."""
    new = machine.min_compute_capability >= 90
    worst_inter = PathKind.PXN if new else PathKind.PXB
    if graph.kind_inter > worst_inter:
        return f"ll128 is not safe over {graph.kind_inter.name} paths to NICs ({worst_inter.name} at most)"
    if graph.kind_intra > PathKind.NVB:
        return f"ll128 is not safe over {graph.kind_intra.name} paths between GPUs (NVB at most)"
    if not new and machine.min_compute_capability != machine.max_compute_capability:
        return "ll128 needs GPUs that are alike"
    return "" if machine.min_compute_capability >= 70 else "ll128 needs compute capability 7.0"


def why_unsupported(collective: str, algorithm: str, dtype: str, reduction: str) -> str:
    """Why an algorithm cannot do this reduction on this type; empty where it can."""
    if collective == "all_gather":
        return ""
    if algorithm in NVLS:
        known = (dtype in _NVLS_ANY_SIGN and reduction in ("sum", "min", "max")) or (
            dtype in _NVLS_SUM_ONLY and reduction == "sum"
        )
        return "" if known else f"NVSwitches do not reduce {dtype} by {reduction}"
    return "pat does not average" if algorithm == "pat" and reduction == "avg" else ""
