"""All readers together: over the whole corpus, a text belongs to one of them, and none takes another's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import NO_CORPUS, corpus_files
from topo import textfile
from topo.captures import Text
from topo.errors import CaptureError, TopoError
from topo.readers import READERS, Reader, sniff, sniff_all, titles
from topo.reading import from_texts

CORPUS = [path for path in corpus_files("*/*") if path.suffix in (".txt", ".xml")]

SEVERAL = {
    "066": ("nvidia-smi-topo", "nvidia-smi-p2p"),
    "079": ("rocm-smi", "lspci"),
    "133": ("nvidia-smi-topo", "nvlink-status"),
}
"""Captures in which people kept the outputs of several commands, with the formats that are in them."""

EXPECTED = [(path, json.loads(path.read_text())) for path in corpus_files("nvidia-smi/*.expected.json")]
READER_OF = {
    "topo_m": "nvidia-smi-topo",
    "topo_mp": "nvidia-smi-topo",
    "topo_p2p": "nvidia-smi-p2p",
    "nvlink": "nvlink-status",
    "nvlink_remote": "nvlink-remote",
    "nvlink_caps": "nvlink-capabilities",
    "nvlink_errors": "nvlink-errors",
    "gpu_list": "nvidia-smi-list",
    "query_csv": "nvidia-smi-query",
    "rocm_topo": "rocm-smi",
    "lstopo": "lstopo",
}
"""Which reader each kind of capture belongs to; failures, other vendors' tools and prose are no reader's to read."""

P2P = "\tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n"
MATRIX = "\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\t X \n"


def kept_together(path: Path) -> tuple[str, ...] | None:
    return SEVERAL.get(path.name[:3]) if path.parent.name == "nvidia-smi" else None


@pytest.mark.skipif(not CORPUS, reason=NO_CORPUS)
@pytest.mark.parametrize("path", CORPUS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_text_is_claimed_by_two_readers(path: Path) -> None:
    try:
        text = textfile.read_file(path)
    except CaptureError:
        return
    claims = tuple(reader.name for reader in sniff_all(text))
    assert claims == kept_together(path) if kept_together(path) else len(claims) <= 1


@pytest.mark.parametrize(
    "text", ["", "\n", "hello", "GPU", "{}", "[]", "<a/>", "\x00\x01", "0, 1, 2\n", "\\", "Link 0:"]
)
def test_what_is_nothing_is_claimed_by_none(text: str) -> None:
    assert sniff_all(text) == ()


def test_formats_of_a_topology_stand_first() -> None:
    supporting = [reader.supporting for reader in READERS.values()]
    assert supporting == sorted(supporting)
    assert "p2p" not in titles()


def test_facts_alone_are_no_topology() -> None:
    reader = sniff(P2P)
    assert reader is not None
    with pytest.raises(
        CaptureError, match=r"p\.txt: the output of nvidia-smi topo -p2p tells facts .* NCCL topology XML"
    ):
        reader.topology(P2P, "p.txt")
    assert reader.read(P2P).tables[0].complete


def test_facts_beside_a_topology_do_not_stand_in_its_way() -> None:
    texts = [Text(P2P, "a.txt"), Text(P2P, "b.txt"), Text(MATRIX, "m.txt")]
    assert from_texts(texts, "here").num_ranks == 2
    with pytest.raises(CaptureError, match="here: holds no topology"):
        from_texts(texts[:2], "here")


def text_of(expected: Path) -> str:
    return expected.with_name(expected.name.replace(".expected.json", ".txt")).read_text(encoding="utf-8")


def name_of(value: object) -> str:
    return value.name[:3] if isinstance(value, Path) else ""


@pytest.mark.corpus
@pytest.mark.parametrize(("expected", "want"), EXPECTED, ids=name_of)
def test_every_capture_belongs_to_the_reader_of_its_kind(expected: Path, want: dict[str, Any]) -> None:
    text = text_of(expected)
    found = sniff(text)
    if want["kind"] in READER_OF and text.strip():
        assert found is not None
        assert found.name == READER_OF[want["kind"]]
        assert found.read(text, expected.name) is not None
    else:  # also what a command says that prints nothing
        with pytest.raises(CaptureError):
            from_texts([Text(text, expected.name)], expected.name)


MANGLED = [text_of(path) for path, want in EXPECTED if want["kind"] not in ("topo_m", "topo_mp")]


def mangled(draw: st.DrawFn, text: str) -> str:
    """The text after a few accidents: lines lost, doubled, swapped, cut, joined, or with other digits."""
    lines = text.splitlines(keepends=True)
    for _ in range(draw(st.integers(1, 4))):
        if not lines:
            break
        here, there = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["drop", "double", "swap", "cut", "digits", "join"])):
            case "drop":
                del lines[here]
            case "double":
                lines.insert(here, lines[there])
            case "swap":
                lines[here], lines[there] = lines[there], lines[here]
            case "cut":
                lines[here] = lines[here][: draw(st.integers(0, len(lines[here])))]
            case "digits":
                lines[here] = "".join("9" if char.isdigit() else char for char in lines[here])
            case _:
                lines[here] = lines[here].rstrip("\n")
    return "".join(lines)


@pytest.mark.skipif(not MANGLED, reason=NO_CORPUS)
@given(text=st.composite(mangled)(text="") if not MANGLED else st.sampled_from(MANGLED).flatmap(st.composite(mangled)))
def test_a_mangled_capture_is_read_or_refused_in_a_sentence(text: str) -> None:
    for reader in sniff_all(text):
        refused = refusal(reader, text)
        assert refused is None or (refused and "\n" not in refused)


def refusal(reader: Reader, text: str) -> str | None:
    """Why the reader refuses the text, in the words of an error of the house; None where it reads it."""
    try:
        facts = reader.read(text, "capture.txt")
        if not reader.supporting:
            reader.topology(text, "capture.txt")
    except TopoError as error:
        return str(error)
    assert facts is not None
    return None
