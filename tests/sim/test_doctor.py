"""What findings cost, simulated before and after, and the command that says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sim.cli_doctor import doctor
from sim.doctor import Cost, Diagnosis, busbw, diagnose
from tests.support import NO_CORPUS, corpus_files
from tests.topo import machine_texts as say
from tests.topo.test_findings import case, log_of, text_of
from topo import mending
from topo.presets import PRESETS, preset

NVLINK_HOST = say.matrix(say.all_to_all(8, "NV18"), [0] * 4 + [1] * 4)


def costs(found: tuple[Diagnosis, ...]) -> dict[str, Cost]:
    return {row.finding.rule: row.cost for row in found if row.cost is not None}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(doctor, list(arguments), standalone_mode=False)


# --- costs ---


def test_a_lost_link_costs_what_it_carried() -> None:
    cost = costs(diagnose(case(m=NVLINK_HOST, s=say.nvlinks([18] * 7 + [9]))))["nvlink-inactive"]
    assert cost.lost_share == pytest.approx(0.5, abs=0.1)
    whole = case(m=NVLINK_HOST, l=say.listing(8)).topology
    assert whole is not None
    assert cost.mended_bytes_per_s == busbw(whole)


def test_a_gpu_without_links_costs_most_of_the_rate() -> None:
    cost = costs(diagnose(case(m=NVLINK_HOST, s=say.nvlinks([18] * 7 + [0]))))["nvlink-inactive"]
    assert cost.lost_share > 0.8


def slot_of(width: int, letters: str) -> dict[str, Cost]:
    """What a slot with fewer lanes than its GPU has costs, on a machine whose pairs are all joined in one way."""
    of = case(m=say.matrix(say.all_to_all(4, letters)), q=say.query(4, "NVIDIA L40S", more={2: f"4, 4, {width}, 16"}))
    return costs(diagnose(of))


def test_half_the_lanes_cost_half_the_rate() -> None:
    assert slot_of(8, "PIX")["pcie-width"].lost_share == pytest.approx(0.5, abs=0.05)


def test_lanes_cost_nothing_where_copies_through_the_host_need_fewer() -> None:
    assert "pcie-width" not in slot_of(8, "PHB")
    assert 0 < slot_of(2, "PHB")["pcie-width"].lost_share < 0.5


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("number", "evidence", "rule", "least"),
    [
        ("003", {"p": say.lspci(8, "ReqRedir+ CmpltRedir+")}, "acs-redirect", 0.3),
        ("109", {}, "nvlink-bridge", 0.2),
    ],
)
def test_what_real_machines_lose_is_predicted(number: str, evidence: dict[str, str], rule: str, least: float) -> None:
    cost = costs(diagnose(case(m=text_of(number), **evidence)))[rule]
    assert least < cost.lost_share < 0.95


@pytest.mark.parametrize(("sockets", "costs_something"), [(1, True), (2, False)])
def test_refused_peers_cost_what_does_not_pass_the_host_anyway(sockets: int, costs_something: bool) -> None:
    """A ring over two processors passes the host's memory between them, whatever its GPUs may."""
    nodes = [gpu * sockets // 8 for gpu in range(8)]
    apart = {(a, b): "SYS" for a in range(8) for b in range(a) if nodes[a] != nodes[b]}
    pairs = say.all_to_all(8, "PIX", but=apart)
    of = case(m=say.matrix(pairs, nodes), l=say.listing(8, "NVIDIA GeForce RTX 4090"))
    assert ("p2p-refused" in costs(diagnose(of))) == costs_something


def test_modules_without_nvlink_lose_most_of_the_rate() -> None:
    of = case(m=say.matrix(say.all_to_all(8, "NODE")), l=say.listing(8))
    assert costs(diagnose(of))["nvlink-missing"].lost_share > 0.8


@pytest.mark.parametrize("name", [name for name in PRESETS if name.startswith(("pcie", "rtx", "t4", "dgx"))])
def test_the_long_way_is_never_faster_and_mending_a_whole_machine_changes_nothing(name: str) -> None:
    machine = preset(name)
    if machine.num_ranks < 2:
        return
    now = busbw(machine)
    assert now is not None
    for to_cpu in (False, True):
        longer = busbw(mending.through_roots(machine, to_cpu=to_cpu))
        assert longer is not None
        assert longer <= now * 1.0001
    whole = mending.with_full_nvlinks(machine, ())
    assert whole == machine


def test_a_pair_below_one_switch_halves_where_acs_sends_it_up() -> None:
    """Both directions of a same-switch pair share the switch's uplink then, each at half the rate."""
    pair = case(m=say.matrix(say.all_to_all(4, "SYS", but={(0, 1): "PIX", (2, 3): "PIX"}), [0, 0, 1, 1])).topology
    assert pair is not None
    two = pair.take_ranks((0, 1))
    straight, redirected = busbw(two), busbw(mending.through_roots(two, to_cpu=False))
    assert straight is not None
    assert redirected == pytest.approx(straight / 2, rel=0.02)


# --- nccl-tests beside it ---

TABLE = """# nThread 1 nGpus 8 minBytes 134217728 maxBytes 268435456 step: 2(factor) warmup iters: 5 iters: 20
# Collective test starting: all_reduce_perf
{ranks}
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
   268435456      67108864     float     sum      -1   {us}  {alg}  {bus}      {wrong}   {us}  {alg}  {bus}      {wrong}
"""


def table(busbw_gb_per_s: float, ranks: int = 8, wrong: int = 0) -> str:
    alg = busbw_gb_per_s / (2 * (ranks - 1) / ranks)
    return TABLE.format(
        ranks="\n".join(
            f"#  Rank  {rank} Group  0 Pid  1 on  node0 device  {rank} [0x18] GPU" for rank in range(ranks)
        ),
        us=f"{268435456 / alg / 1e3:.2f}",
        alg=f"{alg:.2f}",
        bus=f"{busbw_gb_per_s:.2f}",
        wrong=wrong,
    )


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        (table(350.0), 0, "measured busbw 350.0 GB/s"),
        (table(150.0), 1, "LOW"),
        (table(350.0, wrong=3), 1, "wrong results"),
        (table(350.0) + "# Out of bounds values : 2 FAILED\n", 1, "2 results out of bounds (FAILED), though no row"),
        (table(350.0, ranks=4), 0, "they are of 4 ranks, the topology has 8"),
    ],
)
def test_nccl_tests_are_held_against_the_simulation(tmp_path: Path, text: str, status: int, words: str) -> None:
    folder = say.write_all(tmp_path, {"m.txt": NVLINK_HOST, "tests.out": text})
    result = run(f"{folder}/m.txt", "--nccl-tests", f"{folder}/tests.out")
    assert result.exception is None
    assert (result.return_value, words in " ".join(result.stdout.split())) == (status, True)


