"""One record of an NCCL log -> what it says apart from communicators: settings, networks, warnings, choices."""

from __future__ import annotations

import re
from collections.abc import Iterator

from topo.readers.nccl_log.facts import Unread
from topo.readers.nccl_log.lines import Record
from topo.readers.nccl_log.machine_facts import AnnouncedRank, Choice, GdrLine, NetworkDevice, Setting, Warned
from topo.readers.nccl_log.names import algorithm_name, function_name, protocol_name

Note = AnnouncedRank | Choice | GdrLine | NetworkDevice | Setting | Warned | Unread

_VERSION = re.compile(r"(?:NCCL|RCCL) version :? ?(\d+\.\d+\S*)")
_SETTING = re.compile(r"(NCCL_[A-Z0-9_]+) set (?:by environment )?to (.*)$")
_IB_USING = re.compile(r"NET/IB : Using (.*)$")
_IB_ONE = re.compile(r"\[(\d+)\]\s?([^\s:={},\[\]]+):(\d+)/(IB|RoCE)")
_IB_FUSED = re.compile(r"NET/IB : Made virtual device \[(\d+)\] name=(\S+) speed=\d+ ndevs=([2-9]|\d\d)")
_SOCKET_USING = re.compile(r"NET/Socket : Using (.*)$")
_SOCKET_ONE = re.compile(r"\[(\d+)\]([^\s:]+):\S+")
_PLUGIN = re.compile(r"Using network (.+)$")
_GDR = re.compile(r"GPU Direct RDMA (Enabled|Disabled) for (.*)$")
_CHOICE = re.compile(
    r"(?:(\w+): )?(\d+) Bytes -> Algo (\w+) proto (\w+)(?: time (\d+(?:\.\d*)?))?"
    r"(?: channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\})?(?: comm 0x[0-9a-f]+.*)?$"
)
_KERNEL_CHOICE = re.compile(r"(\w+) \[(Symmetric|Copy Engine)\]: (\d+) Bytes -> (.*)$")
_ANNOUNCED = re.compile(
    r"#\s+Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\s+(\d+)\s+\[([0-9a-fA-Fx:.]+)\]\s*(.*)$"
)


def version_of(record: Record) -> str | None:
    """NCCL's version ("2.18.3+cuda12.2") where the record or line states it."""
    if " version " not in record.words:
        return None
    match = _VERSION.search(record.words)
    return match[1] if match else None


def plugin_of(record: Record) -> str | None:
    """The network that NCCL says it uses ("IB", "Socket", "AWS Libfabric")."""
    match = None if record.cut else _PLUGIN.match(record.words)
    return match[1].strip() if match else None


def announced_of(record: Record) -> AnnouncedRank | None:
    """The rank that a line of nccl-tests' list of devices shows."""
    match = _ANNOUNCED.search(record.words) if "# " in record.words else None
    if match is None:
        return None
    rank, host, device, bus_id, model = match.groups()
    return AnnouncedRank(record.line, int(rank), host, int(device), bus_id, model.strip())


def notes_of(record: Record, version: tuple[int, int] | None) -> Iterator[Note]:
    """What the record says; `version` decides what numbers of algorithms mean."""
    words, host = record.words, record.speaker.host
    if record.level == "WARN":
        yield Warned(record.line, host, record.code, words)
    elif " Bytes -> " in words:
        yield _choice(record, version)
    elif record.cut:
        return
    elif words.startswith("NCCL_") and (match := _SETTING.fullmatch(words)):
        yield Setting(record.line, match[1], re.sub(r"(?<=\d)\.$", "", match[2]))
    elif "GPU Direct RDMA" in words and (match := _GDR.search(words)):
        yield GdrLine(record.line, host, match[1] == "Enabled", match[2])
    elif words.startswith("NET/"):
        yield from _networks(record)


def _choice(record: Record, version: tuple[int, int] | None) -> Choice | Unread:
    words = record.words
    match = None if record.cut else _CHOICE.fullmatch(words)
    if match:
        function, num_bytes, algorithm, protocol, estimate, first, last = match.groups()
        return Choice(
            line=record.line,
            function=None if function is None else function_name(function),
            num_bytes=int(num_bytes),
            algorithm=algorithm_name(algorithm, version),
            protocol=protocol_name(protocol),
            first_channel=None if first is None else int(first),
            last_channel=None if last is None else int(last),
            # The time is NCCL's own estimate, in microseconds.
            nccl_estimate_s=None if estimate is None else float(estimate) * 1e-6,
        )
    match = None if record.cut else _KERNEL_CHOICE.fullmatch(words)
    if match:
        name = match[2].lower().replace(" ", "-")
        kernel = re.search(r"Kernel (\S+)", match[4])
        return Choice(record.line, function_name(match[1]), int(match[3]), name, kernel[1] if kernel else "")
    reason = "another process wrote into this line" if record.cut else "no choice as NCCL prints them"
    return Unread(record.line, reason, words[:120])


def _networks(record: Record) -> Iterator[NetworkDevice]:
    words, host = record.words, record.speaker.host
    if match := _IB_USING.match(words):
        # Fused interfaces are written [d]={[i] name:port/kind, ...}: their parts are told by the inner numbers.
        for found in _IB_ONE.finditer(match[1]):
            yield NetworkDevice(record.line, host, int(found[1]), found[2], int(found[3]), found[4])
    elif match := _IB_FUSED.match(words):
        yield NetworkDevice(record.line, host, int(match[1]), match[2], None, "IB")
    elif match := _SOCKET_USING.match(words):
        for found in _SOCKET_ONE.finditer(match[1]):
            yield NetworkDevice(record.line, host, int(found[1]), found[2], None, "Socket")
