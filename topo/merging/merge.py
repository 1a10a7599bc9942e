"""Several captures of one machine -> one topology.

The skeleton comes from the output that says the most of how the machine is built; the others fill in names, addresses
and rates, and are held against it. Where two contradict each other, both are named in a finding, and the stricter one
counts: fewer NVLinks, fewer lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topo import readers
from topo.errors import CaptureError
from topo.gpu_models import GpuModel
from topo.merging.draft import Draft, address_of
from topo.merging.gpus import KnownGpus, check_functions, known_gpus
from topo.merging.host import set_nics, set_processors
from topo.merging.nvlinks import capability_by_rate, hold_against_matrix, hold_against_status
from topo.merging.pcie import set_ports, trees
from topo.topology import Device, GpuFacts, PciFacts, Provenance, Topology

if TYPE_CHECKING:
    from topo.captures import Captures, Output
    from topo.nccl_run import NcclRun

MATRIX = "nvidia-smi-topo"
XML = "nccl-xml"


def merge(captures: Captures, where: str) -> Topology:
    """The topology that all captures together show; `where` names them in errors.

    CaptureError where none of them is a topology, where the one to build on cannot be read or is there several times
    with different content, or where they are of different machines.
    """
    captures = with_one_matrix(captures)
    skeleton = _skeleton(captures, where)
    gpus = known_gpus(captures)
    _check_pci(captures, gpus)
    draft = Draft(_build(skeleton, gpus, captures))
    if len({device.host for device in draft.devices("gpu", "cpu")}) <= 1:
        _refine(draft, captures, skeleton, gpus)
    draft.nccl = draft.nccl or _run(captures)
    draft.findings.extend(captures.unread())
    draft.findings = [captures.named(finding) for finding in draft.findings]
    return _named(draft.topology(_provenance(draft, captures, skeleton)), captures, skeleton, where)


def _run(captures: Captures) -> NcclRun | None:
    """The run that a log beside the skeleton shows."""
    if not captures.of("nccl-log"):
        return None
    from topo.readers.nccl_log.run import run_of

    return run_of(captures.of("nccl-log")[0].facts)


def _refine(draft: Draft, captures: Captures, skeleton: Output, gpus: KnownGpus) -> None:
    """Works in what the other outputs say of the one host."""
    _identify(draft, gpus)
    set_nics(draft, captures)
    set_processors(draft, captures)
    if skeleton.reader.name != "sysfs":
        set_ports(draft, captures)
    for output in captures.of(MATRIX):
        if output is not skeleton:
            hold_against_matrix(draft, output, skeleton)
    hold_against_status(draft, captures, skeleton)


# --- the skeleton ---


def _skeleton(captures: Captures, where: str) -> Output:
    """The output to build on."""
    ranked = sorted(captures.outputs, key=lambda output: _rank(output, captures))
    best = next((output for output in ranked if not output.reader.supporting), None)
    if best is None:
        raise _no_topology(captures, where)
    same = captures.of(best.reader.name)
    if any(output.text.content != best.text.content for output in same):
        names = ", ".join(output.text.source for output in same)
        raise CaptureError(f"holds several topologies in {best.reader.title}: give one of {names}", source=where)
    return best


def _rank(output: Output, captures: Captures) -> tuple[bool, bool, int]:
    """The place of an output among those to build on: an XML without GPUs tells less than a matrix."""
    bare = output.reader.name == XML and output.problem is None and not output.facts.complete
    place = list(readers.READERS).index(output.reader.name)
    return output.problem is not None, bare and bool(captures.of(MATRIX)), place


def with_one_matrix(captures: Captures) -> Captures:
    """The captures with all matrices (`-m` and `-mp`) as one; CaptureError where they are of two machines."""
    from topo.readers.nvidia_smi_topo import one_machine

    matrices = captures.of(MATRIX)
    if len(matrices) < 2:
        return captures
    facts = one_machine([output.facts for output in matrices])
    base = next(output for output in matrices if output.facts.row_lines == facts.row_lines)
    whole = replace(base, facts=facts)
    others = tuple(output for output in captures.outputs if output.reader.name != MATRIX)
    return replace(captures, outputs=(whole, *others))


def _no_topology(captures: Captures, where: str) -> CaptureError:
    for text, quote in captures.error_messages():
        return CaptureError(
            f'this is an error message, not a topology ("{quote.text}"): mend that and capture again',
            source=text.source,
            line=quote.line,
        )
    if len(captures.texts) == 1 and captures.outputs:
        return captures.outputs[0].reader.no_topology(captures.texts[0].source)
    return CaptureError(f"holds no topology: read are {readers.titles()}", source=where)


def _build(skeleton: Output, gpus: KnownGpus, captures: Captures) -> Topology:
    """The skeleton's topology; a matrix is built with the products that other outputs name."""
    if skeleton.reader.name != MATRIX or skeleton.problem is not None:
        return skeleton.topology()
    from topo.merge import from_matrix

    models = {f"GPU{index}": gpu.model for index, gpu in gpus.by_index.items() if gpu.model is not None}
    capability = capability_by_rate(captures)
    if capability is not None and not models:
        models = {name: _of_rate(capability) for name in skeleton.facts.gpus}
    return from_matrix(skeleton.facts, {name: model for name, model in models.items() if name in skeleton.facts.gpus})


