"""What a finding costs: an all-reduce on the machine as it is, beside the same one on the machine without the fault.

Both are simulated, with one ring, so that a difference is the fault's and not an algorithm's. A fault that the model
cannot express (a processor that forwards badly, a hang) has no cost here, which is not the same as costing nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from sim.doctor_tests import look_at_tests
from topo import mending
from topo.case import Case
from topo.errors import TopoError
from topo.finding import Finding
from topo.findings import Rule, examine, rule_of
from topo.merging.draft import address_of
from topo.merging.pcie import said_of
from topo.nvlink_design import healthy_counts
from topo.rules import nvlinks, p2p, pcie, run

if TYPE_CHECKING:
    from topo.captures import Text
    from topo.readers.nccl_tests import NcclTestsTable
    from topo.topology import Topology

NUM_BYTES = 256 * 2**20
COLLECTIVE = "all_reduce"
ENGINE = "steady"

LEAST_SHARE = 0.005
"""A smaller difference is none."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The busbw of an all-reduce of `num_bytes` as things are and as they would be, simulated."""

    num_bytes: int
    now_bytes_per_s: float
    mended_bytes_per_s: float

    @property
    def lost_share(self) -> float:
        """Which share of the rate the fault takes, 0 to 1."""
        return max(0.0, 1 - self.now_bytes_per_s / self.mended_bytes_per_s)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A finding with the rule that it breaks (None: something that was noticed while reading) and what it costs."""

    finding: Finding
    rule: Rule | None = None
    cost: Cost | None = None


def diagnose(case: Case, tests: NcclTestsTable | None = None, tests_text: Text | None = None) -> tuple[Diagnosis, ...]:
    """All findings with their costs, then notes; with what a table of nccl-tests shows beside the simulation."""
    simulated = cache(busbw)
    measured = look_at_tests(case, tests, tests_text) if tests and tests_text else ()
    said = [*examine(case), *measured]
    found = sorted(said, key=lambda finding: finding.severity != "finding")
    return tuple(Diagnosis(finding, rule_of(finding), _cost(case, finding, simulated)) for finding in found)


def _cost(case: Case, finding: Finding, simulated: Callable[[Topology], float | None]) -> Cost | None:
    """What the fault costs; None where the model cannot express it, or sees no difference."""
    variants = VARIANTS.get(finding.rule)
    if finding.severity == "note" or variants is None or case.topology is None or case.topology.num_ranks < 2:
        return None
    try:
        now, mended = (simulated(machine) for machine in variants(case, case.topology, finding))
    except TopoError:
        return None
    if now is None or mended is None or 1 - now / mended < LEAST_SHARE:
        return None
    return Cost(NUM_BYTES, now, mended)


def busbw(machine: Topology) -> float | None:
    """The simulated busbw of one ring's all-reduce, bytes per second.

    By an engine that follows every link: the closed form of NCCL's kernels knows machines as they should be, and would
    see no difference.
    """
    from sim.predict import predict
    from sim.workload import Workload

    return predict(machine, Workload(COLLECTIVE, NUM_BYTES), algorithm="ring", engine=ENGINE).busbw_bytes_per_s


# --- the machine as it is, and as it would be ---

Variants = Callable[[Case, "Topology", Finding], "tuple[Topology, Topology]"]


def _more_nvlinks(case: Case, topology: Topology, finding: Finding) -> tuple[Topology, Topology]:
    return topology, mending.with_full_nvlinks(topology, finding.subjects, _design(case, finding))


def _design(case: Case, finding: Finding) -> int | None:
    """How many NVLinks the product has, where it is a module that is wired in full to NVSwitches."""
    assert case.topology is not None, "what it costs is asked of a topology"
    device = next((gpu for gpu in case.gpus if gpu.id in finding.subjects), None)
    counts = healthy_counts(case.model_of(device)) if device else None
    return counts[0] if counts and len(counts) == 1 and case.topology.of_kind("nvswitch") else None


def _whole_bridge(case: Case, topology: Topology, finding: Finding) -> tuple[Topology, Topology]:
    """A bridge's links come in fours but on Turing: an odd count is of four."""
    one = next(gpu for gpu in case.gpus if gpu.name == finding.subjects[0])
    lanes = max((link.lanes for link in case.nvlinks(one)), default=1)
    best = max((link.lanes for gpu in case.gpus for link in case.nvlinks(gpu)), default=lanes)
    return topology, mending.with_full_nvlinks(topology, finding.subjects, max(best, 2 if lanes < 2 else 4))


def _nvswitch(case: Case, topology: Topology, finding: Finding) -> tuple[Topology, Topology]:
    return topology, mending.with_nvswitch(topology)


def _wider(case: Case, topology: Topology, finding: Finding) -> tuple[Topology, Topology]:
    lanes = {}
    for device_id in finding.subjects:
        device = topology.device(device_id)
        rows = said_of(case.captures, device.gpu.index if device.gpu else None, address_of(device))
        lanes[device_id] = max((row.best_width for row in rows if row.best_width), default=1)
    return topology, mending.with_lanes_of_pcie(topology, lanes)


def _redirected(case: Case, topology: Topology, finding: Finding) -> tuple[Topology, Topology]:
    return mending.through_roots(topology, to_cpu=False), topology


def _through_memory(case: Case, topology: Topology, finding: Finding) -> tuple[Topology, Topology]:
    without = tuple(link for link in topology.links if link.kind not in ("nvlink", "xgmi"))
    return mending.through_roots(replace(topology, links=without), to_cpu=True), topology


VARIANTS: Mapping[str, Variants] = {
    nvlinks.NVLINK_INACTIVE: _more_nvlinks,
    nvlinks.NVLINK_FEWER: _more_nvlinks,
    "nvlink-count": _more_nvlinks,
    nvlinks.NVLINK_BRIDGE: _whole_bridge,
    nvlinks.NVLINK_MISSING: _nvswitch,
    pcie.PCIE_WIDTH: _wider,
    pcie.ACS: _redirected,
    p2p.P2P_REFUSED: _through_memory,
    run.SHM_FALLBACK: _through_memory,
}
"""By rule: the machine as it is and as it would be, for faults that the model can express."""
