"""A machine and how collectives run on it, as one value that changes make another of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sim.planners.options import NVLS_ENABLE, P2P_DISABLE, Options
from topo.changes import Change, Late, Nodes, PeerToPeer, ServeFrom, SetVariable, naming
from topo.cluster import Cluster
from topo.edit import Machine, edit, node_of
from topo.errors import NameChoiceError, TopologyError, UnitError
from topo.parts import find_device
from topo.words import counted

if TYPE_CHECKING:
    from sim.predict import Simulator

_A_NODE = re.compile(r"node(\d{1,7})(?:/(\S+))?")
_A_RANK = re.compile(r"rank ?(\d{1,9})")


@dataclass(frozen=True, slots=True)
class Case:
    """What runs where: a machine, what is fixed of the plans, by which algorithms, and what starts how much later.

    `algorithm` is what `--algorithm` may say: a name, several, or `all`. `late` names parts as they are named in
    changes; which ranks they are follows from the machine.
    """

    machine: Machine
    options: Options = field(default_factory=Options)
    algorithm: str = "auto"
    late: tuple[tuple[str, float], ...] = ()

    def starts_s(self) -> tuple[float, ...]:
        """When each rank starts after the first; empty where all start together."""
        if not self.late:
            return ()
        starts_s = [0.0] * self.machine.num_ranks
        for part, late_s in self.late:
            for rank in ranks_of(self.machine, part):
                starts_s[rank] += late_s
        return tuple(starts_s)

    def simulator(
        self,
        profile: str = "auto",
        engine: str = "auto",
        planner: str = "auto",
        starts_s: Sequence[float] | None = None,
    ) -> Simulator:
        """What answers for this case under the profile of that name; `starts_s` stands in place of its own."""
        from sim.predict import Simulator
        from sim.profile import load_profile

        found = load_profile(profile, self.machine)
        starts = self.starts_s() if starts_s is None else starts_s
        return Simulator(self.machine, found, self.options, engine, planner, starts)


def changed(case: Case, changes: Iterable[tuple[str, Change]]) -> Case:
    """The case with all changes made in order, each beside its words.

    ChangeError names the words of the change that names nothing, contradicts the machine or makes no machine of it.
    """
    for words, change in changes:
        with naming(words):
            case = _changed(case, change)
    return case


def _changed(case: Case, change: Change) -> Case:
    match change:
        case Late(part, late_s):
            ranks_of(case.machine, part)
            return replace(case, late=(*case.late, (part, late_s)))
        case SetVariable(name, value):
            return _with_variable(case, name, value)
        case PeerToPeer(on):
            case = _with_variable(case, P2P_DISABLE, "0" if on else "1")
            return case if on else _with_variable(case, NVLS_ENABLE, "0")
        case ServeFrom(places):
            _require_servers(case.machine, places)
            return replace(case, algorithm="parameter-server", options=replace(case.options, server=places))
        case Nodes((count, *_)):
            from topo.cli_common import refuse_too_large

            machine = edit(case.machine, change)
            refuse_too_large(counted(count, "node"), count, machine.num_ranks)
            return replace(case, machine=machine)
        case _:
            return replace(case, machine=edit(case.machine, change))


def _require_servers(machine: Machine, places: str) -> None:
    """Raise an error in the words of a change, not of an option, where no server can stand on these places."""
    from sim.planners.topology import place_servers

    try:
        place_servers(machine, places)
    except UnitError:
        raise UnitError("a server is named twice: name each once") from None
    except TopologyError:
        raise TopologyError("no processor is shown here for a server on the host: name a GPU instead") from None


def _with_variable(case: Case, name: str, value: str) -> Case:
    """The variable set; what was set before gives way."""
    others = tuple(pair for pair in case.options.environment if pair[0] != name)
    return replace(case, options=replace(case.options, environment=(*others, (name, value))))


def ranks_of(machine: Machine, part: str) -> tuple[int, ...]:
    """The ranks that a part names: `GPU5` (of every node), `node3/GPU5`, `node3` (all of them) or `rank 29`.

    NameChoiceError or TopologyError where it names none.
    """
    rank = _A_RANK.fullmatch(part)
    if rank is not None:
        return _numbered(int(rank[1]), machine.num_ranks, "rank")
    count = machine.count if isinstance(machine, Cluster) else 1
    nodes: Iterable[int] = range(count)
    match, local = _A_NODE.fullmatch(part), part
    if match is not None:
        nodes, local = _numbered(int(match[1]), count, "node"), match[2] or ""
    size = node_of(machine).num_ranks
    places = (_place_of(machine, local),) if local else range(size)
    return tuple(node * size + place for node in nodes for place in places)


def _numbered(number: int, count: int, what: str) -> tuple[int]:
    if number >= count:
        raise TopologyError(f"there is no {what} {number}: {what}s are 0 to {count - 1}")
    return (number,)


def _place_of(machine: Machine, name: str) -> int:
    node = node_of(machine)
    try:
        device = find_device(node, name)
    except NameChoiceError:
        raise NameChoiceError("rank", name, [node.device(gpu_id).name for gpu_id in node.gpu_ids]) from None
    if device.id not in node.gpu_ids:
        raise TopologyError(f"{device.name} is no rank here: ranks are {', '.join(node.gpu_ids[:8])}")
    return node.gpu_ids.index(device.id)
