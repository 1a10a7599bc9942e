"""`nvidia-smi nvlink`, its four flags: each capture is read by one of them, whatever people did to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import corpus_files
from topo.errors import CaptureError
from topo.readers import nvlink_capabilities, nvlink_errors, nvlink_remote, nvlink_status
from topo.readers.nvlink_status import GpuNvlinks
from topo.readers.pci_address import canonical

FLAGS: dict[str, ModuleType] = {
    "nvlink": nvlink_status,
    "nvlink_remote": nvlink_remote,
    "nvlink_caps": nvlink_capabilities,
    "nvlink_errors": nvlink_errors,
}
EXPECTED = [(path, json.loads(path.read_text())) for path in corpus_files("nvidia-smi/*.expected.json")]
CAPTURES = [(path, want) for path, want in EXPECTED if want["kind"] in FLAGS]
UUID = "(UUID: GPU-00000000-0000-0000-0000-000000000000)"
INACTIVE = "NVML: Unable to retrieve NVLink information as all links are inActive"


def text_of(expected: Path) -> str:
    return expected.with_name(expected.name.replace(".expected.json", ".txt")).read_text(encoding="utf-8")


def name_of(value: object) -> str:
    return value.name[:3] if isinstance(value, Path) else ""


def shown(gpu: GpuNvlinks) -> dict[str, str] | str:
    """A GPU's links as the corpus states them."""
    if gpu.verdict == "links":
        return {str(link.number): link.said for link in gpu.links}
    return {"all inactive": "all links inActive"}.get(gpu.verdict, gpu.verdict)


def only(text: str) -> GpuNvlinks:
    (gpu,) = nvlink_status.read(text, "nvlink.txt").gpus
    return gpu


@pytest.mark.corpus
@pytest.mark.parametrize(("expected", "want"), CAPTURES, ids=name_of)
def test_captures(expected: Path, want: dict[str, Any]) -> None:
    text = text_of(expected)
    claims = [kind for kind, reader in FLAGS.items() if reader.sniff(text)]
    assert claims == ([want["kind"]] if text.strip() else [])
    facts = FLAGS[want["kind"]].read(text, expected.name)
    assert len(facts.gpus) == want["gpus"]
    if want["kind"] == "nvlink":
        assert {f"GPU{gpu.gpu}": shown(gpu) for gpu in facts.gpus} == want["links"]
    lines = text.splitlines()
    assert all(gpu.name is None or gpu.name in lines[gpu.line - 1] for gpu in facts.gpus)


@pytest.mark.corpus
@pytest.mark.parametrize(("expected", "want"), EXPECTED, ids=name_of)
def test_the_far_ends_of_links(expected: Path, want: dict[str, Any]) -> None:
    if want["kind"] != "nvlink_remote":
        return
    for gpu in nvlink_remote.read(text_of(expected)).gpus:
        wanted = want["links"][f"GPU{gpu.gpu}"]
        said = {str(link.number): f"{link.remote} link {link.remote_link}" for link in gpu.links}
        assert not wanted or said == {
            number: f"{canonical(words.split()[0])} link {words.split()[-1]}" for number, words in wanted.items()
        }
        assert len(gpu.links) == 12
        assert set(gpu.links_to.values()) in ({12}, {2})


@pytest.mark.corpus
def test_parts_left_out_are_told(corpus: Path) -> None:
    (status,) = corpus.glob("nvidia-smi/026-*.txt")
    assert not only(status.read_text()).complete
    (errors,) = corpus.glob("nvidia-smi/025-*.txt")
    (gpu,) = nvlink_errors.read(errors.read_text()).gpus
    assert (gpu.links, gpu.failed, gpu.complete) == ((0, 1, 17), (), False)


@pytest.mark.parametrize(
    ("said", "state", "bytes_per_s"),
    [
        ("25 GB/s", "active", 25e9),
        ("26.562 GB/s", "active", 26.562e9),
        ("53.125 GB/s", "active", 53.125e9),
        ("25GB/s", "active", 25e9),
        ("0 GB/s", "inactive", None),
        ("<inactive>", "inactive", None),
        ("inActive", "inactive", None),
        ("N/A", "unknown", None),
        ("[Unknown Error]", "unknown", None),
    ],
)
def test_states_of_a_link(said: str, state: str, bytes_per_s: float | None) -> None:
    gpu = only(f"GPU 3: NVIDIA A100 {UUID}\n\t Link 0: 25 GB/s\n\t Link 1: {said}\n")
    assert (gpu.gpu, gpu.links[1].state, gpu.links[1].bytes_per_s, gpu.links[1].line) == (3, state, bytes_per_s, 3)
    assert gpu.complete


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (f"GPU 0: A {UUID}\n{INACTIVE}\n", "all inactive"),
        (f"GPU 0: A {UUID} {INACTIVE}\n", "all inactive"),
        (f"GPU 0: A {UUID}: Device does not have or support Nvlink\n", "unsupported"),
        (f"GPU 0: A {UUID}\nNVML: Unable to retrieve NVLink status: Unknown Error\n", "unreadable"),
        (f"{INACTIVE}\n", "all inactive"),
    ],
)
def test_messages_in_the_place_of_links(text: str, verdict: str) -> None:
    assert only(text).verdict == verdict
    assert nvlink_status.sniff(text)


def test_a_gpu_of_which_nothing_is_said() -> None:
    text = f"GPU 0: A {UUID}\n Link 0: 25 GB/s\nGPU 1: A {UUID}\nGPU 2: A {UUID}\n Link 0: 25 GB/s\n"
    assert [gpu.verdict for gpu in nvlink_status.read(text).gpus] == ["links", "silent", "links"]


