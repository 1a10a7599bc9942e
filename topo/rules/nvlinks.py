"""NVLinks that are down, missing, or fewer than they should be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from topo.case import Case, say
from topo.finding import Finding
from topo.nvlink_design import healthy_counts, is_bridged_card, is_module
from topo.nvlink_groups import nvlink_groups
from topo.words import counted

if TYPE_CHECKING:
    from topo.captures import Output
    from topo.gpu_models import GpuModel
    from topo.readers.nvlink_status import GpuNvlinks
    from topo.topology import Device

NVLINK_INACTIVE = "nvlink-inactive"
NVLINK_BRIDGE = "nvlink-bridge"
NVLINK_FEWER = "nvlink-fewer"
NVLINK_MISSING = "nvlink-missing"
NVLINK_ERRORS = "nvlink-errors"
NVLINK_P2P = "nvlink-p2p"

_CARD = re.compile(r"RTX|Quadro|GeForce|TITAN|PCIe", re.IGNORECASE)
"""Names of cards, as opposed to modules on a board, also of products that are not known here."""

_POWER9_FIRST_NUMA = 8
"""POWER9 numbers the NUMA node of its second socket 8: no other processor does on two sockets."""


# --- nvidia-smi nvlink -s ---


def inactive(case: Case) -> Iterator[Finding]:
    """GPUs with fewer active links than their product or their neighbours have; cards without a bridge are noted."""
    for output, facts in case.facts("nvlink-status"):
        most = max((len(gpu.in_state("active")) for gpu in facts.gpus), default=0)
        for found in facts.gpus:
            model = case.model(found.gpu, found.name)
            if found.verdict == "all inactive" or (found.links and not found.in_state("active")):
                yield _all_down(case, output, found, model, alone=_is_alone(case, output, found))
            elif found.verdict == "links" and found.complete and not found.in_state("unknown"):
                yield from _some_down(case, output, found, model, most)
    yield from _marked_inactive(case)


def _title(found: GpuNvlinks) -> str:
    return "a GPU" if found.gpu is None else f"GPU{found.gpu}"


def _subject(case: Case, found: GpuNvlinks) -> tuple[str, ...]:
    device = case.gpu(found.gpu)
    return (device.id if device else f"GPU{found.gpu}",) if found.gpu is not None else ()


def _is_alone(case: Case, output: Output, found: GpuNvlinks) -> bool:
    """Whether nothing shows a second GPU."""
    count = case.num_gpus or max(len(output.facts.gpus), (found.gpu or 0) + 1)
    return count == 1


def _all_down(case: Case, output: Output, found: GpuNvlinks, model: GpuModel | None, *, alone: bool) -> Finding:
    quotes = [output.quote(found.line), *(output.quote(line) for line in _words_below(output, found))]
    subject = _subject(case, found)
    if is_bridged_card(model) or (model is None and _CARD.search(found.name or "")):
        sentence = f"{_title(found)}: no NVLink is up, as on a card ({found.name}) without a bridge"
        return say(NVLINK_INACTIVE, "note", sentence, *quotes, subjects=subject)
    if alone:
        sentence = f"{_title(found)}: no NVLink is up, as on the only GPU of a machine"
        return say(NVLINK_INACTIVE, "note", sentence, *quotes, subjects=subject)
    sentence = f"{_title(found)}: all of its NVLinks are inactive, so it reaches the other GPUs over PCIe alone"
    return say(NVLINK_INACTIVE, "finding", sentence, *quotes, subjects=subject)


def _words_below(output: Output, found: GpuNvlinks) -> list[int]:
    """The line that says so, below the GPU's own: the message, or the first link."""
    if found.links:
        return [found.links[0].line]
    quote = output.text.find(r"(?i)all links are in-?active", after=found.line - 1)
    return [quote.line] if quote and quote.line else []


def _some_down(case: Case, output: Output, found: GpuNvlinks, model: GpuModel | None, most: int) -> Iterator[Finding]:
    active, healthy = len(found.in_state("active")), healthy_counts(model)
    down = found.in_state("inactive")
    if healthy is not None and active in healthy:
        return
    if healthy is not None and active > max(healthy):
        return
    expected = min((count for count in healthy if count > active), default=0) if healthy else most
    if active >= expected:
        return
    of_what = f"{model.name} has {expected}" if healthy and model else f"others of this machine have {expected}"
    quotes = [output.quote(found.line), *(output.quote(link.line) for link in down[:2])]
    sentence = f"{_title(found)}: {counted(active, 'NVLink')} {'is' if active == 1 else 'are'} active, {of_what}"
    yield say(NVLINK_INACTIVE, "finding", sentence, *quotes, subjects=_subject(case, found))


def shows_states(case: Case) -> bool:
    """Whether anything tells which NVLinks are up."""
    marked = bool(case.topology and any(link.state == "inactive" for link in case.topology.links))
    return marked or bool(case.captures.of("nvlink-status"))


def _marked_inactive(case: Case) -> Iterator[Finding]:
    """Links that the topology itself marks as down (a document of ours)."""
    if case.topology is None or case.captures.of("nvlink-status"):
        return
    for link in case.topology.links:
        if (
            link.state == "inactive"
            and link.kind in ("nvlink", "xgmi")
            and case.topology.device(link.src).kind == "gpu"
        ):
            quote = next((o.text.find('"state": "inactive"') for o in case.captures.of("topology-json")), None)
            sentence = f"{link.src}: its {link.kind} to {link.dst} is marked inactive"
            yield say(NVLINK_INACTIVE, "finding", sentence, quote, subjects=(link.src,))


