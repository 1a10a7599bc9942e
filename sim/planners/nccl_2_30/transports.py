"""Which pairs talk by P2P, shared memory, network, PXN or GPUDirect, and what that makes of their paths.

Source: src/graph/paths.cc, src/transport/p2p.cc and shm.cc of NCCL 2.30.7.
"""

from __future__ import annotations

from sim.planners.nccl_2_30.kinds import NodeKind, PathKind
from sim.planners.nccl_2_30.options import NcclOptions
from sim.planners.nccl_2_30.paths import Path, join, local_nodes
from sim.planners.nccl_2_30.system import System
from sim.planners.nccl_2_30.tables import Locality, Paths, Tables, raw_tables


def find_paths(system: System, options: NcclOptions) -> Paths:
    """All paths of the system after NCCL's decisions, from scratch."""
    tables = raw_tables(system, options)
    _settle_p2p(tables, options)
    _mark_c2c_nics(tables)
    locality = Locality(tables, options.netdevs_policy)
    for net in range(len(tables.net_gpu)):
        for gpu in range(len(tables.gpu_net)):
            _settle_net(tables, locality, options, net, gpu)
    return tables.frozen(
        tuple(locality.nets_of(gpu) for gpu in range(len(tables.gpu_net))),
        tuple(locality.gpu_of(net) for net in range(len(tables.net_gpu))),
    )


def p2p_level(system: System, options: NcclOptions) -> PathKind:
    """The worst path over which two GPUs talk directly."""
    if options.p2p_disable:
        return PathKind.LOC
    if options.p2p_level is not None:
        return options.p2p_level
    small_amd = system.arch == "x86_64" and system.vendor == "AuthenticAMD"
    if small_amd and len(system.of_kind(NodeKind.DEVICE)) <= 2:
        return PathKind.SYS
    return PathKind.PXB


def _settle_p2p(tables: Tables, options: NcclOptions) -> None:
    """Send what is no peer-to-peer pair through its CPUs, and what may not share memory over the network."""
    level = p2p_level(tables.system, options)
    gpus = range(len(tables.gpu_gpu))
    net_rates = [_near_net_rate(row) for row in tables.gpu_net]
    for target in gpus:
        for source in gpus:
            if tables.gpu_gpu[source][target].kind > level:
                tables.gpu_gpu[source][target] = _through_cpu(tables, source, target)
        for source in gpus:
            path = tables.gpu_gpu[source][target]
            if source == target or (path.kind <= level and path.kind == PathKind.NVB):
                continue
            net_rate = 0.0 if options.net_disable_intra else min(net_rates[source], net_rates[target])
            if net_rate > path.bandwidth_bytes_per_s or not _shares(tables, options, level, source, target):
                tables.gpu_gpu[source][target] = path._replace(kind=PathKind.NET)


def _shares(tables: Tables, options: NcclOptions, level: PathKind, source: int, target: int) -> bool:
    """Whether two GPUs talk by P2P or by shared memory."""
    if tables.gpu_gpu[source][target].kind <= level:
        return True
    gpus = tables.system.of_kind(NodeKind.GPU)
    return gpus[source].host == gpus[target].host and not options.shm_disable


def _near_net_rate(paths: list[Path]) -> float:
    """The fastest NIC that a GPU reaches over PCIe switches alone; 0 where there is none."""
    return max((path.bandwidth_bytes_per_s for path in paths if path.kind <= PathKind.PXB), default=0.0)


def _through_cpu(tables: Tables, source: int, target: int) -> Path:
    cpu = tables.local_cpu[target]
    if cpu < 0:
        return tables.gpu_gpu[source][target]
    return join(tables.gpu_cpu[source][cpu], tables.cpu_gpu[cpu][target])


def _mark_c2c_nics(tables: Tables) -> None:
    """A NIC on the CPU that a GPU reaches by C2C counts as P2C, nearer than through a host bridge."""
    for gpu, cpu in enumerate(tables.local_cpu):
        if cpu < 0 or tables.gpu_cpu[gpu][cpu].kind != PathKind.C2C:
            continue
        for net in local_nodes(tables.gpu_net[gpu]):
            if tables.net_cpu[net][cpu].kind == PathKind.PHB:
                for rows, source, target in ((tables.gpu_net, gpu, net), (tables.net_gpu, net, gpu)):
                    path = rows[source][target]
                    rows[source][target] = path._replace(kind=min(path.kind, PathKind.P2C))


def _settle_net(tables: Tables, locality: Locality, options: NcclOptions, net: int, gpu: int) -> None:
    """Let a better placed GPU pass the data on (PXN), or go through the CPU where GPUDirect does not work."""
    proxy = _proxy(tables, locality, options, net, gpu)
    if proxy >= 0:
        tables.gpu_net[gpu][net] = join(tables.gpu_gpu[gpu][proxy], tables.gpu_net[proxy][net], at_gpu=True)
        locality.gpu_net_changed(gpu)
    path = tables.gpu_net[gpu][net]
    if path.kind >= PathKind.PHB:
        return
    near = locality.same_device(proxy) if proxy >= 0 else gpu
    if _gdr_works(tables, options, net, gpu, tables.gpu_net[near][net].kind, reading=False):
        return
    cpu = tables.local_cpu[gpu]
    tables.net_gpu[net][gpu] = join(tables.net_cpu[net][cpu], tables.cpu_gpu[cpu][gpu])
    tables.gpu_net[gpu][net] = join(tables.gpu_cpu[gpu][cpu], tables.cpu_net[cpu][net])
    locality.net_gpu_changed(net)
    locality.gpu_net_changed(gpu)


def _proxy(tables: Tables, locality: Locality, options: NcclOptions, net: int, gpu: int) -> int:
    """The GPU through which this one reaches the NIC better, -1 where it reaches it itself."""
    if options.pxn_disable:
        return -1
    proxy = locality.gpu_of(net)
    if proxy < 0 or proxy == gpu:
        return -1
    own, onward = tables.gpu_net[gpu][net], tables.gpu_net[proxy][net]
    gpus = tables.system.of_kind(NodeKind.GPU)
    if onward.kind > (PathKind.P2C if options.pxn_c2c else PathKind.PXB):
        return -1
    if tables.gpu_gpu[proxy][gpu].kind > PathKind.NVL or gpus[proxy].host != gpus[gpu].host:
        return -1
    if own.kind <= PathKind.PXN and onward.bandwidth_bytes_per_s <= own.bandwidth_bytes_per_s:
        return -1
    return proxy if _gdr_works(tables, options, net, proxy, onward.kind, reading=True) else -1


def _gdr_works(tables: Tables, options: NcclOptions, net: int, gpu: int, distance: PathKind, *, reading: bool) -> bool:
    """Whether the NIC reads or writes the GPU's memory itself, `distance` being the path between the two."""
    gpus = tables.system.of_kind(NodeKind.GPU)
    if not (gpus[gpu].gdr and tables.system.of_kind(NodeKind.NET)[net].gdr):
        return False
    if reading and not _gdr_reads(tables, options, gpu):
        return False
    level = options.net_gdr_level
    if level is None:
        level = PathKind.P2C if options.net_gdr_c2c else PathKind.PXB
    return distance <= level


def _gdr_reads(tables: Tables, options: NcclOptions, gpu: int) -> bool:
    if options.net_gdr_read is not None and options.net_gdr_read >= 0:
        return options.net_gdr_read > 0
    gpus = tables.system.of_kind(NodeKind.GPU)
    if gpus[gpu].compute_capability >= 80 or len(gpus) == 1:
        return True
    return any(path.kind == PathKind.NVL for path in tables.gpu_gpu[gpu])
