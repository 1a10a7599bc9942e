"""Points of a sweep, priced: one JSON line each, whoever prices them and however many beside."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sim.sweep_spec import SHARING
from topo.errors import TopoError, TopologyError
from topo.words import counted

if TYPE_CHECKING:
    from sim.predict import Simulator
    from sim.sweep_pieces import Piece, Point
    from sim.sweep_spec import Spec, Value
    from sim.workload import Workload

SCHEMA = "sweep/1"

RESULTS = (
    "num_ranks",
    "ran_algorithm",
    "ran_protocol",
    "num_channels",
    "ran_engine",
    "ran_profile",
    "instead_of",
    "time_s",
    "time_low_s",
    "time_high_s",
    "extrapolated",
    "algbw_bytes_per_s",
    "busbw_bytes_per_s",
    "wire_bytes_per_s",
    "limiting_link",
    "error",
)
"""What a line says beside its schema, the sweep's id, the point's number and its values; null: nothing is known."""

_PRICED = b'"error":null}\n'
"""How lines end whose point was priced: told without reading the line."""


def price_points(piece: Piece) -> list[bytes]:
    """The lines of its points, in their order; a point that fails has its error in its line.

    Points that share machine and plans should stand beside each other: what they share is made once.
    """
    lines, spec = [], piece.settings
    shared: tuple[object, ...] | None = None
    simulator: Simulator | TopoError | None = None
    for number, point in piece.points:
        key = tuple(point[name] for name in SHARING)
        if key != shared:
            shared, simulator = key, _simulator(spec, point)
        assert simulator is not None
        lines.append(_line(piece.sweep_id, number, point, _results(spec, simulator, point)))
    return lines


def problem_of(line: bytes) -> str | None:
    """Why the point of a line failed; None where it was priced."""
    import msgspec

    problem = None if line.endswith(_PRICED) else msgspec.json.decode(line).get("error")
    return str(problem) if problem else None


def failed_lines(piece: Piece, problem: str) -> list[bytes]:
    """The lines of points that nobody could price."""
    return [_line(piece.sweep_id, number, point, {"error": problem}) for number, point in piece.points]


def _line(sweep_id: str, number: int, point: Point, results: Mapping[str, Any]) -> bytes:
    import msgspec

    asked = {"num_bytes" if name == "size" else name: value for name, value in point.items()}
    row = {"schema": SCHEMA, "sweep": sweep_id, "point": number, **asked}
    return msgspec.json.encode(row | {name: results.get(name) for name in RESULTS}) + b"\n"


def _simulator(spec: Spec, point: Point) -> Simulator | TopoError:
    """What answers for all points that share this one's machine and plans, or why nothing can."""
    from sim.cases import Case, changed
    from sim.planners.options import Options
    from topo.change_verbs import named_changes
    from topo.cli_common import refuse_too_large
    from topo.load import load_topology

    nodes = _integer(point["nodes"]) or 1
    try:
        machine = load_topology(
            str(point["topology"]),
            nodes=nodes,
            gpus=_text(point["gpus"]),
            fabric=_text(point["fabric"]),
        )
        refuse_too_large(f"nodes = {nodes}", nodes, machine.num_ranks)
        pairs = [pair.partition("=") for pair in str(point["env"]).split()]
        environment = tuple((name, value) for name, _, value in pairs)
        options = Options(_integer(point["channels"]), None, None, _text(point["protocol"]), environment)
        case = Case(machine, options)
        if point["changes"]:
            case = changed(case, named_changes(str(point["changes"])))
        starts_s = spread_starts(spec, _integer(point["seed"]), case.machine.num_ranks, case.starts_s())
        return case.simulator(str(point["profile"]), str(point["engine"]), str(point["planner"]), starts_s)
    except TopoError as error:
        return error


def spread_starts(spec: Spec, seed: int | None, num_ranks: int, starts_s: Sequence[float] = ()) -> tuple[float, ...]:
    """The start of each rank: those given, plus what the seed's jitter and late ranks add; the same on any machine."""
    if seed is None or not num_ranks:
        return tuple(starts_s)
    if spec.late_ranks > num_ranks:
        raise TopologyError(
            f"late_ranks = {spec.late_ranks} of {counted(num_ranks, 'rank')}: at most {num_ranks} can be late"
        )
    draw = random.Random(seed)
    spread = [draw.random() * spec.jitter_s for _ in range(num_ranks)] if spec.jitter_s else [0.0] * num_ranks
    for rank in draw.sample(range(num_ranks), spec.late_ranks):
        spread[rank] += spec.late_by_s
    given = starts_s or [0.0] * num_ranks
    return tuple(own + more for own, more in zip(given, spread, strict=True))


def _results(spec: Spec, simulator: Simulator | TopoError, point: Point) -> dict[str, Any]:
    if isinstance(simulator, TopoError):
        return {"error": str(simulator)}
    try:
        return _priced(simulator, point)
    except TopoError as error:
        return {} if spec.every_algorithm and not _runs(simulator, point) else {"error": str(error)}
    except MemoryError:
        return {"error": "this needs more memory than there is: ask for fewer nodes, channels or chunks"}
    except Exception as error:
        return {"error": f"unexpected {type(error).__name__}: {error}"}


def _runs(simulator: Simulator, point: Point) -> bool:
    """Whether the machine can run the point's algorithm."""
    return point["algorithm"] in simulator.algorithms_for(_workload(point))


def _algorithm(simulator: Simulator, point: Point) -> str:
    """The algorithm of a point; servers, which a change asks for, serve no other than their own."""
    name = str(point["algorithm"])
    return "parameter-server" if simulator.options.server is not None and name == "auto" else name


def _workload(point: Point) -> Workload:
    from sim.workload import Workload

    return Workload(str(point["collective"]), _integer(point["size"]) or 0)


def _priced(simulator: Simulator, point: Point) -> dict[str, Any]:
    from sim.what_if import bounds_of, is_extrapolated

    workload = _workload(point)
    (algorithm,) = simulator.names(_algorithm(simulator, point), workload)
    run = simulator.run(workload, algorithm)
    bounds, limiting = bounds_of(run), run.limiting
    return {
        "num_ranks": run.num_ranks,
        "ran_algorithm": run.algorithm,
        "ran_protocol": run.protocol,
        "num_channels": run.num_channels,
        "ran_engine": run.engine,
        "ran_profile": run.profile,
        "instead_of": run.instead_of,
        "time_s": run.duration_s,
        "time_low_s": bounds.low_s if bounds else None,
        "time_high_s": bounds.high_s if bounds else None,
        "extrapolated": is_extrapolated(simulator, run),
        "algbw_bytes_per_s": run.algbw_bytes_per_s,
        "busbw_bytes_per_s": run.busbw_bytes_per_s,
        "wire_bytes_per_s": limiting.num_bytes / run.duration_s if limiting and run.duration_s > 0 else None,
        "limiting_link": limiting.link if limiting else None,
    }


def _integer(value: Value) -> int | None:
    return value if isinstance(value, int) else None


def _text(value: Value) -> str | None:
    return value if isinstance(value, str) and value else None