# --- letters ---


def bridges(case: Case) -> Iterator[Finding]:
    """Pairs whose NV# no bridge gives: a connector in partial contact counts fewer links."""
    for output, facts in case.facts("nvidia-smi-topo"):
        counts = _counts(facts.cells)
        groups = [group for group in nvlink_groups(facts.gpus, counts) if len(group.gpus) == 2 and group.pairs]
        most = max((group.pairs[0][2] for group in groups), default=0)
        for group in groups:
            one, other, count = group.pairs[0]
            model = case.model(int(one.removeprefix("GPU")))
            expected = _expected_of_bridge(case, count, most, model, num_pairs=len(groups))
            if expected:
                sentence = f"{one}-{other} shows NV{count}: {expected}, so a bridge makes partial contact"
                quotes = (output.quote(facts.line(one)), output.quote(facts.line(other)))
                yield say(NVLINK_BRIDGE, "finding", sentence, *quotes, subjects=(one, other))


def _expected_of_bridge(case: Case, count: int, most: int, model: GpuModel | None, *, num_pairs: int) -> str:
    """Why a pair's count is too low, "" where it is not."""
    healthy = healthy_counts(model)
    if healthy is not None and model is not None:
        odd = is_bridged_card(model) and count not in healthy
        return f"bridges of a {model.name} give {' or '.join(str(n) for n in healthy if n)} links" if odd else ""
    if count < most:
        return f"another pair of this machine has {counted(most, 'link')}"
    lone = num_pairs == 1 and len(case.gpus) == 2
    if count > 1 and count % 2 and lone and model is None and not _may_be_power9(case):
        return "bridges give 1 link or an even number"
    return ""


def _may_be_power9(case: Case) -> bool:
    """Whether the machine can be one whose processors have NVLinks, three to each of two GPUs."""
    topology = case.topology
    assert topology is not None, "letters come with a topology"
    numbers = [device.numa_node or 0 for device in topology.devices]
    memory = any(link.kind == "c2c" for link in topology.links)
    return memory or max(numbers) >= _POWER9_FIRST_NUMA or any(cpu.vendor == "IBM" for cpu in topology.of_kind("cpu"))


def _counts(cells: tuple[tuple[tuple[str, str], str | None], ...]) -> Mapping[tuple[str, str], int]:
    return {pair: int(letters[2:]) for pair, letters in cells if letters and letters.startswith("NV")}


def fewer_than_neighbours(case: Case) -> Iterator[Finding]:
    """GPUs with fewer links to the NVSwitches than most others of the same board, or with none."""
    ports = {gpu.id: _switch_lanes(case, gpu) for gpu in case.gpus}
    on_switch = [gpu for gpu in case.gpus if ports[gpu.id]]
    if len(on_switch) < 2 or 2 * len(on_switch) <= len(case.gpus):
        return
    most = max(ports.values())
    full = next(gpu for gpu in on_switch if ports[gpu.id] == most)
    for gpu in case.gpus:
        if ports[gpu.id] < most:
            has = counted(ports[gpu.id], "NVLink") if ports[gpu.id] else "no NVLink"
            sentence = f"{gpu.name}: {has} to the NVSwitches, {full.name} has {most}"
            yield say(NVLINK_FEWER, "finding", sentence, case.quote(gpu), case.quote(full), subjects=(gpu.id,))


def _switch_lanes(case: Case, gpu: Device) -> int:
    assert case.topology is not None, "GPUs come with a topology"
    return sum(link.lanes for link in case.nvlinks(gpu) if case.topology.device(link.dst).kind == "nvswitch")


def missing(case: Case) -> Iterator[Finding]:
    """Modules that are built with NVLinks, on a machine that shows none."""
    models = [case.model_of(gpu) for gpu in case.gpus]
    if len(case.gpus) < 2 or not all(map(is_module, models)) or any(map(case.nvlinks, case.gpus)):
        return
    first = case.gpus[0]
    assert models[0] is not None, "a module is a known product"
    sentence = (
        f"{len(case.gpus)} GPUs are {models[0].name} modules, which are wired to each other, yet no NVLink is shown"
    )
    subjects, told = tuple(gpu.id for gpu in case.gpus), case.name_quote(first)
    yield say(NVLINK_MISSING, "finding" if told else "note", sentence, told, case.quote(first), subjects=subjects)


# --- counters and capabilities ---


def errors(case: Case) -> Iterator[Finding]:
    """Links that had to be trained again are a finding; repeated packets are noted."""
    for output, facts in case.facts("nvlink-errors"):
        for found in facts.gpus:
            for counter in found.failed:
                severe = "recovery" in counter.name.lower()
                sentence = f"GPU{found.gpu}: link {counter.number} counts {counter.count} {counter.name}"
                yield say(NVLINK_ERRORS, "finding" if severe else "note", sentence, output.quote(counter.line))


def without_p2p(case: Case) -> Iterator[Finding]:
    """Links that say that they do not carry peer-to-peer traffic."""
    for output, facts in case.facts("nvlink-capabilities"):
        for found in facts.gpus:
            for row in found.lacking("P2P is supported")[:1]:
                sentence = f"GPU{found.gpu}: link {row.number} does not support peer-to-peer traffic"
                yield say(NVLINK_P2P, "finding", sentence, output.quote(row.line))
