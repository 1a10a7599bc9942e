"""Files, folders and standard input become topologies: what they hold is read in any format of READERS."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from topo import readers, textfile
from topo.captures import Captures, Output, Text, not_read, read_texts
from topo.errors import CaptureError
from topo.load import exists, one_machine

if TYPE_CHECKING:
    from topo.capture import Capture
    from topo.case import Case
    from topo.topology import Topology

THIS_MACHINE = "this machine"

_OWN_DRAWING = re.compile(r"\S.*: \d+ (GPUs?|CPU process(es)?|NICs?|NUMA nodes?)\b.*\n")


def read_argument(argument: str) -> Topology:
    """The topology in a file or folder of captures, or in standard input (`-`)."""
    if argument == "-":
        return _read(Text(textfile.read_stdin(), "standard input"))
    path = Path(argument)
    return from_texts(_folder(path), argument) if path.is_dir() else _read(Text(textfile.read_file(path), argument))


def from_texts(texts: Sequence[Text], where: str) -> Topology:
    """The topology in several captures of one machine, put together; `where` names them in errors.

    CaptureError where none is a topology, two of the best format are, or they are of different machines.
    """
    from topo.merging import merge

    return merge(read_texts(texts), where)


def _folder(path: Path) -> list[Text]:
    """The texts of a folder, hidden files and what is no text left out."""
    files = sorted(entry for entry in path.iterdir() if entry.is_file() and not entry.name.startswith("."))
    return [text for file in files if (text := _text_or_none(file)) is not None]


def _text_or_none(path: Path) -> Text | None:
    try:
        return Text(textfile.read_file(path), str(path), path.name)
    except CaptureError:
        return None


def _read(text: Text) -> Topology:
    """The topology of one text; what is in no known format is refused with the formats that are."""
    from topo.merging import merge

    captures = read_texts([text])
    _refuse_unknown(captures)
    return merge(captures, text.source)


def _refuse_unknown(captures: Captures) -> None:
    """Refuses a single text in which nothing is known, saying what it is instead."""
    text = captures.texts[0]
    if not captures.outputs and not any(captures.error_messages()):
        if sentence := not_read(text.content):
            raise CaptureError(sentence, source=text.source)
        raise CaptureError(f"{_what_else(text.content)}: read are {readers.titles()}", source=text.source)


def _what_else(content: str) -> str:
    """What a text is that is no topology, as far as its opening tells."""
    from topo.jsonio import schema_of

    opening = content.lstrip("\ufeff \t\r\n")
    if opening.startswith("{"):
        schema = schema_of(content)
        return f"a JSON document of schema {schema!r}, not a topology" if schema else "JSON, but not a topology"
    if opening.startswith("<graphs"):
        return "NCCL's graph XML (its rings and trees), not a topology"
    if opening.startswith("<"):
        return "XML or HTML, but not a topology"
    if _OWN_DRAWING.match(opening):
        return "the drawing that topo shows, which is for people: pass on what --format json writes"
    return "in no known format"


def load_case(argument: str) -> Case:
    """A TOPOLOGY argument with all that was captured: also where that tells of a machine, but not how it is built.

    Raises as `load_topology` does, but for supporting captures alone, which give a case without a topology.
    """
    from topo.case import Case
    from topo.merging import merge, with_one_matrix

    path = Path(argument)
    if argument != "-" and not exists(path):
        return Case(one_machine(argument))
    if path.is_dir():
        captures = read_texts(_folder(path))
    else:
        text = textfile.read_stdin() if argument == "-" else textfile.read_file(path)
        captures = read_texts([Text(text, "standard input" if argument == "-" else argument)])
        _refuse_unknown(captures)
    captures = with_one_matrix(captures)
    read = [output for output in captures.outputs if output.problem is None]
    if read and all(output.reader.supporting for output in captures.outputs):
        return Case(None, captures)
    return Case(merge(captures, argument), captures)


def read_log(path: Path) -> Output:
    """A log of NCCL; CaptureError where the file is none."""
    reader = readers.READERS["nccl-log"]
    text = Text(textfile.read_file(path), str(path))
    if not reader.sniff(text.content):
        raise CaptureError(
            f"no log of NCCL ({_what_else(text.content)}): run with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH",
            source=text.source,
        )
    return Output(reader, text, reader.read(text.content, text.source))


def read_paths(paths: Iterable[str]) -> Topology:
    """The topology in captures that are named one by one: files, folders or `-`, all of one machine."""
    texts: list[Text] = []
    for argument in paths:
        path = Path(argument)
        if argument == "-":
            texts.append(Text(textfile.read_stdin(), "standard input"))
        elif exists(path) and path.is_dir():
            texts.extend(_folder(path))
        else:
            texts.append(Text(textfile.read_file(path), argument))
    return _read(texts[0]) if len(texts) == 1 else from_texts(texts, "these captures")


def read_capture(captured: Capture) -> tuple[Topology, str]:
    """The topology of a capture of this machine, and a sentence for the user where it has no usable NVIDIA GPU.

    It is that of the saved capture. Without a matrix of nvidia-smi, /sys gives processors and NICs, and CPU processes
    as ranks.
    """
    from topo.merging import merge

    captures = read_texts(Text(text, file, file) for file, text in captured.files())
    topology = replace(merge(captures, THIS_MACHINE), name=THIS_MACHINE)
    if not topology.of_kind("process"):
        return topology, ""
    matrix = captured.text_of("nvidia-smi-topo-m.txt")
    words = " ".join(matrix.text.split())[:160]
    said = f'{matrix.problem}, it says "{words}"' if matrix.problem and words else matrix.problem or "shows no GPU"
    remark = (
        f"no NVIDIA GPU found (nvidia-smi: {said}): its CPUs and NICs are shown, with one CPU process per core as rank"
    )
    return topology, remark
