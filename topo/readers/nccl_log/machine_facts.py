"""What an NCCL log says of the machine, of settings and of what was chosen: one frozen class for each kind of line.

Times are seconds and rates bytes per second, as everywhere; `line` counts from 1.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Setting:
    """A NCCL_* variable that NCCL says it took from the environment."""

    line: int
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Warned:
    """What NCCL warned of, and the place in its source (`init.cc:1023`) where it says so."""

    line: int
    host: str | None
    code: str
    words: str


@dataclass(frozen=True, slots=True)
class NetworkDevice:
    """A network interface that NCCL uses: its number, its name, and `IB`, `RoCE` or `Socket`."""

    line: int
    host: str | None
    index: int
    name: str
    port: int | None
    kind: str


@dataclass(frozen=True, slots=True)
class GdrLine:
    """Whether GPUDirect RDMA is enabled, and for what, in NCCL's words ("HCA 0 'mlx5_0'")."""

    line: int
    host: str | None
    enabled: bool
    subject: str


@dataclass(frozen=True, slots=True)
class AnnouncedRank:
    """A rank as nccl-tests lists it before it starts: host, CUDA device, bus id and the GPU's name."""

    line: int
    rank: int
    host: str
    cuda_dev: int
    bus_id: str
    model: str


@dataclass(frozen=True, slots=True)
class SystemNode:
    """A part of NCCL's system graph: its kind (GPU, PCI, NVS, CPU, NIC, NET, DEV...), id and what stands behind it.

    `system` and `local_id` are the two halves of ids since NCCL 2.21 ("0-9b000"); before, `system` is empty.
    """

    line: int
    kind: str
    system: str
    local_id: str
    details: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """`GPU/0-9b000`, in lower case; equal for equal parts of one tree."""
        return f"{self.kind}/{self.system}-{self.local_id}" if self.system else f"{self.kind}/{self.local_id}"


@dataclass(frozen=True, slots=True)
class SystemLink:
    """A link of NCCL's system graph, one direction: its ends' names, NCCL's word (NVL, PCI, SYS, C2C...) and rate."""

    line: int
    src: str
    dst: str
    kind: str
    bandwidth_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class SystemTree:
    """The `=== System` block that a rank printed. `complete` is false where its end or one of its lines is missing."""

    line: int
    host: str | None
    max_bandwidth_bytes_per_s: float | None
    total_bandwidth_bytes_per_s: float | None
    nodes: tuple[SystemNode, ...]
    links: tuple[SystemLink, ...]
    complete: bool


@dataclass(frozen=True, slots=True)
class SystemPath:
    """A path that NCCL computed between two parts of its system graph; `kind` is NVL, PIX, PHB, SYS..."""

    line: int
    host: str | None
    src: str
    dst: str
    num_hops: int
    bandwidth_bytes_per_s: float
    kind: str


@dataclass(frozen=True, slots=True)
class GraphSearch:
    """What the search for one pattern found. `channels` are the rows below it: parts in order (`GPU/3`, `NET/0`)."""

    line: int
    host: str | None
    cuda_dev: int | None
    pattern: int
    cross_nic: int
    num_channels: int
    bandwidth_intra_bytes_per_s: float
    bandwidth_inter_bytes_per_s: float
    type_intra: str | None
    type_inter: str | None
    same_channels: bool
    channels: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class TuningEntry:
    """A cell of the tuning table: what NCCL expects of a function with one algorithm and protocol."""

    line: int
    function: str
    algorithm: str
    protocol: str
    latency_s: float
    bandwidth_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Choice:
    """What NCCL chose for one operation. `num_bytes` is its count times the size of an element, as printed.

    Names are toposcope's (ring, nvls-tree, collnet-direct; ll, ll128, simple), or NCCL's word where it is another;
    `function` is None before NCCL 2.23. The channels are the first and the last one used.
    """

    line: int
    function: str | None
    num_bytes: int
    algorithm: str
    protocol: str
    first_channel: int | None = None
    last_channel: int | None = None
    nccl_estimate_s: float | None = None


@dataclass(frozen=True, slots=True)
class Enabled:
    """What NCCL_ALGO and NCCL_PROTO leave enabled for one function."""

    line: int
    function: str
    protocols: tuple[str, ...]
    algorithms: tuple[str, ...]
