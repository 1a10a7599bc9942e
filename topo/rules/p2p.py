"""Peer-to-peer traffic that is refused, that goes through a processor, or that measures slow."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING

from topo.case import Case, say
from topo.finding import Finding, Quote, Severity
from topo.readers.nvidia_smi_p2p import MEANINGS

if TYPE_CHECKING:
    from topo.captures import Output
    from topo.readers.nvidia_smi_p2p import P2pTable
    from topo.topology import Device

P2P_REFUSED = "p2p-refused"
P2P_THROUGH_CPU = "p2p-through-cpu"
P2P_SLOW = "p2p-slow"

_OVER_PCIE = (None, "r", "w", "p")
"""What a table was asked for, where it tells of plain reads and writes; atomics and NVLink are other matters."""

_BY_PRODUCT = "GNS"
_SLOW_SHARE = 0.6


def _is_near(letters: str | None) -> bool:
    """Whether NCCL takes peer-to-peer traffic for granted there: NVLink, or PCIe switches alone."""
    return letters is not None and (letters.startswith(("NV", "XGMI")) or letters in ("PIX", "PXB"))


def _is_consumer(case: Case, device: Device) -> bool:
    """Whether the driver gives the product no peer-to-peer traffic over PCIe: GeForce cards."""
    model = case.model_of(device)
    return model is not None and model.name.startswith("GeForce")


def tables(case: Case) -> Iterator[tuple[Output, P2pTable]]:
    """The tables of plain reads and writes."""
    for output, facts in case.facts("nvidia-smi-p2p"):
        yield from ((output, table) for table in facts.tables if table.capability in _OVER_PCIE)


# --- refused ---


def refused(case: Case) -> Iterator[Finding]:
    """Pairs that cannot reach each other's memory, by their table or by their product."""
    seen: set[tuple[str, str]] = set()
    for output, table in tables(case):
        pairs = [pair for pair in table.refused if pair[:2] not in seen]
        seen.update(pair[:2] for pair in pairs)
        if pairs and not case.gpus:
            yield _alone(output, table, pairs)
        elif pairs:
            yield from _placed(case, output, table, pairs)
    if not any(tables(case)):
        yield from _by_product(case)


def _alone(output: Output, table: P2pTable, pairs: list[tuple[str, str, str]]) -> Finding:
    """What a table without a topology tells."""
    marks = sorted({mark for _, _, mark in pairs})
    by_product = marks == [_BY_PRODUCT]
    sentence = f"{_names(pairs)} refuse peer-to-peer traffic ({_meaning(marks)})"
    return say(P2P_REFUSED, "note" if by_product else "finding", sentence, output.quote(table.line(pairs[0][0])))


def _meaning(marks: list[str]) -> str:
    return ", ".join(f"{mark}: {MEANINGS.get(mark, 'see its legend')}" for mark in marks)


def _names(pairs: list[tuple[str, str, str]]) -> str:
    names = [f"{one}-{other}" for one, other, _ in pairs]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more pairs" if len(names) > 4 else "")


def _placed(case: Case, output: Output, table: P2pTable, pairs: list[tuple[str, str, str]]) -> Iterator[Finding]:
    """A finding where the pairs are near enough to need it, a note where they would go through memory anyway."""
    groups: dict[bool, list[tuple[str, str, str]]] = {}
    for pair in pairs:
        hurts = _is_near(_letters(case, *pair[:2])) or pair[2] == "DR"
        groups.setdefault(hurts, []).append(pair)
    for hurts, group in groups.items():
        ids = tuple(dict.fromkeys(_id(case, name) for one, other, _ in group for name in (one, other)))
        first = group[0]
        letters = _letters(case, *first[:2])
        what = f"{_names(group)} ({letters or 'path not shown'}) refuse peer-to-peer traffic"
        marks = _meaning(sorted({mark for _, _, mark in group}))
        device = _device(case, first[0])
        quotes = [output.quote(table.line(first[0])), case.quote(device) if device else None]
        if hurts:
            yield say(P2P_REFUSED, "finding", f"{what} ({marks})", *quotes, subjects=ids)
        else:
            yield say(P2P_REFUSED, "note", f"{what}, so it goes through memory ({marks})", *quotes, subjects=ids)


def _device(case: Case, label: str) -> Device | None:
    return case.gpu(int(label.removeprefix("GPU"))) if label.removeprefix("GPU").isdecimal() else None