def test_a_list_of_gpus_before_the_links_is_none_of_them() -> None:
    listed = f"GPU 0: A {UUID}\nGPU 1: B {UUID}\n"
    text = f"$ nvidia-smi -L\n{listed}$ nvidia-smi nvlink -s\nGPU 0: A {UUID}\n Link 0: 25 GB/s\n"
    assert only(text).gpu == 0
    assert only(f"{listed}GPU 0: A {UUID}\n Link 0: 25 GB/s\n").name == "A"


def test_all_flags_in_one_file() -> None:
    head = f"GPU 0: A {UUID}"
    text = (
        f"{head}\n Link 0: 25 GB/s\n{head}\n Link 0, P2P is supported: true\n Link 0, SLI is supported: false\n"
        f"{head}\n Link 0: Replay Errors: 7\n Link 0: Effective BER: 15e-255\n"
        f"{head}\n Link 0: Remote Device 00000000:0A:00.0: Link 3\n Link 0: Data Tx: 12 KiB\n"
    )
    assert all(reader.sniff(text) for reader in FLAGS.values())
    assert [link.said for link in only(text).links] == ["25 GB/s"]
    (capable,) = nvlink_capabilities.read(text).gpus
    assert [row.name for row in capable.lacking("SLI is supported")] == ["SLI is supported"]
    assert (capable.links, capable.lacking("P2P is supported")) == ((0,), ())
    (counted,) = nvlink_errors.read(text).gpus
    assert [(row.name, row.count) for row in counted.counters] == [("Replay Errors", 7), ("Effective BER", None)]
    assert [row.line for row in counted.failed] == [7]
    (remote,) = nvlink_remote.read(text).gpus
    assert [(link.remote, link.remote_link) for link in remote.links] == [("0000:0a:00.0", 3)]


def test_an_older_driver_gives_addresses_alone() -> None:
    (gpu,) = nvlink_remote.read(f"GPU 0: A {UUID}\n\t Link 0: 00000000:07:00.0\n\t Link 1: 00000000:07:00.0\n").gpus
    assert gpu.links_to == {"0000:07:00.0": 2}
    assert gpu.links[0].remote_link is None


def test_one_machine_twice_is_read_once() -> None:
    text = f"GPU 0: A {UUID}\n Link 0: 25 GB/s\n"
    assert len(nvlink_status.read(text * 2).gpus) == 1
    with pytest.raises(CaptureError, match=r"n\.txt, line 3: GPU 0 stands twice \(first in line 1\)"):
        nvlink_status.read(text + text.replace("25", "50"), "n.txt")


STYLES: list[Callable[[str], str]] = [
    lambda text: text,
    lambda text: text.replace("\n", "\r\n"),
    lambda text: "\ufeff" + text,
    lambda text: "root@box:~# nvidia-smi nvlink --status\n" + text,
    lambda text: "".join("# " + line for line in text.splitlines(keepends=True)),
    lambda text: "".join("[1,0]<stdout>:" + line for line in text.splitlines(keepends=True)),
    lambda text: "".join("2026-01-02T03:04:05Z node-a: " + line for line in text.splitlines(keepends=True)),
    lambda text: text.replace("\t Link", "Link").replace("\n", "\n\n"),
    lambda text: text.replace("\t", "         ").replace(": ", ":   "),
    lambda text: text.replace("GPU ", "\x1b[1mGPU ").replace("GB/s", "GB/s\x1b[0m"),
    lambda text: "```\n" + text + "```\n",
]


@given(
    rates=st.lists(st.lists(st.sampled_from(["25 GB/s", "26.562 GB/s", "<inactive>"]), max_size=18), max_size=8),
    style=st.sampled_from(STYLES),
)
def test_every_way_of_writing_gives_the_same_links(rates: list[list[str]], style: Callable[[str], str]) -> None:
    lines = [
        "\n".join(
            [f"GPU {index}: NVIDIA H100 80GB HBM3 {UUID}"]
            + ([f"\t Link {number}: {said}" for number, said in enumerate(links)] or [INACTIVE])
        )
        for index, links in enumerate(rates)
    ]
    facts = nvlink_status.read(style("".join(line + "\n" for line in lines))) if lines else None
    for index, (gpu, links) in enumerate(zip(facts.gpus if facts else (), rates, strict=True)):
        assert (gpu.gpu, gpu.name, gpu.complete) == (index, "NVIDIA H100 80GB HBM3", True)
        assert [link.said for link in gpu.links] == links
        assert len(gpu.in_state("active")) == sum("GB/s" in said for said in links)


@pytest.mark.parametrize("reader", FLAGS.values(), ids=list(FLAGS))
@pytest.mark.parametrize(
    "text",
    [
        "Link state: 25 GB/s\n",
        f"GPU 0: A {UUID}\n",
        "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n",
        "Unable to determine the device handle for GPU 0: Unknown Error\n",
        "LnkSta: Speed 16GT/s, Width x16\n",
        f"GPU 0: A {UUID}\n Link 0: Rx0: 0 KiB, Tx0: 0 KiB\n",
    ],
)
def test_what_is_something_else_is_neither_claimed_nor_read(reader: ModuleType, text: str) -> None:
    assert not reader.sniff(text)
    with pytest.raises(CaptureError, match="line 1: no NVLink"):
        reader.read(text, "x.txt")


def test_nothing_printed_is_no_nvlink() -> None:
    assert nvlink_status.read("\n").gpus == ()
    assert not nvlink_status.sniff("\n")
