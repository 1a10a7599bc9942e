"""A topology as nvidia-smi's path matrix: as data, and as `nvidia-smi topo -m` prints it."""

from __future__ import annotations

from collections import Counter

from topo.errors import TopologyError
from topo.paths import letters_from
from topo.topology import RANK_KINDS, Device, Topology
from topo.words import printable

MOST_ENDS = 1024
"""GPUs and NICs of which a matrix is made: it takes some ten seconds, and grows with the square."""

_COLUMNS = ("CPU Affinity", "NUMA Affinity")

_LEGEND = (
    ("X", "the device itself"),
    ("SYS", "over the link between NUMA nodes"),
    ("NODE", "over two host bridges of one NUMA node"),
    ("PHB", "over one host bridge"),
    ("PXB", "over several PCIe switches, no host bridge"),
    ("PIX", "over at most one PCIe switch"),
    ("NV#", "over # NVLinks"),
    ("XGMI", "over AMD's direct links"),
    ("NET", "over a network only"),
    ("N/A", "not shown by the source"),
)


def matrix(topology: Topology) -> dict[str, dict[str, str | None]]:
    """The letters of each GPU that takes part and NIC to each other, by name, both directions, computed from the graph.

    Names are the source's labels (ids where two devices share a label), GPUs first, then NICs, in the topology's order.
    None where the source does not show the pair (`hidden_pairs`), or where no path joins the two. TopologyError for
    more than `MOST_ENDS` devices.
    """
    devices = _ends(topology)
    if len(devices) > MOST_ENDS:
        raise TopologyError(
            f"{topology.name or 'this machine'} has {len(devices):,} GPUs and NICs, a matrix is made of at most "
            f"{MOST_ENDS:,}: take some with --gpus, or another form"
        )
    names = _names(devices)
    hidden = {frozenset(pair) for pair in topology.hidden_pairs}
    rows: dict[str, dict[str, str | None]] = {}
    for device in devices:
        others = [other for other in devices if other is not device]
        found = letters_from(topology, device.id, [other.id for other in others])
        rows[names[device.id]] = {
            names[other.id]: None if frozenset((device.name, other.name)) in hidden else found[other.id]
            for other in others
        }
    return rows


def is_small(topology: Topology) -> bool:
    """Whether a matrix is made of it."""
    return len(_ends(topology)) <= MOST_ENDS


def render(topology: Topology) -> str:
    """The matrix as text in nvidia-smi's layout: tabs, affinity columns where known, and the legends.

    GPUs that take no part are left out, as where CUDA_VISIBLE_DEVICES hides them. Reading it back gives the same
    letters, save XGMI and NET, which nvidia-smi does not know.
    """
    devices = _ends(topology)
    names = _names(devices)
    rows = matrix(topology)
    fields = {device.id: _affinities(topology, device) for device in devices}
    shown = [column for column in _COLUMNS if any(column in known for known in fields.values())]
    lines = ["\t".join(["", *map(printable, rows), *shown])]
    for device in devices:
        row = rows[names[device.id]]
        cells = [" X " if name == names[device.id] else row[name] or "N/A" for name in rows]
        is_nic = device.kind == "nic"
        known = ["" if is_nic else fields[device.id].get(column, "N/A") for column in shown]
        lines.append("\t".join([printable(names[device.id]), *cells, *known]))
    return "\n".join([*lines, "", *_legends(rows, devices, names)]) + "\n"


def _affinities(topology: Topology, device: Device) -> dict[str, str]:
    """The affinity columns of a GPU's row, as far as its topology knows them."""
    if device.kind == "nic":
        return {}
    found = {} if device.numa_node is None else {"NUMA Affinity": str(device.numa_node)}
    cpus = topology.of_kind("cpu")
    reached = letters_from(topology, device.id, [cpu.id for cpu in cpus])
    own = next((cpu for cpu in cpus if reached[cpu.id] in ("PIX", "PXB", "PHB")), None)
    if own is not None and own.cpu is not None and own.cpu.affinity is not None:
        found["CPU Affinity"] = own.cpu.affinity
    return found


def _legends(rows: dict[str, dict[str, str | None]], devices: list[Device], names: dict[str, str]) -> list[str]:
    used = {
        "N/A" if cell is None else "NV#" if cell.startswith("NV") else cell
        for row in rows.values()
        for cell in row.values()
    }
    lines = ["Legend:", "", *(f"  {word:4} = {meaning}" for word, meaning in _LEGEND if word in used | {"X"})]
    called = [(names[nic.id], nic.nic.os_name) for nic in devices if nic.nic is not None and nic.nic.os_name]
    if called:
        lines += ["", "NIC Legend:", "", *(f"  {printable(name)}: {printable(os_name)}" for name, os_name in called)]
    return lines


def _ends(topology: Topology) -> list[Device]:
    """The GPUs that take part, then NICs: however ranks are numbered, in the topology's order."""
    ranks = set(topology.gpu_ids)
    return [*(device for device in topology.of_kind(*RANK_KINDS) if device.id in ranks), *topology.of_kind("nic")]


def _names(devices: list[Device]) -> dict[str, str]:
    """The name of each device by its id: its label, or the id where several devices have that label."""
    count = Counter(device.name for device in devices)
    return {device.id: device.name if count[device.name] == 1 else device.id for device in devices}
