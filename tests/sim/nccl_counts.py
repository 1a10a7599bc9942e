"""Counts how far the reference runs are reproduced: `python -m tests.sim.nccl_counts` prints docs/nccl.md's table."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator

from tests.sim.nccl_support import ALGORITHMS, COLLECTIVES, GIGA, PROTOCOLS, REFERENCES, Reference, plan_of
from tests.sim.test_nccl_graphs import fields

TOLERANCE = 1e-3
TITLES = {
    "runs": "reference runs, of which everything below agrees",
    "graphs": "searched graphs in every field, channel by channel",
    "rings": "rings, rank by rank",
    "trees": "trees, parent and children of every rank",
    "cells": "latencies and bandwidths of the tuning tables",
    "choices": "choices of algorithm, protocol and channels, with their estimate",
    "splits": "channel and chunk splits",
}


def close(ours: float, theirs: float) -> bool:
    return abs(ours - theirs) <= TOLERANCE * max(abs(theirs), 1e-9)


def comparisons(reference: Reference) -> Iterator[tuple[str, bool]]:
    """What is compared, and whether it agrees, one by one."""
    result, plan = reference.result, plan_of(reference)
    for name, expected in result["graphs"].items():
        if expected["nChannels"]:
            wanted = {key: value for key, value in expected.items() if key != "id"}
            yield "graphs", wanted == fields(plan.wiring.domain_graphs[0][name])
    for ring, wanted in zip(plan.wiring.rings, result["rings"], strict=False):
        yield "rings", list(ring) == wanted
    for tree, expected in zip(plan.wiring.trees, result["trees"], strict=False):
        down = [[*below, *[-1] * (3 - len(below))] for below in tree.down]
        yield "trees", {"up": list(tree.up), "down": down} == {key: expected[key] for key in ("up", "down")}
    yield from _tuning(reference)


def _tuning(reference: Reference) -> Iterator[tuple[str, bool]]:
    result, plan = reference.result, plan_of(reference)
    for function, algorithms in result.get("tuner", {}).items():
        for algorithm, expected in algorithms.items():
            for index, protocol in enumerate(PROTOCOLS.values()):
                cost = plan.table.get((COLLECTIVES[function], ALGORITHMS[algorithm], protocol))
                latency, bandwidth = (cost.latency_s, cost.bytes_per_s) if cost else (0.0, 0.0)
                yield "cells", close(latency * 1e6, expected["lat_us"][index])
                yield "cells", close(bandwidth / GIGA, expected["algbw_GBs"][index])
    for function, rows in result["ops"].items():
        for row in rows:
            choice = plan.choose(COLLECTIVES[function], row["bytes"])
            taken = (ALGORITHMS[row["algo"]], PROTOCOLS[row["proto"]], row["nMaxChannels"])
            right = (choice.algorithm, choice.protocol, choice.num_channels) == taken
            yield "choices", right and close(choice.estimate_s * 1e6, row["time_us"])
            if "channels" in row:
                parts = (choice.split.first, choice.split.middle, choice.split.last)
                counts = [part.num_elements if part else 0 for part in parts]
                chunks = [part.chunk_bytes if part else 0 for part in parts]
                yield "splits", (counts, chunks) == (row["countLoMidHi"], row["chunkLoMidHi"])


def table() -> str:
    """One line per kind of thing: how many were compared, how many agree."""
    compared: Counter[str] = Counter()
    agree: Counter[str] = Counter()
    for reference in REFERENCES:
        whole = True
        for what, right in comparisons(reference):
            compared[what] += 1
            agree[what] += right
            whole = whole and right
        compared["runs"] += 1
        agree["runs"] += whole
    rows = ["| compared | agree | of |", "|---|---:|---:|"]
    rows += [f"| {title} | {agree[what]:,} | {compared[what]:,} |" for what, title in TITLES.items()]
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table())