def _of_rate(capability: int) -> GpuModel:
    """A GPU of which only the rate of its NVLinks is known."""
    return GpuModel("", capability, 0, {86: 4, 100: 5}[capability], 1.0, "the rate of its NVLinks")


# --- what the other outputs add ---


def _identify(draft: Draft, gpus: KnownGpus) -> None:
    """Product, address and compute capability of each GPU, where the skeleton lacks them."""
    for device in draft.devices("gpu"):
        found = gpus.find(device.gpu.index if device.gpu else None, address_of(device))
        if found is not None:
            pci = device.pci or (PciFacts(bus_id=found.address) if found.address else None)
            draft.put(replace(device, model=device.model or found.name, pci=pci, gpu=_capable(device, found.model)))


def _capable(device: Device, model: GpuModel | None) -> GpuFacts | None:
    facts = device.gpu
    if facts is None or facts.compute_capability is not None or model is None:
        return facts
    return replace(facts, compute_capability=model.compute_capability)


def _check_pci(captures: Captures, gpus: KnownGpus) -> None:
    """Every GPU that the driver shows stands among the functions that /sys or lspci shows."""
    words = [word for gpu in gpus.by_address.values() for word in gpu.words]
    for output, tree in trees(captures):
        check_functions(words, dict.fromkeys((gpu.address for gpu in tree.gpus), output))
    for output, facts in captures.facts("lspci"):
        if not facts.excerpt:
            check_functions(words, dict.fromkeys(facts.gpus, output))


def _provenance(draft: Draft, captures: Captures, skeleton: Output) -> Iterable[Provenance]:
    """The skeleton's kind of source first, then the others."""
    kind = draft.kind or skeleton.reader.title
    rest = [output for output in captures.outputs if output is not skeleton and output.problem is None]
    sources: Mapping[Provenance, Any] = dict.fromkeys(
        (
            Provenance(kind, skeleton.text.name or skeleton.text.source),
            *(Provenance(output.reader.title, output.text.name or output.text.source) for output in rest),
        )
    )
    return tuple(sources)


def _named(topology: Topology, captures: Captures, skeleton: Output, where: str) -> Topology:
    """The topology, called like its file or folder where it has no name of its own."""
    if topology.name:
        return topology
    if len(captures.texts) == 1:
        return replace(topology, name=Path(skeleton.text.source).stem)
    return replace(topology, name=Path(where).name or Path(where).resolve().name)
