"""Machines beside what becomes of them: the losses that are expected, in both formats, and what is refused."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sim.cases import Case, changed, ranks_of
from sim.planners.options import P2P_DISABLE, Options
from sim.sweep_spec import AXES, parse_spec
from sim.what_if import BASELINE, Outcome, bounds_of, made_ready, outcomes, scalings, variants
from sim.what_if_report import EXTRAPOLATED, percent, what_if_table
from sim.workload import Workload
from tests.topo.machine_texts import all_to_all, matrix
from topo.change_verbs import named_changes, parse_changes
from topo.changes import Nodes
from topo.cli import main
from topo.cluster import Cluster
from topo.errors import ChangeError
from topo.presets import preset, synthetic

GIB = 2**30
STAR = "switch:8,bandwidth=200GB/s,latency=1us"


def priced(
    name: str,
    *texts: str,
    num_bytes: int = GIB,
    cumulative: bool = False,
    profile: str = "nccl-constants",
    algorithm: str = "auto",
) -> list[Outcome]:
    base = Case(synthetic(name) if ":" in name else preset(name), algorithm=algorithm)
    cases = variants(base, texts, cumulative=cumulative)
    workload = Workload("all_reduce", num_bytes)
    return list(outcomes(made_ready(cases, workload, profile, "auto", "auto"), [workload]))


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["what-if", *arguments], prog_name="topo")


def document(*arguments: str) -> dict[str, Any]:
    result = invoke(*arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_a_broken_nvlink_makes_new_rings_and_costs_two_channels_of_twelve() -> None:
    _, row = priced("dgx1-v100", "break GPU0-GPU1")
    assert (row.baseline.num_channels, row.prediction.num_channels) == (12, 10)
    assert row.num_new_rings
    assert row.delta == pytest.approx(12 / 10 - 1, abs=0.005)
    assert row.prediction.limiting is not None
    assert row.prediction.limiting.link != "GPU0->GPU1"


def test_a_lost_lane_is_the_new_limit() -> None:
    _, row = priced("dgx-a100", "lanes GPU3-NVS0=11")
    assert row.prediction.limiting is not None
    assert "GPU3" in row.prediction.limiting.link
    assert row.delta == pytest.approx(12 / 11 - 1, abs=0.01)


@pytest.mark.parametrize("text", ["break nvlink", "p2p off"])
@pytest.mark.parametrize("name", ["dgx1-v100", "dgx-a100", "dgx-h100"])
def test_a_box_without_its_nvlinks_is_limited_by_pcie_or_processors(name: str, text: str) -> None:
    _, row = priced(name, text)
    assert row.delta is not None
    assert row.delta > 5
    assert row.prediction.limiting is not None
    assert "numa" in row.prediction.limiting.link
    assert row.prediction.num_channels < row.baseline.num_channels


def test_a_late_rank_costs_its_delay_on_a_ring() -> None:
    _, row = priced("dgx1-v100", "late GPU5 by 2ms")
    assert row.prediction.duration_s == pytest.approx(row.baseline.duration_s + 2e-3)


@pytest.mark.parametrize("text", ["late GPU5 by 2ms", "server GPU0"])
def test_like_is_compared_with_like(text: str) -> None:
    """What only a schedule can show stands beside the baseline's schedule, whatever times the baseline itself."""
    _, row = priced("dgx-h100", text, profile="auto")
    assert row.baseline.engine == row.prediction.engine


def test_a_server_stands_where_it_is_put() -> None:
    _, host, gpu = priced(STAR, "server GPU0", "server GPU0,GPU1")
    assert {host.prediction.algorithm, gpu.prediction.algorithm} == {"parameter-server"}
    assert gpu.prediction.duration_s < host.prediction.duration_s


def test_variables_reach_the_planner() -> None:
    _, row = priced("dgx-h100", "env NCCL_ALGO=Tree")
    assert row.prediction.algorithm == "tree"


def test_separate_changes_do_not_see_each_other_and_cumulative_ones_do() -> None:
    texts = ["scale nvlink bandwidth x0.5", "scale nvlink bandwidth x0.5"]
    separate = priced("dgx1-v100", *texts)
    upon_each_other = priced("dgx1-v100", *texts, cumulative=True)
    assert separate[1].prediction == separate[2].prediction == upon_each_other[1].prediction
    assert upon_each_other[2].prediction.duration_s > 1.9 * upon_each_other[1].prediction.duration_s
    assert upon_each_other[2].variant.label == "then scale nvlink bandwidth x0.5"


