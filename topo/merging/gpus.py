"""What each output says of each GPU, put together; captures that cannot be of one machine are refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

from topo.errors import CaptureError
from topo.finding import Quote
from topo.gpu_models import GpuModel, gpu_model, is_same_product
from topo.readers.pci_address import canonical
from topo.words import counted

if TYPE_CHECKING:
    from topo.captures import Captures, Output


@dataclass(frozen=True, slots=True)
class Word:
    """What one line of one output says of one GPU, None for what it does not say.

    `index` is NVML's, `address` Linux' form of the PCI bus id, `capability` ten times CUDA's.
    """

    output: Output
    line: int | None
    index: int | None = None
    address: str | None = None
    name: str | None = None
    capability: int | None = None

    @property
    def model(self) -> GpuModel | None:
        """The product that the name stands for."""
        return gpu_model(self.name) if self.name else None

    def quote(self) -> Quote:
        """The line as evidence; where the output has no lines, the first one with the address."""
        found = self.output.text.find(f"(?i){re.escape(self.address)}") if self.line is None and self.address else None
        return found or self.output.quote(self.line)

    def describe(self) -> str:
        """The line's words with its place, or what the output says where it has no line for them."""
        quote = self.quote()
        if quote.text:
            return str(quote)
        said = [f"GPU {self.index}" if self.index is not None else "a GPU", self.address and f"at {self.address}"]
        return f"{self.output.title} has {' '.join(word for word in (*said, self.name) if word)}"


@dataclass(frozen=True, slots=True)
class KnownGpu:
    """One GPU as all outputs together tell it, with the words that do."""

    index: int | None
    address: str | None
    name: str | None
    model: GpuModel | None
    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class KnownGpus:
    """The GPUs of one machine by NVML's index, and by address where their index is not known."""

    by_index: Mapping[int, KnownGpu]
    by_address: Mapping[str, KnownGpu]

    def find(self, index: int | None, address: str | None) -> KnownGpu | None:
        """The GPU of that index, else of that address."""
        found = self.by_index.get(index) if index is not None else None
        return found or (self.by_address.get(address) if address else None)


def known_gpus(captures: Captures) -> KnownGpus:
    """All that the captures say of their GPUs. CaptureError where they are of two machines."""
    words = [word for output in captures.outputs if output.problem is None for word in words_of(output)]
    _check_counts(captures)
    _check_pairs(words, "index", "address", _same)
    _check_pairs(words, "index", "name", _same_product)
    _check_pairs(words, "address", "name", _same_product)
    _check_members(words)
    _check_capabilities(words)
    addresses = {word.index: word.address for word in words if word.index is not None and word.address}
    indices = {address: index for index, address in addresses.items()}
    gathered: dict[int | str, list[Word]] = {}
    for word in words:
        index = word.index if word.index is not None else indices.get(word.address or "")
        key = index if index is not None else word.address
        if key is not None:
            gathered.setdefault(key, []).append(word)
    known = [_known(group) for group in gathered.values()]
    return KnownGpus(
        {gpu.index: gpu for gpu in known if gpu.index is not None},
        {gpu.address: gpu for gpu in known if gpu.address},
    )


def _known(words: Sequence[Word]) -> KnownGpu:
    def first(field: str) -> Any:
        return next((value for word in words if (value := getattr(word, field)) is not None), None)

    named = next((word for word in words if word.model), None)
    name = named.name if named else first("name")
    return KnownGpu(first("index"), first("address"), name, named.model if named else None, tuple(words))


# --- what each format says ---


def words_of(output: Output) -> Iterator[Word]:
    """What an output says of GPUs, one by one; nothing where its format does not tell them apart."""
    read = _WORDS.get(output.reader.name)
    if read is not None:
        for line, fields in read(output.facts):
            yield Word(output, line, **fields)


Said = Iterator[tuple["int | None", dict[str, Any]]]


def _query(facts: Any) -> Said:
    for row in facts.gpus:
        said = {"address": row.address, "name": row.name, "capability": row.compute_capability}
        yield row.line, {"index": row.index, **said}


def _listed(facts: Any) -> Said:
    for row in facts.gpus:
        yield row.line, {"index": row.gpu, "name": row.name}


def _headed(facts: Any) -> Said:
    for row in facts.gpus:
        yield row.line, {"index": row.gpu, "name": row.name or None}


def _measured(facts: Any) -> Said:
    """CUDA may number GPUs otherwise than NVML, so only the address tells which is meant."""
    for row in facts.gpus:
        if row.address:
            yield row.line, {"address": row.address, "name": row.name}


def _logged(facts: Any) -> Said:
    from topo.log_machine import bus_id_of

    main = facts.main
    hosts = {place.host for place in main.places} if main else set()
    if main is None or len(hosts) > 1:
        return
    for place in main.places:
        address = bus_id_of(place.bus_id) if place.bus_id else None
        yield None, {"index": place.nvml_dev, "address": address, "name": place.model}


def _rocm(facts: Any) -> Said:
    for row in facts.gpus:
        yield row.line, {"index": row.number, "address": row.address, "name": row.name}


