"""A TOPOLOGY argument: every way to name a machine, and every input that is none."""

from __future__ import annotations

import gzip
import io
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import NO_CORPUS, corpus_files
from topo import readers, textfile
from topo.cluster import Cluster
from topo.errors import CaptureError, NameChoiceError, TopoError, TopologyError
from topo.load import load_topology, parse_gpus
from topo.presets import PRESETS, preset
from topo.reading import read_paths
from topo.topology import Topology
from topo.writers import WRITERS, write

MATRIX = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-7\nGPU1\tPIX\t X \t0-7\n"
CAPTURES = corpus_files("machines/*.xml") + corpus_files("nvidia-smi/00*.txt")


def loaded(argument: str, gpus: str | None = None) -> Topology:
    topology = load_topology(argument, gpus=gpus)
    assert isinstance(topology, Topology)
    return topology


def test_presets_and_descriptions_are_machines() -> None:
    assert loaded("dgx-h100") == preset("dgx-h100")
    assert loaded("switch:1024,bandwidth=200GB/s,latency=1us").num_ranks == 1024


@pytest.mark.parametrize("form", ["json", "nccl-xml", "matrix"])
def test_what_is_written_is_recognised_and_read_again(form: str, tmp_path: Path) -> None:
    (tmp_path / "machine.x").write_text(write(preset("dgx-h100"), form), encoding="utf-8")
    topology = loaded(str(tmp_path / "machine.x"))
    assert topology.num_ranks == 8
    assert topology.name == ("dgx-h100" if form == "json" else "machine")


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(MATRIX.encode())))
    assert loaded("-").num_ranks == 2


def test_text_of_powershell_is_read(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text(MATRIX, encoding="utf-16")
    assert loaded(str(tmp_path / "m.txt")).num_ranks == 2


def test_nodes_give_a_cluster() -> None:
    cluster = load_topology("dgx-h100", nodes=4, gpus="0-3", fabric="flat,bandwidth=50GB/s,latency=2us")
    assert isinstance(cluster, Cluster)
    assert cluster.num_ranks == 16
    assert isinstance(load_topology("dgx-h100", fabric="flat"), Topology)


def test_a_folder_gives_the_topology_that_says_the_most(tmp_path: Path) -> None:
    (tmp_path / "a-matrix.txt").write_text(write(preset("dgx-h100"), "matrix"))
    (tmp_path / "b-error.txt").write_text("NVIDIA-SMI has failed because of the driver\n")
    (tmp_path / "c-image.png").write_bytes(b"\x89PNG\0")
    (tmp_path / ".hidden.xml").write_text("<system>")
    assert loaded(str(tmp_path)).num_ranks == 8
    (tmp_path / "z.xml").write_text(write(preset("dgx-h100"), "nccl-xml"))
    assert loaded(str(tmp_path)).provenance[0].kind == "NCCL topology XML"
    assert loaded(str(tmp_path)).name == tmp_path.name
    (tmp_path / "x.xml").write_text((tmp_path / "z.xml").read_text())
    assert loaded(str(tmp_path)).num_ranks == 8, "the same text twice is one"
    (tmp_path / "x.xml").unlink()
    (tmp_path / "y.xml").write_text(write(preset("dgx-h100"), "nccl-xml") + "<!-- again -->")
    with pytest.raises(CaptureError, match=r"several topologies in NCCL topology XML: give one of .*y\.xml, .*z\.xml"):
        loaded(str(tmp_path))


def test_a_folder_without_a_topology_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="holds no topology"):
        loaded(str(tmp_path))
    (tmp_path / "out.txt").write_text("bash: nvidia-smi: command not found\n")
    with pytest.raises(CaptureError, match="nvidia-smi: command not found"):
        loaded(str(tmp_path))


def test_captures_named_one_by_one_are_one_machine(tmp_path: Path) -> None:
    for name, text in (
        ("m.txt", write(preset("pcie-4gpu"), "matrix")),
        ("m.xml", write(preset("pcie-4gpu"), "nccl-xml")),
        ("other.txt", MATRIX),
    ):
        (tmp_path / name).write_text(text)
    assert read_paths([str(tmp_path / "m.txt"), str(tmp_path / "m.xml")]).num_ranks == 4
    with pytest.raises(CaptureError, match=r"different machines: .*other\.txt.* shows 2 GPUs, yet .*m\.xml.* 4"):
        read_paths([str(tmp_path / "other.txt"), str(tmp_path / "m.xml")])


@pytest.mark.skipif(not CAPTURES, reason=NO_CORPUS)
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_one_reader_and_only_one_takes_a_real_capture(path: Path) -> None:
    text = textfile.read_file(path)
    assert sum(reader.sniff(text) for reader in readers.READERS.values()) <= 1


