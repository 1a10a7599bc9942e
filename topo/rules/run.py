"""What a log of NCCL shows: transports that are slower than the machine allows, GPUDirect RDMA, a wrong topology."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from topo.case import Case, say
from topo.finding import Finding
from topo.merging.draft import address_of

if TYPE_CHECKING:
    from topo.captures import Output
    from topo.readers.nccl_log.facts import Connection, NcclLog, RankPlace
    from topo.topology import Device

SHM_FALLBACK = "shm-fallback"
SOCKET_FALLBACK = "socket-fallback"
NO_GDR = "no-gdr"
WRONG_TOPOLOGY = "wrong-topology"
NCCL_WARNING = "nccl-warning"

_TOPOLOGY_FILE = "NCCL_TOPO_FILE"


def shared_memory(case: Case) -> Iterator[Finding]:
    """Pairs that talk through the host's memory, or over the network, though NVLink or a PCIe switch joins them."""
    for output, log in _logs(case):
        near = [c for c in _connections(log) if c.transport.startswith(("SHM", "NET/")) and _near(case, log, c)]
        if near:
            first = near[0]
            one, other = _ends(case, log, first)
            assert one is not None, "near pairs are known"
            assert other is not None, "near pairs are known"
            pairs = len({(c.src, c.dst) for c in near})
            sentence = (
                f"{pairs} connections such as {one.name}-{other.name} use {first.transport}, though the two are "
                f"{case.letters[one.id, other.id]}"
            )
            quotes = (output.quote(first.line), case.quote(one))
            yield say(SHM_FALLBACK, "finding", sentence, *quotes, subjects=(one.id, other.id))
        else:
            far = next((c for c in _connections(log) if c.transport.startswith("SHM")), None)
            if far is not None:
                known = _ends(case, log, far)
                letters = case.letters.get((known[0].id, known[1].id)) if known[0] and known[1] else None
                reason = f"the two are {letters}, so it is by design" if letters else "whether it must is not shown"
                sentence = f"ranks {far.src} and {far.dst} use {far.transport}: {reason}"
                yield say(SHM_FALLBACK, "note", sentence, output.quote(far.line))


def sockets(case: Case) -> Iterator[Finding]:
    """Traffic over TCP sockets, though the machine has InfiniBand or RoCE."""
    for output, log in _logs(case):
        used = next((c for c in _connections(log) if c.transport.startswith("NET/Socket")), None)
        if used is None:
            continue
        better = next((device for device in log.networks if device.kind in ("IB", "RoCE")), None)
        nic = next((nic for nic in case.topology.of_kind("nic") if _is_rdma(nic)), None) if case.topology else None
        if better is not None or nic is not None:
            name = better.name if better else nic.name if nic else ""
            sentence = f"ranks {used.src} and {used.dst} use {used.transport}, though {name} is there"
            where = output.quote(better.line) if better else case.quote(nic) if nic else None
            yield say(SOCKET_FALLBACK, "finding", sentence, output.quote(used.line), where)
        else:
            sentence = f"ranks {used.src} and {used.dst} use {used.transport}: no InfiniBand or RoCE is shown"
            yield say(SOCKET_FALLBACK, "note", sentence, output.quote(used.line))


def _is_rdma(nic: Device) -> bool:
    name = (nic.nic.os_name if nic.nic else None) or nic.name
    return name.startswith(("mlx", "ib", "bnxt_re", "irdma", "rdmap"))


def gdr(case: Case) -> Iterator[Finding]:
    """GPUDirect RDMA that the log says is disabled, on connections over InfiniBand or RoCE."""
    for output, log in _logs(case):
        off = [line for line in log.gdr if not line.enabled and "distance" not in line.subject]
        far = [line for line in log.gdr if not line.enabled and "distance" in line.subject]
        over_ib = [c for c in _connections(log) if c.transport.startswith("NET/IB")]
        without = [c for c in over_ib if "GDRDMA" not in c.transport]
        if off and without and len(without) == len(over_ib):
            sentence = (
                f"GPUDirect RDMA is disabled for {off[0].subject}: what goes to other hosts is copied through memory"
            )
            yield say(NO_GDR, "finding", sentence, output.quote(off[0].line), output.quote(without[0].line))
        elif off:
            sentence = f"GPUDirect RDMA is disabled for {off[0].subject}"
            yield say(NO_GDR, "note", sentence, output.quote(off[0].line))
        elif far:
            sentence = f"GPUDirect RDMA is disabled for {far[0].subject}: GPU and NIC are too far apart"
            yield say(NO_GDR, "note", sentence, output.quote(far[0].line))


