"""Whole-process benchmarks of predictions: CPU seconds and peak memory, as docs/performance.md shows them.

Run by `make bench`. Each case runs as a process of its own, several times; the median and the least of its user and
system time and its largest resident set are kept. Writes JSON to the file named first, and the table to the second.
"""

from __future__ import annotations

import compileall
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.bench import inside
from tests.bench.marks import put_between
from tests.source import PACKAGES
from tests.support import ROOT

STAR = "switch:{},bandwidth=200GB/s,latency=1us"


@dataclass(frozen=True)
class Case:
    """One command, and the closed form of its last row's time where there is one."""

    name: str
    arguments: tuple[str, ...]
    expected_us: float | None = None
    command: str = "simulate"


def ring_us(num_ranks: int) -> float:
    """2 (n - 1) (latency + S / (n bandwidth)) for 1 GiB."""
    return 2 * (num_ranks - 1) * (1 + 2**30 / num_ranks / 200e9 * 1e6)


def on_star(num_ranks: int, *options: str) -> tuple[str, ...]:
    """A simulation of 1 GiB on a star of so many ranks."""
    return (STAR.format(num_ranks), "--size", "1G", "--profile", "ideal", *options)


CASES = (
    Case("ring, 1,024 ranks, event", on_star(1024, "--algorithm", "ring", "--engine", "event"), ring_us(1024)),
    Case("ring, 1,024 ranks, auto", on_star(1024, "--algorithm", "ring"), ring_us(1024)),
    Case("ring, 4,096 ranks, auto", on_star(4096, "--algorithm", "ring"), ring_us(4096)),
    Case("ring, 65,536 ranks, auto", on_star(65536, "--algorithm", "ring"), ring_us(65536)),
    Case(
        "tree, 1,024 ranks, 128 chunks, event",
        on_star(1024, "--algorithm", "tree", "--chunks", "128", "--engine", "event"),
    ),
    Case("tree, 1,024 ranks, 128 chunks, auto", on_star(1024, "--algorithm", "tree", "--chunks", "128")),
    Case(
        "parameter server, 1,024 ranks, auto",
        on_star(1024, "--algorithm", "parameter-server"),
        2 * (1023 * 2**30 / 200e9 * 1e6 + 1),
    ),
    Case(
        "all-to-all, 1,024 ranks, auto",
        on_star(1024, "--collective", "all_to_all"),
        1023 * 2**30 / 1024 / 200e9 * 1e6 + 1,
    ),
    Case("dgx-h100, one size", ("dgx-h100", "--size", "1G")),
    Case("64 x dgx-h100, ring, one size", ("dgx-h100", "--nodes", "64", "--algorithm", "ring", "--size", "1G")),
    Case("2,048 x dgx-h100, 31 sizes, auto", ("dgx-h100", "--nodes", "2048", "-b", "8", "-e", "8G", "-f", "2")),
    Case("16,384 x dgx-h100, one size, auto", ("dgx-h100", "--nodes", "16384", "--size", "1G")),
    Case(
        "the same, and with one NIC of one node at half its rate",
        ("dgx-h100", "--nodes", "16384", "--size", "1G", "--change", "scale node3/mlx5_0 bandwidth x0.5"),
        command="what-if",
    ),
    Case(
        "2,048 x dgx-h100, ring, one size, steady",
        ("dgx-h100", "--nodes", "2048", "--algorithm", "ring", "--size", "1G", "--engine", "steady"),
    ),
)
START = Case("start: two ranks", on_star(2, "--algorithm", "ring", "--engine", "steady"))
GROWTH = tuple(
    Case(f"ring, {num_ranks:,} ranks, auto", on_star(num_ranks, "--algorithm", "ring"))
    for num_ranks in (4096, 8192, 16384, 32768, 65536)
)
"""What the fit of cost over ranks is made of: `START`, by the same engine, is what a process costs before any rank."""


def measure(case: Case, runs: int) -> dict[str, object]:
    """Median CPU seconds, largest peak memory and the simulated time of one case."""
    command = [str(Path(sys.executable).parent / "topo"), case.command, *case.arguments, "--format", "json"]
    cpu_s, peak_bytes, stdout = [], 0, ""
    for _ in range(runs):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            stdout = process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        cpu_s.append(usage.ru_utime + usage.ru_stime)
        peak_bytes = max(peak_bytes, usage.ru_maxrss * 1024)
    row = json.loads(stdout)["rows"][-1]
    return {
        "name": case.name,
        "command": shlex.join(["topo", case.command, *case.arguments]),
        "cpu_s": statistics.median(cpu_s),
        "least_cpu_s": min(cpu_s),
        "peak_bytes": peak_bytes,
        "engine": row["engine"],
        "time_s": row["time_s"],
        "expected_s": None if case.expected_us is None else case.expected_us / 1e6,
    }


def table(rows: list[dict[str, object]]) -> str:
    """The rows as Markdown."""
    lines = ["| work | engine | simulated us | closed form us | CPU s | MiB |", "|---|---|---:|---:|---:|---:|"]
    for row in rows:
        expected = row["expected_s"]
        closed = "" if expected is None else f"{float(str(expected)) * 1e6:,.2f}"
        lines.append(
            f"| {row['name']} | {row['engine']} | {float(str(row['time_s'])) * 1e6:,.2f} | {closed} "
            f"| {float(str(row['cpu_s'])):.2f} | {int(str(row['peak_bytes'])) / 2**20:.0f} |"
        )
    return "\n".join(lines)


def growth(runs: int) -> tuple[str, list[dict[str, object]]]:
    """How CPU and memory beyond the start grow with the ranks: a sentence with the fitted exponents, and the rows.

    Of each case the least of its runs counts: what else happens on a machine only adds, and a start that was disturbed
    would bend the whole line.
    """
    before, rows, after = measure(START, runs), [measure(case, runs) for case in GROWTH], measure(START, runs)
    start = min(before, after, key=lambda row: float(str(row["least_cpu_s"])))
    ranks = [int(case.arguments[0].split(":")[1].split(",")[0]) for case in GROWTH]

    def exponent(key: str) -> float:
        beyond = [math.log(max(float(str(row[key])) - float(str(start[key])), 1e-9)) for row in rows]
        slope: float = statistics.linear_regression([math.log(count) for count in ranks], beyond).slope
        return slope

    each = (float(str(rows[-1]["peak_bytes"])) - float(str(start["peak_bytes"]))) / ranks[-1]
    return (
        f"Ring, auto, {ranks[0]:,} to {ranks[-1]:,} ranks, beyond what two ranks cost: CPU grows with the "
        f"ranks to the power {exponent('least_cpu_s'):.2f}, memory to the power {exponent('peak_bytes'):.2f} "
        f"({each:.0f} bytes a rank).\n",
        [start, *rows],
    )


def main(target: Path, document: Path, runs: int = 3) -> None:
    """Measure all cases, write the JSON, and put the table between the marks of the document."""
    for package in PACKAGES:
        # As pip does when it installs: under PYTHONDONTWRITEBYTECODE each run would compile what was edited last.
        compileall.compile_dir(ROOT / package, quiet=1)
    rows = [measure(case, runs) for case in CASES]
    sentence, grown = growth(runs)
    within = inside.measure()
    found = {"schema": "bench/1", "runs": runs, "rows": rows, "growth": grown, "inside": within}
    target.write_text(json.dumps(found, indent=2) + "\n")
    text = f"{table(rows)}\n\n{sentence}\n{inside.table(within)}"
    put_between(document, "bench", text)
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