def _topology(facts: Any) -> Said:
    hosts = {device.host for device in facts.devices}
    if len(hosts) > 1:
        return
    for device in facts.of_kind("gpu"):
        gpu = device.gpu
        address = canonical(device.pci.bus_id) if device.pci and device.pci.bus_id else None
        capability = gpu.compute_capability if gpu else None
        index = gpu.index if gpu else None
        yield None, {"index": index, "address": address, "name": device.model, "capability": capability}


def _hwloc(facts: Any) -> Said:
    for found in facts.machine.walk():
        if found.kind == "pci" and found.is_gpu and found.address:
            yield found.line, {"index": found.index_by("nvml"), "address": found.address}


_WORDS: Mapping[str, Callable[[Any], Said]] = {
    "nvidia-smi-query": _query,
    "nvidia-smi-list": _listed,
    "nvlink-status": _headed,
    "nvlink-remote": _headed,
    "nvlink-capabilities": _headed,
    "nvlink-errors": _headed,
    "nvbandwidth": _measured,
    "nccl-log": _logged,
    "rocm-smi": _rocm,
    "nccl-xml": _topology,
    "topology-json": _topology,
    "hwloc-xml": _hwloc,
    "lstopo": _hwloc,
}
"""How GPUs are told apart in each format that does."""


# --- whether it is one machine ---


def _check_counts(captures: Captures) -> None:
    """Outputs that show every GPU show equally many; no other one shows more."""
    full = [(output, count) for output in captures.outputs if (count := num_gpus(output)) is not None]
    for (one, ours), (other, theirs) in combinations(full, 2):
        if ours != theirs:
            raise _two_machines(f"{one.title} shows {counted(ours, 'GPU')}", f"{other.title} shows {theirs}")
    if not full:
        return
    whole, count = full[0]
    for output in captures.of("nccl-xml", "nvlink-status", "nccl-log"):
        found = {word.index for word in words_of(output) if word.index is not None}
        if output.reader.name == "nccl-xml" and len(list(words_of(output))) > count:
            raise _two_machines(
                f"{whole.title} shows {counted(count, 'GPU')}", f"{output.title} {len(list(words_of(output)))}"
            )
        if max(found, default=-1) >= count:
            raise _two_machines(
                f"{whole.title} shows {counted(count, 'GPU')}", f"{output.title} has a GPU {max(found)}"
            )


def num_gpus(output: Output) -> int | None:
    """How many GPUs the machine has by an output that shows all of them; None where it may show some."""
    if output.problem is not None:
        return None
    facts, form = output.facts, output.reader.name
    if form == "nvidia-smi-topo":
        return len(facts.gpus) if facts.complete else None
    if form == "nvidia-smi-list":
        return len(facts.gpus)
    if form == "nvidia-smi-p2p":
        return max((len(table.names) for table in facts.tables if table.complete), default=None)
    if form == "nvidia-smi-query":
        return len(facts.gpus) if [row.index for row in facts.gpus] == list(range(len(facts.gpus))) else None
    return None


def _check_pairs(words: Sequence[Word], key: str, value: str, same: Callable[[str, str], bool]) -> None:
    """What has one `key` (index, address) has one `value` (address, name) in all outputs."""
    first: dict[Any, Word] = {}
    for word in words:
        said, is_of = getattr(word, value), getattr(word, key)
        if said is None or is_of is None:
            continue
        known = first.setdefault(is_of, word)
        if not same(getattr(known, value), said):
            raise _two_machines(known.describe(), word.describe())


def _same(one: str, other: str) -> bool:
    return one == other


def _same_product(one: str, other: str) -> bool:
    """Whether two names can be of one product: one tool may know the GPU no better."""
    return is_same_product(one, other) or (gpu_model(one) is None) != (gpu_model(other) is None)


def _check_members(words: Sequence[Word]) -> None:
    """What a tool of the driver shows is among the GPUs that a full query shows."""
    queried = [word for word in words if word.output.reader.name == "nvidia-smi-query"]
    if not queried or any(word.address is None for word in queried) or num_gpus(queried[0].output) is None:
        return
    known = {word.address for word in queried}
    for word in words:
        of_driver = word.output.reader.name in ("nccl-xml", "nccl-log", "nvbandwidth")
        if of_driver and word.address and word.address not in known:
            raise _two_machines(
                f"{queried[0].output.title} has no GPU at {word.address} ({queried[0].describe()})", word.describe()
            )


def check_functions(words: Iterable[Word], functions: Mapping[str, Output]) -> None:
    """Every GPU stands among the PCI functions of the same machine (address -> output), where those are shown whole."""
    if not functions:
        return
    output = next(iter(functions.values()))
    for word in words:
        if word.address and word.address not in functions:
            raise _two_machines(word.describe(), f"{output.title} shows no GPU there, but at {min(functions)}")


def _check_capabilities(words: Sequence[Word]) -> None:
    for index in {word.index for word in words if word.index is not None}:
        of_gpu = [word for word in words if word.index == index]
        stated = [(word.capability or (word.model and word.model.compute_capability), word) for word in of_gpu]
        known = [(capability, word) for capability, word in stated if capability]
        for capability, word in known[1:]:
            if capability != known[0][0]:
                raise _two_machines(known[0][1].describe(), word.describe())


def _two_machines(one: str, other: str) -> CaptureError:
    return CaptureError(f"these captures are of different machines: {one}, yet {other}; give those of one machine")