@pytest.mark.parametrize("name", ["dgx1-v100", STAR])
def test_what_changes_nothing_costs_nothing(name: str) -> None:
    kind = "network" if ":" in name else "nvlink"
    _, row = priced(name, f"scale {kind} bandwidth x1")
    assert row.delta == 0
    assert row.num_new_rings == 0
    assert percent(row.delta) == "0 %"


def test_node_counts_are_a_sweep_with_its_efficiency() -> None:
    rows = priced("dgx-h100", "nodes 2,4; fabric fat-tree:4", num_bytes=2**20)
    assert [row.variant.label for row in rows] == [
        BASELINE,
        "nodes 2; fabric fat-tree:4",
        "nodes 4; fabric fat-tree:4",
    ]
    assert rows[1].efficiency == 1
    assert rows[0].efficiency is None
    (found,) = scalings(rows)
    assert (found.first_nodes, found.holds_up_to_nodes) == (2, 4 if (rows[2].efficiency or 0) >= 0.9 else 2)


def test_scaling_that_breaks_names_the_link() -> None:
    rows = priced("dgx-h100", "nodes 1,2", num_bytes=2**16)
    (found,) = scalings(rows)
    assert (found.holds_up_to_nodes, found.breaks_at_nodes) == (1, 2)
    assert found.limiting_link
    assert found.efficiency is not None
    assert found.efficiency < 0.9


def test_ranges_are_shown_where_the_model_gives_them() -> None:
    @dataclass
    class Ranged:
        low_s: float
        duration_s: float
        high_s: float

    base, row = priced("dgx1-v100", "break GPU0-GPU1")
    assert bounds_of(row.prediction) is None
    assert row.delta_bounds is None
    for own, other, expected in (
        ((1.0, 1.0, 1.0), (2.0, 2.0, 2.0), (-0.5, -0.5)),
        ((1.0, 2.0, 4.0), (1.0, 1.0, 1.0), (0.0, 3.0)),
        ((1.0, 2.0, 4.0), (0.5, 1.0, 2.0), (2 * 2 ** -(2**0.5) - 1, 2 * 2 ** (2**0.5) - 1)),
    ):
        ranged = replace(row, prediction=Ranged(*own), baseline=Ranged(*other))  # type: ignore[arg-type]
        assert ranged.delta_bounds == pytest.approx(expected)
    alone, same = priced("dgx1-v100", "nodes 1", profile="auto")
    assert (alone.delta_bounds, same.delta_bounds) == (None, (0, 0))
    assert "remark" not in what_if_table([base, row]).csv()
    assert EXTRAPOLATED in what_if_table([base, replace(row, extrapolated=True)]).csv()


@pytest.mark.parametrize(
    ("part", "ranks"),
    [("GPU5", (5, 13)), ("node1/GPU5", (13,)), ("node1", tuple(range(8, 16))), ("rank 9", (9,)), ("gpu0", (0, 8))],
)
def test_ranks_are_named_as_parts_are(part: str, ranks: tuple[int, ...]) -> None:
    assert ranks_of(Cluster(preset("dgx-h100"), 2), part) == ranks


def test_each_change_is_priced_by_each_algorithm_and_the_fastest_is_named() -> None:
    rows = priced("dgx-h100", "p2p off", "p2p off; server GPU0", algorithm="ring,tree", profile="auto")
    assert [(row.variant.label, row.asked) for row in rows] == [
        (BASELINE, "ring"),
        (BASELINE, "tree"),
        ("p2p off", "ring"),
        ("p2p off", "tree"),
        ("p2p off; server GPU0", "parameter-server"),
    ]
    for label in (BASELINE, "p2p off"):
        group = [row for row in rows if row.variant.label == label]
        (best,) = (row for row in group if row.fastest)
        assert best.prediction.duration_s == min(row.prediction.duration_s for row in group)
    assert all(row.baseline.algorithm == row.asked for row in rows[2:4])
    server, own = rows[4], min(rows[:2], key=lambda row: row.prediction.duration_s)
    assert (server.baseline.algorithm, server.by_schedule) == (own.asked, True)
    assert f"beside the baseline's {own.asked} by schedule" in what_if_table(rows).csv()


