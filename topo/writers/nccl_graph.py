"""NCCL's graph XML (NCCL_GRAPH_FILE): the channels of each search, by device numbers, as NCCL 2.21 writes it."""

from __future__ import annotations

from topo.readers.nccl_graph import PATTERNS, SYSTEM_SHIFT, VERSION, Graph, GraphFile, GraphPart

_NUMBERS = {name: number for number, name in PATTERNS.items()}


def render(file: GraphFile) -> str:
    """The XML of all graphs in their order, ending in a newline; the reader gives the same graphs back."""
    lines = [f'<graphs version="{VERSION}">']
    for graph in file.graphs:
        lines += _graph(graph)
    return "\n".join([*lines, "</graphs>"]) + "\n"


def _graph(graph: Graph) -> list[str]:
    said = {
        "id": graph.id,
        "pattern": _NUMBERS[graph.pattern],
        "crossnic": graph.cross_nic,
        "nchannels": graph.num_channels,
        "speedintra": _decimal(graph.bandwidth_intra_bytes_per_s / 1e9),
        "speedinter": _decimal(graph.bandwidth_inter_bytes_per_s / 1e9),
        "latencyinter": None if graph.latency_inter_s is None else _decimal(graph.latency_inter_s * 1e6),
        "typeintra": graph.type_intra,
        "typeinter": graph.type_inter,
        "samechannels": int(graph.same_channels),
    }
    words = " ".join(f'{name}="{value}"' for name, value in said.items() if value is not None)
    if not graph.channels:
        return [f"  <graph {words}/>"]
    lines = [f"  <graph {words}>"]
    for channel in graph.channels:
        lines += ["    <channel>", *(f"      {_part(part)}" for part in channel.parts), "    </channel>"]
    return [*lines, "  </graph>"]


def _part(part: GraphPart) -> str:
    number = part.system << SYSTEM_SHIFT | part.number
    written = str(number) if part.by == "rank" else f"0x{number:x}"
    return f'<{part.kind} {part.by}="{written}"/>'


def _decimal(value: float) -> str:
    """The number without exponent and without digits that say nothing; NCCL keeps three behind the point."""
    return f"{value:.6f}".rstrip("0").rstrip(".")
