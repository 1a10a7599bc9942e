"""Which NICs each GPU is nearest to, what lies between, whether GPUDirect RDMA works there, and at what rate."""

from __future__ import annotations

from topo.errors import TopologyError
from topo.paths import letters_from, path_bandwidth
from topo.table import Column, Table
from topo.topology import Device, Topology

COLUMNS = (
    Column("GPU", "gpu"),
    Column("NUMA", "numa_node"),
    Column("nearest NICs", "nics"),
    Column("path", "path"),
    Column("GB/s each", "nic_gb_per_s", ".4g"),
    Column("GPUDirect RDMA", "gpudirect_rdma"),
)

NEAREST_FIRST = ("PIX", "PXB", "PHB", "NODE", "SYS", "NET")
BELOW_SWITCHES = ("PIX", "PXB")
"""Up to here NCCL lets a NIC reach a GPU's memory by itself (its NCCL_NET_GDR_LEVEL where nothing is set)."""


def render(topology: Topology) -> str:
    """A line per GPU that takes part; TopologyError where there is no GPU or no NIC."""
    gpus = [device for gpu_id in topology.gpu_ids if (device := topology.device(gpu_id)).kind == "gpu"]
    nics = topology.of_kind("nic")
    if not gpus or not nics:
        lacks = "GPU" if not gpus else "NIC"
        raise TopologyError(f"{topology.name or 'this machine'} shows no {lacks}: there is no distance to tell")
    rows = tuple(_row(topology, gpu, nics) for gpu in gpus)
    return Table(COLUMNS, rows, f"{topology.name or 'topology'}: GPUs and their NICs").text(terminal=False)


def _row(topology: Topology, gpu: Device, nics: tuple[Device, ...]) -> tuple[str | int | float | None, ...]:
    letters = letters_from(topology, gpu.id, [nic.id for nic in nics])
    known = [found for nic in nics if (found := letters[nic.id]) in NEAREST_FIRST]
    if not known:
        return gpu.name, gpu.numa_node, None, None, None, "unknown: no path is shown"
    best = min(known, key=lambda found: NEAREST_FIRST.index(found or ""))
    near = [nic for nic in nics if letters[nic.id] == best]
    rate = min(_rate(topology, gpu, nic) for nic in near)
    return (
        gpu.name,
        gpu.numa_node,
        ", ".join(nic.name for nic in near),
        best,
        rate / 1e9,
        _rdma(topology, gpu, near, best),
    )


def _rate(topology: Topology, gpu: Device, nic: Device) -> float:
    """Nominal bytes/s from the GPU out of the NIC: the slower of the way there and the port."""
    port = nic.nic.bandwidth_bytes_per_s if nic.nic else None
    way = path_bandwidth(topology, gpu.id, nic.id)
    return way if port is None else min(way, port)


def _rdma(topology: Topology, gpu: Device, near: list[Device], letters: str | None) -> str:
    """Whether NCCL would use it to the nearest NICs, with the reason."""
    if gpu.gpu is not None and gpu.gpu.gdr is False:
        return "no: the GPU's driver does not offer it"
    able = [nic.nic.gdr if nic.nic else None for nic in near]
    if all(gdr is False for gdr in able):
        return "no: the NIC does not offer it (nvidia-peermem, DMA-BUF)"
    if letters in BELOW_SWITCHES:
        sure = any(able) and gpu.gpu is not None and gpu.gpu.gdr
        return "yes" if sure else "by its place, yes: drivers are not shown"
    if any(link.kind == "c2c" for link in topology.adjacency[gpu.id]):
        return "over C2C, from NCCL 2.27 on"
    return "no: the way leads through a processor"