def test_what_kernels_time_without_a_schedule_is_a_row_too() -> None:
    changes = ("env NCCL_COLLNET_ENABLE=1; nodes 2",)
    rows = priced("dgx-h100-sharp", *changes, num_bytes=2**20, algorithm="all", profile="auto")
    assert "collnet-chain" in {row.asked for row in rows if row.variant.label != BASELINE}


def test_all_are_those_that_each_machine_can_run() -> None:
    rows = priced("dgx-h100", "p2p off", "nodes 2", num_bytes=2**20, algorithm="all", profile="auto")
    named = {label: {row.asked for row in rows if row.variant.label == label} for label in (BASELINE, "p2p off")}
    assert named[BASELINE] - named["p2p off"] == {"nvls"}
    (mixed,) = (row for row in rows if row.asked == "nvls-tree")
    fastest = min((row for row in rows if row.variant.label == BASELINE), key=lambda row: row.prediction.duration_s)
    assert mixed.baseline.algorithm == fastest.asked


def test_sweeps_over_nodes_break_for_each_algorithm() -> None:
    rows = priced("dgx-h100", "nodes 1,2", num_bytes=2**16, algorithm="ring,tree")
    assert [found.algorithm for found in scalings(rows)] == ["ring", "tree"]
    assert [row.efficiency for row in rows if row.variant.label == "nodes 1"] == [1, 1]


def test_what_runs_on_one_count_alone_scales_nowhere() -> None:
    rows = priced("dgx-h100", "nodes 1,2", num_bytes=2**20, algorithm="all", profile="auto")
    assert {"ring", "nvls", "nvls-tree"} <= {row.asked for row in rows}
    assert not {"nvls", "nvls-tree"} & {found.algorithm for found in scalings(rows)}


def test_the_fastest_is_named_in_a_sentence_and_in_the_document() -> None:
    arguments = ("dgx-h100", "--size", "1G", "--change", "p2p off", "--algorithm", "all")
    assert "1 GiB: fastest is nvls (" in invoke(*arguments).stderr
    fastest = [row for row in document(*arguments)["rows"] if row["fastest"]]
    assert [row["change"] for row in fastest] == [BASELINE, "p2p off"]
    assert fastest[0]["algorithm"] == "nvls"


@pytest.mark.parametrize("machine", [["dgx-h100", "--gpus", "0,1"], ["dgx-h100"], ["dgx-a100", "--nodes", "2"]])
def test_the_fastest_is_one_of_those_that_are_timed_alike(machine: list[str]) -> None:
    """A schedule is timed by its links alone, which is no time to set beside that of a kernel of NCCL's."""
    arguments = (*machine, "--size", "64K,1G", "--change", "scale nvlink bandwidth x0.9", "--algorithm", "all")
    rows = document(*arguments)["rows"]
    said = invoke(*arguments).stderr
    for size in {row["num_bytes"] for row in rows}:
        for change in {row["change"] for row in rows}:
            case = [row for row in rows if (row["change"], row["num_bytes"]) == (change, size)]
            (best,) = (row for row in case if row["fastest"])
            kernels = [row["time_s"] for row in case if row["engine"] == "kernels"]
            assert (best["engine"], best["time_s"]) == ("kernels", min(kernels))
            quickest = min(case, key=lambda row: row["time_s"])
            if change == BASELINE and quickest["engine"] != "kernels":
                assert re.search(rf"{quickest['algorithm']} \([^)]*\) is timed by its links alone", said)
    assert any(row["engine"] != "kernels" for row in rows)


def test_schedules_alone_are_timed_alike() -> None:
    arguments = ("switch:4,bandwidth=25GB/s", "--size", "1G", "--change", "late rank 1 by 1ms", "--algorithm", "all")
    result = invoke(*arguments)
    assert "fastest is" in result.stderr
    assert "links alone" not in result.stderr


def test_what_is_late_adds_up() -> None:
    case = changed(Case(Cluster(preset("dgx-h100"), 2)), named_changes("late GPU5 by 2ms; late node1 by 1ms"))
    assert case.starts_s() == pytest.approx([0.002 * (rank % 8 == 5) + 0.001 * (rank > 7) for rank in range(16)])


def test_peer_to_peer_is_a_variable_that_gives_way() -> None:
    case = Case(preset("dgx-h100"), Options(environment=((P2P_DISABLE, "1"), ("NCCL_ALGO", "Ring"))))
    assert changed(case, named_changes("p2p on")).options.environment == (("NCCL_ALGO", "Ring"), (P2P_DISABLE, "0"))


