"""All readers together: over the whole corpus, a text belongs to one of them, and none takes another's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import NO_CORPUS, corpus_files
from topo import textfile
from topo.errors import CaptureError
from topo.load import Text, from_texts
from topo.readers import READERS, sniff, sniff_all, titles

CORPUS = [path for path in corpus_files("*/*") if path.suffix in (".txt", ".xml")]

SEVERAL = {
    "066": ("nvidia-smi-topo", "nvidia-smi-p2p"),
    "079": ("rocm-smi", "lspci"),
    "133": ("nvidia-smi-topo", "nvlink-status"),
}
"""Captures in which people kept the outputs of several commands, with the formats that are in them."""

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
