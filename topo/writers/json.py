"""A topology as the JSON document `topology/1`."""

from __future__ import annotations

from topo import jsonio
from topo.readers.topology_json import SCHEMA
from topo.topology import Topology


def dumps(topology: Topology) -> str:
    """The document: all fields of the topology, and `matrix`, its path letters computed from the graph.

    Reading it back gives an equal topology; `matrix` and `num_ranks` are derived and ignored there. Of machines too
    large for a matrix it is null.
    """
    from topo.writers.matrix import is_small, matrix

    letters = matrix(topology) if is_small(topology) else None
    return jsonio.encode(topology, SCHEMA, derived={"num_ranks": topology.num_ranks, "matrix": letters})
