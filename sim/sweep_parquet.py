"""The rows of a sweep as a Parquet file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from sim.sweep_points import RESULTS
from sim.sweep_spec import AXES
from topo.errors import EnvironmentMissing

_ROWS_AT_ONCE = 10_000
_WHOLE = frozenset({"point", "nodes", "channels", "seed", "num_bytes", "num_ranks", "num_channels"})
_TRUTH = frozenset({"extrapolated"})


def require_pyarrow() -> None:
    """Raise EnvironmentMissing where no Parquet can be written."""
    from importlib.util import find_spec

    if find_spec("pyarrow") is None:
        raise EnvironmentMissing("Parquet needs pyarrow, which is not here: install toposcope[parquet] or use .jsonl")


def write_parquet(lines: Path, path: Path) -> None:
    """Writes the lines of a sweep as a Parquet file with one column per key, whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {name: _type_of(name, pa) for name in _columns()}
    schema = pa.schema(list(types.items()))
    temporary = path.with_name(f"{path.name}.part")
    with lines.open("rb") as stream, pq.ParquetWriter(temporary, schema) as writer:
        for rows in _blocks(stream):
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
    temporary.replace(path)


def _columns() -> tuple[str, ...]:
    axes = ("num_bytes" if name == "size" else name for name in AXES)
    return ("schema", "sweep", "point", *axes, *RESULTS)


def _type_of(name: str, pa: Any) -> Any:
    if name in _WHOLE:
        return pa.int64()
    if name in _TRUTH:
        return pa.bool_()
    return pa.float64() if name.endswith("_s") else pa.string()


def _blocks(stream: Iterable[bytes]) -> Iterator[list[dict[str, object]]]:
    import msgspec

    block: list[dict[str, object]] = []
    for line in stream:
        block.append(msgspec.json.decode(line))
        if len(block) == _ROWS_AT_ONCE:
            yield block
            block = []
    if block:
        yield block