def shows_gdr(case: Case) -> bool:
    """Whether a log tells of GPUDirect RDMA, or of connections that use it."""
    return any(log.gdr or any("GDRDMA" in c.transport for c in _connections(log)) for _, log in _logs(case))


def wrong_topology(case: Case) -> Iterator[Finding]:
    """A log of GPUs that the topology does not have: a wrong NCCL_TOPO_FILE, or a log of another machine."""
    for output, log in _logs(case):
        setting = next((row for row in log.settings if row.name == _TOPOLOGY_FILE), None)
        told = output.quote(setting.line) if setting else None
        stranger = _stranger(case, log)
        if stranger is not None:
            by_file = f" (NCCL read {setting.value})" if setting else ""
            what, words = stranger
            sentence = f"the log's {what} is not in the topology: a wrong topology file, or another machine{by_file}"
            quotes = (told, output.text.find(f"(?i){words}") or output.quote(1), case.quote(case.gpus[0]))
            yield say(WRONG_TOPOLOGY, "finding", sentence, *quotes)
        elif setting is not None:
            sentence = f"NCCL believed {setting.value} instead of looking at the machine"
            yield say(WRONG_TOPOLOGY, "note", sentence, told)


def _stranger(case: Case, log: NcclLog) -> tuple[str, str] | None:
    """A GPU of the log's only host that the topology lacks, in words, and the log's own words for it."""
    places = log.main.places if log.main else ()
    if not case.gpus or len({place.host for place in places}) != 1:
        return None
    ours = {address for gpu in case.gpus if (address := address_of(gpu))}
    theirs = [(place, address) for place in places if (address := _address(place))]
    for place, address in theirs:
        if ours and address not in ours:
            return f"GPU of rank {place.rank} at {address}", place.bus_id or ""
    if len({address for _, address in theirs}) > len(case.gpus):
        place = theirs[-1][0]
        return f"GPU {len(theirs)} of one host (the topology has {len(case.gpus)})", place.bus_id or ""
    return None


def warnings(case: Case) -> Iterator[Finding]:
    """What NCCL itself warned of."""
    for output, log in _logs(case):
        for row in log.warnings[:4]:
            yield say(NCCL_WARNING, "note", f"NCCL warned: {row.words[:160]}", output.quote(row.line))


def _logs(case: Case) -> Iterator[tuple[Output, NcclLog]]:
    return ((output, output.facts) for output in case.logs if output.problem is None)


def _connections(log: NcclLog) -> tuple[Connection, ...]:
    return log.main.connections if log.main else ()


def _ends(case: Case, log: NcclLog, connection: Connection) -> tuple[Device | None, Device | None]:
    """The GPUs of a connection's two ranks: by bus id, else by number where the log has as many ranks as GPUs."""
    return _of_rank(case, log, connection.src), _of_rank(case, log, connection.dst)


def _of_rank(case: Case, log: NcclLog, rank: int | None) -> Device | None:
    main, topology = log.main, case.topology
    if main is None or topology is None or rank is None:
        return None
    place = next((place for place in main.places if place.rank == rank), None)
    address = _address(place) if place else None
    known = next((gpu for gpu in case.gpus if address and address_of(gpu) == address), None)
    if known is None and main.num_ranks == topology.num_ranks == len(case.gpus) and 0 <= rank < topology.num_ranks:
        return topology.device(topology.gpu_ids[rank])
    return known


def _address(place: RankPlace) -> str | None:
    from topo.log_machine import bus_id_of

    return bus_id_of(place.bus_id) if place.bus_id else None


def _near(case: Case, log: NcclLog, connection: Connection) -> bool:
    """Whether the two are joined by NVLink or by PCIe switches alone, on one host."""
    if log.main is None or log.main.num_nodes not in (None, 1):
        return False
    one, other = _ends(case, log, connection)
    if one is None or other is None or one is other:
        return False
    letters = case.letters.get((one.id, other.id)) or ""
    return letters.startswith(("NV", "XGMI")) or letters in ("PIX", "PXB")