def _id(case: Case, label: str) -> str:
    device = _device(case, label)
    return device.id if device else label


def _letters(case: Case, one: str, other: str) -> str | None:
    return case.letters.get((_id(case, one), _id(case, other)))


def _by_product(case: Case) -> Iterator[Finding]:
    """Consumer cards below one switch: their driver refuses, whatever a table would say."""
    near = [
        (one, other)
        for one, other, letters in case.pairs
        if letters in ("PIX", "PXB") and _is_consumer(case, one) and _is_consumer(case, other)
    ]
    if near:
        one = near[0][0]
        model = case.model_of(one)
        assert model is not None, "a consumer card is a known product"
        pairs = _names([(a.name, b.name, "") for a, b in near])
        sentence = (
            f"{pairs} share PCIe switches, but {model.name} cards have no peer-to-peer traffic: data crosses the "
            "switch's uplink twice"
        )
        ids = tuple(dict.fromkeys(device.id for pair in near for device in pair))
        told = case.name_quote(one)
        severity: Severity = "finding" if told else "note"
        yield say(P2P_REFUSED, severity, sentence, told, case.quote(one), subjects=ids)


def shows_p2p(case: Case) -> bool:
    """Whether a table, or the products' names, tell of peer-to-peer traffic."""
    return any(tables(case)) or any(_is_consumer(case, gpu) for gpu in case.gpus)


# --- through a processor ---


def through_cpu(case: Case) -> Iterator[Finding]:
    """Pairs that may go peer to peer through a processor's PCIe roots, where pairs across sockets may not."""
    for output, table in tables(case):
        marks = {(one.id, other.id): (table.mark(one.name, other.name), letters) for one, other, letters in case.pairs}
        inside = [pair for pair, (mark, letters) in marks.items() if mark == "OK" and letters in ("PHB", "NODE")]
        across = [pair for pair, (mark, letters) in marks.items() if mark not in (None, "OK") and letters == "SYS"]
        if inside and across:
            sentence = (
                f"{'-'.join(inside[0])} may go peer to peer through the processor, {'-'.join(across[0])} may not: the "
                "former is often the slower of the two"
            )
            names = [case.topology.device(pair[0]).name for pair in (inside[0], across[0])] if case.topology else []
            quotes: list[Quote | None] = [output.quote(table.line(name)) for name in names]
            subjects = tuple(dict.fromkeys(end for pair in inside for end in pair))
            yield say(P2P_THROUGH_CPU, "finding", sentence, *quotes, subjects=subjects)
            return


# --- measured ---


def slow(case: Case) -> Iterator[Finding]:
    """Pairs that measure much less than others with the same letters."""
    for output, facts in case.facts("nvbandwidth"):
        address_of = {gpu.number: gpu.address for gpu in facts.gpus}
        for table in facts.between_gpus:
            rates: dict[str, list[tuple[float, str, str, int]]] = {}
            for (row, column), value in table.cells:
                ends = [_numbered(case, number, address_of.get(number)) for number in (row, column)]
                if value and row != column and None not in ends:
                    one, other = (end.id for end in ends if end)
                    rates.setdefault(case.letters.get((one, other)) or "", []).append((value, one, other, row))
            for letters, group in rates.items():
                yield from _outliers(output, table.line, table.words, letters, group)


def _outliers(
    output: Output, line: int, words: str, letters: str, group: list[tuple[float, str, str, int]]
) -> Iterator[Finding]:
    usual = median(value for value, *_ in group)
    for value, one, other, row in group:
        if letters and len(group) > 2 and value < _SLOW_SHARE * usual:
            sentence = (
                f"{one}-{other} ({letters}) measures {value / 1e9:.1f} GB/s, other {letters} pairs {usual / 1e9:.1f}"
            )
            quote = output.text.find(rf"^\s*{row}\s+\S", after=line)
            yield say(P2P_SLOW, "finding", sentence, output.quote(line), quote, subjects=(one, other))


def _numbered(case: Case, number: int, address: str | None) -> Device | None:
    """The GPU that nvbandwidth calls by that number: by its address, else NVML's GPU of that number."""
    from topo.merging.draft import address_of

    by_address = next((gpu for gpu in case.gpus if address and address_of(gpu) == address), None)
    return by_address or case.gpu(number)