@pytest.mark.parametrize(
    ("text", "ranks"), [("0", (0,)), ("0-3,6", (0, 1, 2, 3, 6)), ("7,0", (7, 0)), (" 1 - 2 , 4", (1, 2, 4))]
)
def test_gpus_are_taken_in_the_order_given(text: str, ranks: tuple[int, ...]) -> None:
    assert parse_gpus(text, 8) == ranks
    assert loaded("dgx-h100", gpus=text).gpu_ids == tuple(f"GPU{rank}" for rank in ranks)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("9", "there is no GPU 9, this machine has 8 GPUs, 0 to 7"),
        ("0-8", "there is no GPU 8"),
        ("0-999999999", "there is no GPU 999999999"),
        ("3-1", "runs backwards, write 1-3"),
        ("0,1,0", "GPU 0 stands twice"),
        ("", "is no GPU"),
        ("1,,2", "is no GPU"),
        ("-1", "'-1' is no GPU"),
        ("all", "'all' is no GPU"),
    ],
)
def test_gpus_that_are_not_there_are_refused(text: str, words: str) -> None:
    with pytest.raises(TopologyError, match=words):
        load_topology("dgx-h100", gpus=text)


@given(st.text(max_size=20))
def test_any_gpu_list_is_read_or_refused_in_words(text: str) -> None:
    try:
        ranks = parse_gpus(text, 8)
    except TopologyError:
        return
    assert all(0 <= rank < 8 for rank in ranks)


def test_a_name_that_is_nothing_is_answered_with_the_nearest() -> None:
    with pytest.raises(NameChoiceError, match="did you mean 'dgx-h100'"):
        load_topology("dgx-h10")
    with pytest.raises(CaptureError, match=r"^captures/none\.xml: no such file"):
        load_topology("captures/none.xml")


ERRORS = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
    "bash: line 1: nvidia-smi: command not found",
    "No devices were found",
    "Failed to initialize NVML: Driver/library version mismatch",
)

BAD = {
    "empty": (b"", "empty"),
    "blank": (b" \n\n", "empty"),
    "binary": (b"\x7fELF\x00\x01", "binary"),
    "gzip": (gzip.compress(MATRIX.encode()), "gzip archive: unpack"),
    "latin-1": ("é".encode("latin-1"), "no utf-8 text"),
    "cut UTF-16": (b"\xff\xfeG", "no utf-16"),
    "HTML": (b"<!DOCTYPE html>\n<html><body>404</body></html>", "an HTML page"),
    "prose": (b"We saw slow all-reduce on two nodes.", "in no known format: read are NCCL topology XML"),
    "other XML": (b"<?xml version='1.0'?><topology/>", "XML or HTML, but not a topology"),
    "NCCL graph": (b'<graphs version="1"></graphs>', "graph XML"),
    "other JSON": (b'{"schema": "measurement/1"}', "schema 'measurement/1', not a topology"),
    "plain JSON": (b'{"gpus": 8}', "JSON, but not a topology"),
    "cut XML": (b'<system version="1"><cpu numaid="0">', "not well-formed"),
    "bomb": (b'<!DOCTYPE s [<!ENTITY a "x">]><system version="1">&a;</system>', "DTD or entities"),
    **{message[:20]: (message.encode(), message[:30]) for message in ERRORS},
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_topology_is_refused_with_its_source(name: str, tmp_path: Path) -> None:
    content, words = BAD[name]
    path = tmp_path / "capture"
    path.write_bytes(content)
    with pytest.raises(CaptureError) as caught:
        load_topology(str(path))
    assert str(caught.value).startswith(str(path))
    assert words in str(caught.value)


@pytest.mark.parametrize("name", PRESETS)
def test_what_topo_draws_for_people_is_told_from_what_it_reads(name: str, tmp_path: Path) -> None:
    path = tmp_path / "shown.txt"
    path.write_text(write(preset(name), "text"))
    with pytest.raises(CaptureError, match="the drawing that topo shows"):
        load_topology(str(path))


def test_a_large_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "huge.txt").open("wb") as stream:
        stream.truncate(50 * 2**20)
    with pytest.raises(CaptureError, match="larger than 32 MiB"):
        load_topology(str(tmp_path / "huge.txt"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no such devices here")
def test_a_device_is_no_file() -> None:
    with pytest.raises(CaptureError, match="no regular file"):
        load_topology("/dev/zero")


@given(st.binary(max_size=200))
def test_any_bytes_are_text_or_refused_in_words(content: bytes) -> None:
    try:
        text = textfile.decode(content, "here")
    except CaptureError as error:
        assert str(error).startswith("here: ")  # noqa: PT017
        return
    assert isinstance(text, str)


@given(st.text(min_size=1, max_size=30))
def test_any_argument_is_a_machine_or_refused_in_words(argument: str) -> None:
    if argument in ("-", ".", ".."):
        return
    try:
        load_topology(argument)
    except TopoError:
        return


@pytest.mark.parametrize("form", WRITERS)
def test_every_form_writes_every_preset(form: str) -> None:
    assert write(preset("dgx1-v100"), form).endswith("\n")


def test_a_program_without_standard_input_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(CaptureError, match="standard input: closed"):
        load_topology("-")
