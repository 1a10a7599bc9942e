"""What the rules find in captures, what they only note, and that they never find without evidence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support import NO_CORPUS, corpus_files
from tests.topo import machine_texts as say
from topo.captures import Captures, Text, read_texts
from topo.case import Case
from topo.errors import CaptureError
from topo.finding import Finding
from topo.findings import RULES, examine
from topo.merging import merge, with_one_matrix
from topo.presets import PRESETS
from topo.reading import load_case
from topo.topology import Topology

NVLINK_HOST = say.matrix(say.all_to_all(8, "NV18"), [0] * 4 + [1] * 4)
ALL_DOWN = "NVML: Unable to retrieve NVLink information as all links are inActive\n"


def case(*, log: str | None = None, **texts: str) -> Case:
    captures = with_one_matrix(read_texts(Text(text, name, name) for name, text in texts.items()))
    built = any(not output.reader.supporting for output in captures.outputs)
    beside = read_texts([Text(log, "log", "log")]).of("nccl-log")[0] if log else None
    return Case(merge(captures, "here") if built else None, captures, beside)


def findings(of: Case, rule: str | None = None, severity: str = "finding") -> list[Finding]:
    return [f for f in examine(of) if f.severity == severity and rule in (None, f.rule)]


def told(of: Case, severity: str = "finding") -> dict[str, int]:
    rules = [f.rule for f in examine(of) if f.severity == severity]
    return {rule: rules.count(rule) for rule in rules}


def text_of(number: str) -> str:
    found = corpus_files(f"nvidia-smi/{number}-*.txt")
    if not found:
        pytest.skip(NO_CORPUS)
    return found[0].read_text(encoding="utf-8-sig")


# --- a doctor that always finds something is no doctor ---

QUIET = ("041", "048", "073", "003", "101", "103", "012", "014", "021", "023", "036", "038", "046", "056", "113", "126")
MACHINES = corpus_files("machines/*.xml")
CAPTURES = [
    *corpus_files("nvidia-smi/*.txt"),
    *corpus_files("nccl-xml/*.xml"),
    *corpus_files("nccl-log/*.txt"),
    *MACHINES,
]


@pytest.mark.corpus
@pytest.mark.parametrize("number", QUIET)
def test_healthy_captures_and_those_without_evidence_give_no_finding(number: str) -> None:
    assert not findings(case(capture=text_of(number)))


@pytest.mark.skipif(not MACHINES, reason=NO_CORPUS)
@pytest.mark.parametrize("path", MACHINES, ids=lambda path: path.stem)
def test_no_healthy_machine_has_a_finding(path: Path) -> None:
    assert not findings(load_case(str(path)))


@pytest.mark.parametrize("name", PRESETS)
def test_no_preset_has_a_finding(name: str) -> None:
    assert not findings(load_case(name))


@pytest.mark.skipif(not CAPTURES, reason=NO_CORPUS)
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_every_finding_quotes_a_line_that_stands_there(path: Path) -> None:
    try:
        found = load_case(str(path))
    except CaptureError:
        return
    for finding in findings(found):
        assert any(quote.line for quote in finding.evidence)
    assert_quotes_stand(found.captures, examine(found))


def assert_quotes_stand(captures: Captures, found: tuple[Finding, ...]) -> None:
    lines = {text.name or text.source: text.lines for text in captures.texts}
    for quote in (quote for finding in found for quote in finding.evidence):
        if quote.line is not None and quote.source in lines and not quote.text.startswith("<"):
            assert " ".join(lines[quote.source][quote.line - 1].split()).startswith(quote.text[:100])


def test_a_healthy_machine_with_every_capture_has_no_finding() -> None:
    healthy = case(
        m=NVLINK_HOST,
        s=say.nvlinks([18] * 8),
        l=say.listing(8),
        q=say.query(8),
        p=say.lspci(8),
        t=say.p2p(8),
        x=say.xml(8),
    )
    assert not findings(healthy)
    assert not told(healthy, "note").keys() & {"not-checked", "pcie-idle", "p2p-refused"}


def test_rules_are_told_apart_and_whole() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert all((rule.title, rule.needs, rule.why, rule.fix)), rule.id


# --- real captures, with the evidence that their story adds ---


@pytest.mark.corpus
def test_a_bridge_in_partial_contact_shows_in_the_matrix() -> None:
    [finding] = findings(case(m=text_of("109")))
    assert finding.rule == "nvlink-bridge"
    assert "GPU0-GPU1 shows NV3" in finding.sentence


@pytest.mark.corpus
def test_a_gpu_with_all_nvlinks_down_needs_no_matrix() -> None:
    [finding] = findings(case(s=text_of("075")))
    assert (finding.rule, finding.subjects) == ("nvlink-inactive", ("GPU1",))
    assert finding.evidence[-1].line == 2


@pytest.mark.corpus
def test_acs_explains_a_slow_pair_below_one_switch() -> None:
    redirecting = say.lspci(8, "SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+")
    matrix = text_of("003")
    [finding] = findings(case(m=matrix, p=redirecting))
    assert finding.rule == "acs-redirect"
    assert "ReqRedir+" in finding.evidence[0].text
    assert any("not checked: ACS, add lspci -vvv" in note.sentence for note in examine(case(m=matrix)))
    assert not findings(case(m=matrix, p=say.lspci(8)))


@pytest.mark.corpus
def test_an_excerpt_of_acs_lines_is_enough() -> None:
    matrix = say.matrix([["X", "PHB"], ["PHB", "X"]])
    lines = "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-\n" * 3
    [finding] = findings(case(m=matrix, a=lines))
    assert (finding.rule, finding.evidence[0].line) == ("acs-redirect", 1)
    assert not findings(case(m=matrix))


@pytest.mark.corpus
def test_consumer_cards_below_one_switch_have_no_peer_to_peer_traffic() -> None:
    matrix = text_of("101")
    [finding] = findings(case(m=matrix, l=say.listing(8, "NVIDIA GeForce RTX 4090")))
    assert finding.rule == "p2p-refused"
    assert "crosses the switch's uplink twice" in finding.sentence
    [by_table] = findings(case(m=matrix, t=say.p2p(8, "CNS")))
    assert "PIX" in by_table.sentence
    assert not findings(case(m=matrix, l=say.listing(8, "NVIDIA L40S")))


@pytest.mark.corpus
def test_peer_to_peer_through_a_processor_is_found_where_sockets_refuse_it() -> None:
    matrix = text_of("103")
    across = {(0, 1): "CNS", (0, 2): "CNS", (0, 3): "CNS"}
    [finding] = findings(case(m=matrix, t=say.p2p(4, but=across)))
    assert finding.rule == "p2p-through-cpu"
    assert "GPU1-GPU2" in finding.sentence
    assert not findings(case(m=matrix, t=say.p2p(4)))


@pytest.mark.corpus
def test_nics_on_one_side_leave_half_of_the_gpus_alone() -> None:
    def rows(near: str) -> list[list[str]]:
        pairs: Mapping[tuple[int, int], str] = {
            **{(gpu, nic): near if gpu < 4 else "SYS" for gpu in range(8) for nic in range(8, 16)},
            **{(gpu, other): "SYS" for gpu in range(4) for other in range(4, 8)},
        }
        return say.all_to_all(16, "NODE", but=pairs)

    [finding] = findings(case(m=say.matrix(rows("NODE"), [0] * 4 + [1] * 4, nics=8)))
    assert (finding.rule, finding.subjects) == ("nic-side", ("GPU4", "GPU5", "GPU6", "GPU7"))
    assert not findings(case(m=say.matrix(rows("SYS"), [0] * 4 + [1] * 4, nics=8)))


# --- NVLinks ---


@pytest.mark.parametrize(
    ("active", "total", "name", "found"),
    [
        ([18, 18, 17, 18], 18, say.H100, ["GPU2"]),
        ([16, 16, 16, 16], 18, say.H100, ["GPU0", "GPU1", "GPU2", "GPU3"]),
        ([12, 12], 18, "NVIDIA H100 NVL", []),
        ([4, 4, 0], 4, "NVIDIA RTX A6000", []),
        ([4, 3, 0], 4, "NVIDIA RTX A6000", ["GPU1"]),
        ([6, 4], 6, "A product that nobody knows", ["GPU1"]),
        ([4, 4], 6, "A product that nobody knows", []),
        ([0], 18, "NVIDIA GH200 480GB", []),
        ([8, 8], 8, "NVIDIA H800", []),
    ],
)
def test_links_are_missing_only_where_the_product_has_more(
    active: list[int], total: int, name: str, found: list[str]
) -> None:
    by_rule = findings(case(s=say.nvlinks(active, total, name)), "nvlink-inactive")
    assert [subject for finding in by_rule for subject in finding.subjects] == found


def test_the_merged_finding_stands_for_the_rule_s_own() -> None:
    [finding] = findings(case(m=NVLINK_HOST, s=say.nvlinks([18] * 7 + [15]), l=say.listing(8)))
    assert [quote.source for quote in finding.evidence] == ["m", "s"]


def test_one_gpu_off_the_switch_is_found_in_letters_alone() -> None:
    lone = say.all_to_all(8, "NV18", but={(1, other): "NODE" for other in range(8) if other != 1})
    [finding] = findings(case(m=say.matrix(lone)))
    assert (finding.rule, finding.subjects) == ("nvlink-fewer", ("GPU1",))


def test_modules_without_nvlink_are_found_by_their_name() -> None:
    bare = say.matrix(say.all_to_all(8, "NODE"))
    [finding] = findings(case(m=bare, l=say.listing(8)))
    assert finding.rule == "nvlink-missing"
    assert "fabricmanager" in next(rule.fix for rule in RULES if rule.id == finding.rule)
    assert not findings(case(m=bare, l=say.listing(8, "NVIDIA H100 PCIe")))
    assert not findings(case(m=bare))
    assert any("not checked: modules without NVLink" in note.sentence for note in examine(case(m=bare)))


def test_links_that_were_trained_again_are_a_finding_and_repeated_packets_a_note() -> None:
    errors = "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-0)\n\t Link 0: Replay Errors: 2\n\t Link 1: Recovery Errors: 1\n"
    assert told(case(e=errors)) == {"nvlink-errors": 1}
    assert told(case(e=errors), "note") == {"nvlink-errors": 1}


def test_links_without_peer_to_peer_traffic_are_found() -> None:
    lines = "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-0)\n\t Link 0, P2P is supported: false\n"
    assert told(case(c=lines)) == {"nvlink-p2p": 1}


# --- PCIe ---


@pytest.mark.parametrize(
    ("row", "finding", "note"),
    [
        ("5, 5, 16, 16", [], []),
        ("1, 5, 16, 16", [], ["pcie-idle"]),
        ("5, 5, 8, 16", ["pcie-width"], []),
        ("1, 5, 4, 16", ["pcie-width"], ["pcie-idle"]),
        ("[N/A], [N/A], [N/A], [N/A]", [], []),
    ],
)
def test_narrow_links_are_found_and_slow_ones_are_read_again_under_load(
    row: str, finding: list[str], note: list[str]
) -> None:
    of = case(m=say.matrix(say.all_to_all(4, "PHB")), q=say.query(4, "NVIDIA L40S", more={2: row}))
    assert list(told(of)) == finding
    assert [rule for rule in told(of, "note") if rule.startswith("pcie-i")] == note
    assert all(found.subjects == ("GPU2",) for found in findings(of))


def test_a_slow_link_of_a_busy_gpu_is_found() -> None:
    rows = "index, pci.bus_id, pcie.link.gen.current, pcie.link.gen.max, utilization.gpu [%]\n"
    busy = rows + "0, 00000000:18:00.0, 3, 5, 97 %\n1, 00000000:2a:00.0, 1, 5, 0 %\n"
    assert told(case(q=busy)) == {"pcie-speed": 1}
    assert told(case(q=busy), "note") == {"pcie-idle": 1}


def test_the_slot_decides_how_wide_a_link_can_be() -> None:
    matrix = say.matrix(say.all_to_all(2, "PHB"))
    narrow_slot = say.lspci(2, width=8).replace("Port #1, Speed 32GT/s, Width x16", "Port #1, Speed 32GT/s, Width x8")
    query = say.query(2, "NVIDIA L40S", "[N/A], [N/A], [N/A], [N/A]")
    assert told(case(m=matrix, q=query, p=say.lspci(2, width=8))) == {"pcie-width": 2}
    assert not told(case(m=matrix, q=query, p=narrow_slot))
    unknown = "18:00.0 3D controller: NVIDIA Corporation Device\n\tLnkCap: Port #0, Speed 16GT/s, Width x16\n"
    assert told(case(p=unknown + "\tLnkSta: Speed 16GT/s, Width x8 (downgraded)\n"), "note") == {"pcie-width": 1}


def test_acs_is_of_no_matter_where_all_traffic_goes_over_nvlink() -> None:
    redirecting = say.lspci(8, "ReqRedir+ CmpltRedir+")
    assert told(case(m=NVLINK_HOST, q=say.query(8), p=redirecting)) == {}
    assert "acs-redirect" in told(case(m=NVLINK_HOST, q=say.query(8), p=redirecting), "note")


def test_sources_that_put_a_gpu_on_two_numa_nodes_are_found() -> None:
    matrix = say.matrix(say.all_to_all(2, "SYS"), [0, 1])
    of = case(m=matrix, q=say.query(2, "NVIDIA L40S"), p=say.lspci(2))
    assert [finding.subjects for finding in findings(of, "numa")] == [("GPU1",)]


def test_an_iommu_that_is_merely_on_is_a_note() -> None:
    lines = say.lspci(2).replace("\tNUMA node: 0\n", "\tNUMA node: 0\n\tIOMMU group: 12\n")
    assert "iommu" in told(case(m=say.matrix(say.all_to_all(2, "PHB")), p=lines), "note")


# --- GPUs ---


def test_seven_gpus_of_a_board_are_one_too_few() -> None:
    assert told(case(m=say.matrix(say.all_to_all(7, "NV18")))) == {"gpu-count": 1}
    assert told(case(m=say.matrix(say.all_to_all(6, "NV18")))) == {}
    assert "gpu-count" in told(case(m=say.matrix(say.all_to_all(5, "PHB"))), "note")


def test_slices_of_gpus_are_found() -> None:
    sliced = say.listing(1) + "  MIG 3g.40gb     Device  0: (UUID: MIG-0)\n  MIG 3g.40gb     Device  1: (UUID: MIG-1)\n"
    [finding] = findings(case(l=sliced))
    assert finding.rule == "mig"
    assert "2 MIG devices" in finding.sentence


def test_a_gpu_that_the_driver_cannot_reach_is_lost() -> None:
    words = "Unable to determine the device handle for GPU0000:CB:00.0: Unknown Error\n"
    assert told(case(m=words + NVLINK_HOST)) == {"gpu-lost": 1}
    assert "gpu-lost" in told(case(m=say.matrix(say.all_to_all(4, "NV6")), p=say.lspci(5)), "note")


# --- measured ---


def test_a_pair_that_measures_slow_is_found() -> None:
    head = "memcpy CE CPU(row) -> GPU(column)".replace("CPU(row) -> GPU", "GPU(row) -> GPU")
    rows = [[0 if a == b else (11.0 if {a, b} == {1, 2} else 26.3) for b in range(4)] for a in range(4)]
    lines = [f"{head} bandwidth (GB/s)", "           0         1         2         3"]
    lines += [
        f" {a}  " + "  ".join("N/A" if a == b else f"{cell:.2f}" for b, cell in enumerate(row))
        for a, row in enumerate(rows)
    ]
    text = "Running device_to_device_memcpy_write_ce.\n" + "\n".join(lines) + "\n"
    of = case(m=say.matrix(say.all_to_all(4, "PIX")), b=text)
    assert {finding.subjects for finding in findings(of, "p2p-slow")} == {("GPU1", "GPU2"), ("GPU2", "GPU1")}
    assert {finding.evidence[1].line for finding in findings(of, "p2p-slow")} == {5, 6}


# --- logs ---


def log_of(*lines: str, buses: tuple[str, ...] = say.BUSES[:2]) -> str:
    head = "node0:10:20 [{0}] NCCL INFO "
    ranks = [
        head.format(rank) + f"ncclCommInitRank comm 0x{rank + 1}a0 rank {rank} nranks {len(buses)} cudaDev {rank} "
        f"nvmlDev {rank} busId {bus}000 commId 0x5 - Init START"
        for rank, bus in enumerate(buses)
    ]
    return "\n".join([*ranks, *(head.format(0) + line for line in lines)]) + "\n"


TWO = {"m": say.matrix(say.all_to_all(2, "NV12")), "q": say.query(2)}


def test_shared_memory_between_linked_gpus_is_found() -> None:
    log = log_of("Channel 00 : 0[0] -> 1[1] via SHM/direct/direct", "Channel 00 : 1[1] -> 0[0] via SHM/direct/direct")
    [finding] = findings(case(log=log, **TWO))
    assert finding.rule == "shm-fallback"
    assert "NV12" in finding.sentence
    assert finding.evidence[0].source == "log"
    apart = {"m": say.matrix(say.all_to_all(2, "SYS")), "q": say.query(2, "NVIDIA L40S")}
    assert not findings(case(log=log, **apart))
    assert "so it is by design" in findings(case(log=log, **apart), "shm-fallback", "note")[0].sentence


def test_sockets_beside_infiniband_are_found() -> None:
    used = "Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0"
    infiniband = "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>"
    assert told(
        case(log=log_of(infiniband, used, "comm 0x1a0 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0"))
    ) == {"socket-fallback": 1}
    assert not told(case(log=log_of(used)))


def test_a_log_of_gpus_that_are_not_there_is_a_wrong_topology() -> None:
    log = log_of("NCCL_TOPO_FILE set by environment to /etc/other.xml", buses=("c1", "c2"))
    [finding] = findings(case(log=log, **TWO))
    assert finding.rule == "wrong-topology"
    assert "/etc/other.xml" in finding.sentence
    assert not findings(case(log=log_of("NCCL_TOPO_FILE set by environment to /etc/same.xml"), **TWO))


def test_a_document_with_links_down_is_a_finding(tmp_path: Path) -> None:
    from topo.writers import write

    built = case(m=NVLINK_HOST, s=say.nvlinks([18] * 7 + [0])).topology
    assert isinstance(built, Topology)
    (tmp_path / "machine.json").write_text(write(built, "json"), encoding="utf-8")
    again = load_case(str(tmp_path / "machine.json"))
    assert {finding.subjects for finding in findings(again, "nvlink-inactive")} == {("GPU7",)}
