"""GPUs that are gone, an odd number of them, or cut into slices."""

from __future__ import annotations

from collections.abc import Iterator

from topo.captures import Output
from topo.case import Case, say
from topo.finding import Finding
from topo.merging.pcie import trees
from topo.words import counted

GPU_COUNT = "gpu-count"
GPU_LOST = "gpu-lost"
MIG = "mig"

BOARD_SIZES = (1, 2, 4, 8, 16)
_BOARD = 8
_LOST = r"(?i)unable to determine the device handle|gpu is lost"


def count(case: Case) -> Iterator[Finding]:
    """Seven GPUs on NVSwitches are a board of eight that lost one; other odd numbers are noted."""
    number = len(case.gpus)
    if case.topology is None or number in BOARD_SIZES or number < 2 or number > BOARD_SIZES[-1]:
        return
    first = case.gpus[0]
    subjects = tuple(gpu.id for gpu in case.gpus)
    if number == _BOARD - 1 and case.topology.of_kind("nvswitch") and all(map(case.nvlinks, case.gpus)):
        sentence = f"{number} GPUs share NVSwitches, which come on boards of {_BOARD}: one is missing"
        yield say(GPU_COUNT, "finding", sentence, case.quote(first), case.quote(case.gpus[-1]), subjects=subjects)
    else:
        sentence = f"{number} GPUs: trees and recursive algorithms run evenly on 2, 4 or 8"
        yield say(GPU_COUNT, "note", sentence, case.quote(first), subjects=subjects)


def lost(case: Case) -> Iterator[Finding]:
    """A GPU that the driver cannot reach is a finding; one that only PCI shows may be hidden on purpose."""
    for text in case.captures.texts:
        quote = text.find(_LOST)
        if quote is not None:
            yield say(GPU_LOST, "finding", "the driver cannot reach a GPU", quote)
    shown = case.num_gpus
    for output, addresses in _on_pci(case):
        if shown and len(addresses) > shown:
            quote = output.text.find(addresses[-1].removeprefix("0000:"))
            on_pci = counted(len(addresses), "GPU")
            sentence = f"{output.title} shows {on_pci} on PCI, the driver {shown}: hidden or lost"
            yield say(GPU_LOST, "note", sentence, quote)


def _on_pci(case: Case) -> Iterator[tuple[Output, tuple[str, ...]]]:
    """The addresses of NVIDIA's GPUs as PCI shows them."""
    for output, tree in trees(case.captures):
        yield output, tuple(gpu.address for gpu in tree.gpus if gpu.vendor_id == "0x10de")
    for output, facts in case.facts("lspci"):
        if not facts.excerpt:
            nvidia = [f for f in facts.functions if f.is_gpu and ("nvidia" in f.name.lower() or f.vendor_id == "10de")]
            yield output, tuple(function.address for function in nvidia if function.address)


def mig(case: Case) -> Iterator[Finding]:
    """GPUs that are cut into MIG devices."""
    for output, facts in case.facts("nvidia-smi-list"):
        for gpu in facts.gpus:
            for device in gpu.mig_devices[:1]:
                slices = f"{len(gpu.mig_devices)} MIG devices"
                sentence = f"GPU{gpu.gpu} is cut into {slices}, which reach no peer over NVLink or PCIe"
                yield say(MIG, "finding", sentence, output.quote(device.line), subjects=(f"GPU{gpu.gpu}",))
    for output, facts in case.facts("nvidia-smi-query"):
        for row in facts.gpus:
            if row.mig_enabled:
                sentence = f"GPU{row.index} has MIG enabled: its slices reach no peer over NVLink or PCIe"
                yield say(MIG, "finding", sentence, output.quote(row.line), subjects=(f"GPU{row.index}",))
