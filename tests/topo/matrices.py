"""Matrices for tests: drawn at random from PCIe trees, and written in the ways that captures are found in."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.support import corpus_files

CAPTURES = [
    path.with_name(path.name.replace(".expected.json", ".txt"))
    for path in corpus_files("nvidia-smi/*.expected.json")
    if json.loads(path.read_text(encoding="utf-8"))["kind"] in ("topo_m", "topo_mp")
]
"""All real captures of a path matrix."""

Letters = Mapping[tuple[str, str], str]


@dataclass(frozen=True)
class Matrix:
    """Names in header order, the letters of every ordered pair, and a NUMA node and CPU list per GPU (or none)."""

    names: tuple[str, ...]
    letters: Letters
    numa: Mapping[str, int]

    def rows(self) -> list[list[str]]:
        """Label and cells of each row."""
        return [
            [one, *(" X " if one == other else self.letters[one, other] for other in self.names)] for one in self.names
        ]


def letters_of(places: Mapping[str, tuple[int, int, int, int]], lanes: Mapping[tuple[str, str], int]) -> Letters:
    """The letters of devices at (NUMA node, host bridge, top switch, leaf switch); lanes make NV#."""
    levels = ("SYS", "NODE", "PHB", "PXB")

    def between(one: str, other: str) -> str:
        count = lanes.get((one, other), lanes.get((other, one)))
        if count:
            return f"NV{count}"
        return next((name for name, a, b in zip(levels, places[one], places[other], strict=True) if a != b), "PIX")

    return {(one, other): between(one, other) for one in places for other in places if one != other}


@st.composite
def matrices(draw: st.DrawFn, max_gpus: int = 8, max_nics: int = 5) -> Matrix:
    """A machine: GPUs and NICs anywhere in a PCIe tree, and NVLinks between none, some or all GPUs."""
    num_gpus = draw(st.integers(1, max_gpus))
    num_nics = draw(st.integers(0, max_nics))
    nic = draw(st.sampled_from(["NIC{}", "mlx5_{}", "bnxt_re{}"]))
    gpus = [f"GPU{number}" for number in range(num_gpus)]
    names = (*gpus, *(nic.format(number) for number in range(num_nics)))
    place = st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 1), st.integers(0, 2))
    places = {name: draw(place) for name in names}
    pairs = [(one, other) for number, one in enumerate(gpus) for other in gpus[number + 1 :]]
    kind = draw(st.sampled_from(["none", "all", "some"]))
    count = draw(st.sampled_from([1, 2, 4, 12, 18]))
    lanes = {
        pair: count if kind == "all" else draw(st.integers(1, 4))
        for pair in pairs
        if kind == "all" or (kind == "some" and draw(st.booleans()))
    }
    return Matrix(names, letters_of(places, lanes), {gpu: places[gpu][0] for gpu in gpus})


def _lines(matrix: Matrix, *, columns: int) -> list[list[str]]:
    titles = ["CPU Affinity", "NUMA Affinity", "", "GPU NUMA ID"][: columns + (columns == 3)]
    lines = [["", *matrix.names, *(title for title in titles if title)]]
    for row in matrix.rows():
        node = matrix.numa.get(row[0])
        values = [] if node is None else [f"{node * 8}-{node * 8 + 7}", str(node), "", "N/A"]
        lines.append([*row, *values[: len(titles)]])
    return lines


def tabbed(matrix: Matrix, columns: int = 3) -> str:
    """As the driver prints it."""
    return "\n".join("\t".join(line) for line in _lines(matrix, columns=columns)) + "\n\nLegend:\n\n  X    = Self\n"


def expanded(matrix: Matrix, columns: int = 3) -> str:
    """As a terminal shows it: tabs of eight turned into blanks."""
    return tabbed(matrix, columns).expandtabs()


def narrow(matrix: Matrix) -> str:
    """Retyped with single blanks, no affinities."""
    return "\n".join(" ".join(cell.strip() for cell in line) for line in _lines(matrix, columns=0))


def markdown(matrix: Matrix) -> str:
    """A markdown table with the affinity columns first."""
    rows = [["CPU Affinity", "NUMA Affinity", "", *matrix.names], ["---"] * (len(matrix.names) + 3)]
    for row in matrix.rows():
        node = matrix.numa.get(row[0])
        rows.append([*(["", ""] if node is None else [f"{node * 8}-{node * 8 + 7}", str(node)]), *row])
    return "\n".join("| " + " | ".join(cell.strip() for cell in row) + " |" for row in rows)


def one_line(matrix: Matrix) -> str:
    """All white space collapsed, as some web pages store it."""
    return " ".join(tabbed(matrix).split())


def without_leading_tab(matrix: Matrix) -> str:
    """As tools strip it: the header begins like a row."""
    return tabbed(matrix).lstrip("\t")


def underlined(matrix: Matrix) -> str:
    """With the terminal's underline around the header, and a prompt before it."""
    first, _, rest = tabbed(matrix).partition("\n")
    return f"user@host:~$ nvidia-smi topo -m\n\t\x1b[4m{first.lstrip()}\x1b[0m\n{rest}"


def commented(matrix: Matrix) -> str:
    """Every line behind a comment sign."""
    return "\n".join("# " + line for line in tabbed(matrix).splitlines())


def windows(matrix: Matrix) -> str:
    """Byte order mark and CRLF."""
    return "\ufeff" + tabbed(matrix).replace("\n", "\r\n")


def logged(matrix: Matrix) -> str:
    """A time stamp and a rank before each line."""
    return "\n".join(f"2026-01-02T03:04:05Z 0: {line}" for line in tabbed(matrix).splitlines())


def wrapped(matrix: Matrix) -> str:
    """Each line broken after its fifth field, as a narrow terminal does."""
    lines = []
    for line in _lines(matrix, columns=0):
        lines += ["\t".join(line[:5]), *(["\t".join(line[5:])] if line[5:] else [])]
    return "\n".join(lines)


STYLES: tuple[Callable[[Matrix], str], ...] = (
    tabbed,
    expanded,
    narrow,
    markdown,
    one_line,
    without_leading_tab,
    underlined,
    commented,
    windows,
    logged,
    wrapped,
)