# --- the command ---


@pytest.mark.parametrize("form", ["table", "json", "csv", "md"])
def test_every_format_tells_findings_with_their_evidence(tmp_path: Path, form: str) -> None:
    folder = say.write_all(tmp_path, {"m.txt": NVLINK_HOST, "s.txt": say.nvlinks([18] * 7 + [16])})
    result = run(folder, "--format", form)
    assert result.return_value == 1
    for words in ("GPU7", "s.txt", "151", "inactive"):
        assert words in result.stdout


def test_the_document_holds_findings_notes_and_costs(tmp_path: Path) -> None:
    folder = say.write_all(tmp_path, {"m.txt": NVLINK_HOST, "s.txt": say.nvlinks([18] * 7 + [16])})
    document = json.loads(run(folder, "--format", "json").stdout)
    assert (document["schema"], document["healthy"]) == ("doctor/1", False)
    [finding] = document["findings"]
    assert finding["evidence"][1] == {"source": "s.txt", "line": 151, "text": "Link 16: <inactive>"}
    assert 0 < finding["cost"]["lost_share"] < 0.2
    assert "reset the GPU" in finding["fix"]
    assert any(note["rule"] == "not-checked" for note in document["notes"])


def test_a_log_beside_the_captures_is_looked_at(tmp_path: Path) -> None:
    log = log_of("Channel 00 : 0[0] -> 1[1] via SHM/direct/direct")
    texts = {"m.txt": say.matrix(say.all_to_all(2, "NV12")), "q.csv": say.query(2), "run.log": log}
    folder = say.write_all(tmp_path, texts)
    (Path(folder) / "machine").mkdir()
    for name in ("m.txt", "q.csv"):
        (Path(folder) / name).rename(Path(folder) / "machine" / name)
    result = run(f"{folder}/machine", "--nccl-log", f"{folder}/run.log")
    assert result.return_value == 1
    assert "SHM/direct/direct" in result.stdout
    refused = run("dgx-h100", "--nccl-log", f"{folder}/machine/m.txt")
    assert "no log of NCCL" in str(refused.exception)


@pytest.mark.skipif(not corpus_files("nvidia-smi/109*.txt"), reason=NO_CORPUS)
@pytest.mark.parametrize(("number", "status"), [("109", 1), ("075", 1), ("041", 0), ("048", 0), ("073", 0)])
def test_the_exit_status_tells_findings_from_notes(number: str, status: int) -> None:
    [path] = corpus_files(f"nvidia-smi/{number}-*.txt")
    assert run(str(path)).return_value == status


def test_what_is_no_capture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("8 GPUs, 8 IB ports, all ports near 4 of the GPUs")
    assert "in no known format" in str(run(str(tmp_path / "notes.txt")).exception)


def test_presets_are_healthy() -> None:
    result = run("dgx-h100")
    assert result.return_value == 0
    assert "no finding" in result.stdout
    assert "nothing was captured" in result.stdout