REFUSED = [
    (["break GPU9-NVS0"], "did you mean 'GPU0'"),
    (["break GPU0-GPU1"], "change 'break GPU0-GPU1': no link joins GPU0 and GPU1"),
    (["p2p off; late GPU9 by 2ms"], "change 'late GPU9 by 2ms': unknown rank 'GPU9'"),
    (["late NVS0 by 2ms"], "is no rank here"),
    (["late node1/GPU0 by 2ms"], "there is no node 1"),
    (["late rank 8 by 2ms"], "there is no rank 8"),
    (["brake nvlink"], "did you mean 'break'"),
    (["break nvlink", "lanes nvlink=3"], "lanes of nvlink is changed in two ways", "--cumulative"),
    (["nodes 2,4", "fabric rail"], "put `nodes` with several counts last", "--cumulative"),
    (["fabric rail"], "add --nodes 2"),
    (["nodes 1000000"], "change 'nodes 1000000': 1,000,000 nodes: 8,000,000 ranks need about"),
    (["nodes 2,1000000"], "nodes fit"),
    (["late GPU0 by 1e308s"], "change 'late GPU0 by 1e308s': 1e308s: expected at most a day"),
    (["env NCCL_ALGO=foo"], "change 'env NCCL_ALGO=foo': "),
    (["server GPU0,GPU0"], "change 'server GPU0,GPU0': a server is named twice"),
    (["server GPU0,0"], "change 'server GPU0,0': a server is named twice"),
    (["p2p off"], "change 'p2p off': ", "--algorithm", "ring,nvls"),
    (["p2p off"], "unknown algorithm 'rign': did you mean 'ring'", "--algorithm", "rign,tree"),
    (["p2p off"], "direct runs all_to_all, sendrecv, not all_reduce", "--algorithm", "direct"),
]


@pytest.mark.parametrize(("texts", "says", "more"), [(row[0], row[1], row[2:]) for row in REFUSED])
def test_a_change_that_cannot_be_is_refused_in_one_sentence(texts: list[str], says: str, more: tuple[str, ...]) -> None:
    result = invoke("dgx-h100", *(word for text in texts for word in ("--change", text)), *more)
    assert result.exit_code == 2
    assert says in " ".join(result.output.split())
    assert result.stdout == ""


def test_the_document_holds_what_the_table_shows() -> None:
    found = document("dgx1-v100", "--size", "1G", "--change", "break GPU0-GPU1")
    assert found["schema"] == "what-if/1"
    base, row = found["rows"]
    assert row["time_change"] == pytest.approx(row["time_s"] / base["time_s"] - 1)
    assert base["time_change"] is None
    assert len(row["rings"]) == row["num_channels"]
    assert row["limiting_link"] != base["limiting_link"]
    assert {"time_low_s", "time_high_s", "extrapolated", "efficiency", "num_new_rings"} <= row.keys()


def test_sweeps_over_nodes_are_in_the_document_and_in_a_sentence() -> None:
    arguments = ("dgx-h100", "--size", "64K", "--change", "nodes 1,2")
    found = document(*arguments)
    assert found["scaling"][0]["breaks_at_nodes"] == 2
    assert "breaks at 2" in invoke(*arguments).stderr


@pytest.mark.parametrize("format_", ["table", "csv", "md"])
def test_every_format_has_a_row_per_case_and_size(format_: str) -> None:
    result = invoke(STAR, "--size", "1M,1G", "--change", "break GPU0-SW0;nodes 1", "--change", "server GPU0")
    assert result.exit_code == 2
    result = invoke(STAR, "--size", "1M,1G", "--change", "server GPU0", "--format", format_)
    assert result.exit_code == 0, result.output
    rows = [line.removeprefix("| ") for line in result.stdout.splitlines()]
    assert sum(line.startswith(("baseline", "server GPU0")) for line in rows) == 4


@pytest.mark.parametrize(
    "arguments",
    [
        ("dgx1-v100", "--change", "break GPU0-GPU1"),
        ("dgx-h100", "--change", "p2p off"),
    ],
    ids=str,
)
def test_a_pipe_of_80_columns_holds_the_table_where_names_are_short(arguments: tuple[str, ...]) -> None:
    lines = invoke(*arguments).stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("[1] ") for line in lines)


def test_a_change_without_effect_shows_no_range() -> None:
    base, row = priced("dgx-h100", "remove mlx5_0", profile="auto")
    assert row.plan != base.plan or row.prediction == base.prediction
    assert bounds_of(row.prediction) is not None
    assert (row.delta, row.delta_bounds) == (0.0, (0.0, 0.0))
    assert "time_change_low" not in what_if_table([base, row]).csv()
    (shown,) = [line for line in what_if_table([base, row]).text(terminal=False).splitlines() if "remove" in line]
    assert "0 %" in shown


def test_one_rank_has_one_row_whatever_the_algorithm() -> None:
    result = invoke("dgx-h100", "--gpus", "0", "--algorithm", "all", "--size", "1M", "--change", "nodes 2")
    assert sum(line.startswith("baseline") for line in result.stdout.splitlines()) == 1
    assert result.stderr.count("one rank needs no exchange") == 1
    assert re.search(r"1 MiB: fastest is \S+ \([^)]*\) with 'nodes 2'", result.stderr)


@pytest.mark.parametrize(
    "arguments", [(STAR, "--change", "server GPU0"), ("dgx-h100", "--change", "p2p off")], ids=["star", "dgx-h100"]
)
def test_a_change_is_priced_without_torch_or_networkx(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    program = (
        "import sys; from topo.cli import main\n"
        "heavy = {'torch', 'networkx', 'scipy', 'matplotlib'}\n"
        "try: main()\n"
        "except SystemExit: print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "what-if", *arguments, "--size", "1M"],
        cwd=tmp_path,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.splitlines()[-1] == "[]"


def test_changes_are_refused_before_anything_is_priced() -> None:
    with pytest.raises(ChangeError):
        variants(Case(preset("dgx-h100")), ["p2p off", "p2p perhaps"])


def test_a_machine_of_unknown_gpus_is_compared_with_itself_alike(tmp_path: Path) -> None:
    """What a matrix alone shows is planned by its links; a change that names GPUs must not bring NCCL's planner in."""
    box = tmp_path / "box.txt"
    box.write_text(matrix(all_to_all(4, "PIX")), encoding="utf-8")
    rows = document(
        str(box), "--size", "1G", "--change", "replace gpu with a100", "--change", "scale pcie bandwidth x0.5"
    )["rows"]
    assert {(row["profile"], row["planner"]) for row in rows} == {("nccl-constants", "topology")}


def test_what_planning_says_of_a_change_alone_is_said() -> None:
    result = CliRunner().invoke(
        main, ["what-if", "pcie-8gpu", "--size", "1G", "--change", "set nic rate=200Gb/s", "--change", "p2p off"]
    )
    said = [line for line in result.stderr.splitlines() if "nodes that speak over its NICs" in line]
    assert len(said) == 1
    assert said[0].startswith("topo: with 'set nic rate=200Gb/s': NCCL takes a host for 2 nodes")


@pytest.mark.parametrize("counts", ["1-4", "2-2", "7-16"])
def test_a_range_of_nodes_is_written_as_in_a_sweep(counts: str) -> None:
    spec = parse_spec(f'topology = "dgx-h100"\nnodes = "{counts}"')
    swept = spec.values[tuple(AXES).index("nodes")]
    assert parse_changes(f"nodes {counts}") == (Nodes(tuple(map(int, map(str, swept)))),)


def test_a_range_of_nodes_is_a_case_for_each() -> None:
    labels = [row.variant.label for row in priced("dgx-h100", "nodes 1-3")]
    assert labels == [BASELINE, "nodes 1", "nodes 2", "nodes 3"]


@pytest.mark.parametrize("engine", ["auto", "event"])
@pytest.mark.parametrize("collective", ["all_reduce", "all_to_all"])
@pytest.mark.parametrize("name", ["dgx-a100", "dgx-h100"])
def test_a_nic_that_nccl_s_channels_leave_alone_slows_nothing(name: str, collective: str, engine: str) -> None:
    changes = [f"add nic to {place} rate={rate}Gb/s" for place in ("node0", "GPU1") for rate in (100, 400)]
    arguments = [name, "--nodes", "2", "--size", "1G", "--collective", collective, "--engine", engine]
    base, *rows = document(*arguments, *(word for change in changes for word in ("--change", change)))["rows"]
    assert len(rows) == len(changes)
    for row in rows:
        assert row.get("rings") == base.get("rings")
        assert row["time_s"] <= base["time_s"] * 1.01, row["change"]
