"""What may be wrong with a machine: one table of rules, and what they find in a case.

A rule finds something only where the evidence stands in the input, and quotes it. Where its evidence is missing, a
note says what was not checked and what to add; what is so by design is a note, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from topo.case import Case
from topo.finding import Finding
from topo.rules import gpus, nics, nvlinks, p2p, pcie, run

NOT_CHECKED = "not-checked"

Test = Callable[[Case], bool]
Check = Callable[[Case], Iterator[Finding]]


def _several(case: Case) -> bool:
    return len(case.gpus) > 1


def _on_pcie(case: Case) -> bool:
    """Whether some GPUs meet over PCIe alone."""
    return any(not (letters or "").startswith(("NV", "XGMI")) for _, _, letters in case.pairs)


def _with_log(case: Case) -> bool:
    return bool(case.logs)


def _always(case: Case) -> bool:
    return True


def _never(case: Case) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that may be wrong.

    `needs` is the evidence, as the command that prints it; `why` says how it hurts, `fix` what to do (never done
    here). `check` looks where `seen`; where the rule `matters` to the machine and nothing is seen, that is noted.
    """

    id: str
    title: str
    needs: str
    why: str
    fix: str
    check: Check
    seen: Test = _always
    matters: Test = _never


RULES: tuple[Rule, ...] = (
    Rule(
        nvlinks.NVLINK_INACTIVE,
        "NVLinks that are down",
        "nvidia-smi nvlink -s",
        "a collective goes at the rate of the GPU with the fewest links, or falls back to PCIe",
        "reset the GPU or the node; if the link stays down, reseat the bridge or replace the board",
        nvlinks.inactive,
        seen=nvlinks.shows_states,
        matters=lambda case: any(map(case.nvlinks, case.gpus)),
    ),
    Rule(
        nvlinks.NVLINK_BRIDGE,
        "NVLink bridges",
        "nvidia-smi topo -m",
        "some links of the bridge carry nothing, and traffic may hang on them",
        "power off, reseat the bridge on both cards until it clicks, then compare nvidia-smi nvlink -s",
        nvlinks.bridges,
    ),
    Rule(
        nvlinks.NVLINK_FEWER,
        "NVLinks to the switches",
        "nvidia-smi topo -m",
        "a collective goes at the rate of the GPU with the fewest links",
        "look at nvidia-smi nvlink -s and dmesg (Xid 74) for the links that are down; reset or replace the GPU",
        nvlinks.fewer_than_neighbours,
    ),
    Rule(
        nvlinks.NVLINK_MISSING,
        "modules without NVLink",
        "nvidia-smi -L",
        "all traffic goes over PCIe, at a tenth of the rate",
        "start nvidia-fabricmanager in the driver's own version, then look at nvidia-smi -q for Fabric: Completed; in "
        "a virtual machine ask the provider to pass the NVSwitches through",
        nvlinks.missing,
        seen=lambda case: case.shows_nvlinks and any(case.model_of(gpu) for gpu in case.gpus),
        matters=lambda case: _several(case) and not any(map(case.nvlinks, case.gpus)),
    ),
    Rule(
        nvlinks.NVLINK_ERRORS,
        "NVLink errors",
        "nvidia-smi nvlink -e",
        "packets are sent again, and a link that is trained again stops all traffic meanwhile",
        "watch whether the counters grow under load; reseat the bridge or replace the board if they do",
        nvlinks.errors,
    ),
    Rule(
        nvlinks.NVLINK_P2P,
        "NVLinks without peer-to-peer traffic",
        "nvidia-smi nvlink -c",
        "NCCL does not count such links",
        "look for MIG, confidential computing or a virtual machine's settings that forbid it",
        nvlinks.without_p2p,
    ),
    Rule(
        gpus.GPU_COUNT,
        "number of GPUs",
        "nvidia-smi topo -m",
        "a job that expects eight GPUs does not start, or runs on fewer",
        "look at dmesg (Xid 79: fallen off the bus) and at lspci; reset or power-cycle the node",
        gpus.count,
    ),
    Rule(
        gpus.GPU_LOST,
        "lost GPUs",
        "lspci -vv",
        "the others are renumbered, and jobs run on other GPUs than they name",
        "look at dmesg (Xid 79: fallen off the bus); reset or power-cycle the node",
        gpus.lost,
    ),
    Rule(
        gpus.MIG,
        "MIG",
        "nvidia-smi -L",
        "slices of a GPU have no NVLink and no peer-to-peer traffic",
        "nvidia-smi -mig 0 on GPUs that take part in collectives",
        gpus.mig,
    ),
    Rule(
        p2p.P2P_REFUSED,
        "peer-to-peer traffic",
        "nvidia-smi topo -p2p r",
        "data goes through the host's memory, and crosses a switch's uplink twice",
        "disable ACS and IOMMU in the BIOS and load the driver again; GeForce cards have none: spread their ring so "
        "that neighbours do not share an uplink, or set NCCL_P2P_DISABLE=1 if it hangs",
        p2p.refused,
        seen=p2p.shows_p2p,
        matters=_on_pcie,
    ),
    Rule(
        p2p.P2P_THROUGH_CPU,
        "peer-to-peer traffic through a processor",
        "nvidia-smi topo -p2p r",
        "some processors forward peer-to-peer traffic slower than memory would take it",
        "set NCCL_P2P_LEVEL=PXB and compare",
        p2p.through_cpu,
    ),
    Rule(
        p2p.P2P_SLOW,
        "measured rates of pairs",
        "nvbandwidth -t device_to_device_memcpy_write_ce",
        "a collective goes at the rate of its slowest pair",
        "look at PCIe width, ACS and NVLink errors of the two GPUs",
        p2p.slow,
    ),
    Rule(
        pcie.ACS,
        "ACS",
        "lspci -vvv (as root)",
        "peer-to-peer traffic climbs to the root complex and back, through the IOMMU: slow, or a hang",
        "disable ACS (and the IOMMU, where nothing needs it) in the BIOS, or clear it: setpci -s BRIDGE ECAP_ACS+6.w=0",
        pcie.acs,
        seen=pcie.shows_acs,
        matters=_on_pcie,
    ),
    Rule(
        pcie.IOMMU,
        "IOMMU",
        "lspci -vvv, or topo discover --save-capture on the machine",
        "translated peer-to-peer traffic is slow or corrupt",
        "boot with iommu=pt, or disable the IOMMU in the BIOS",
        pcie.iommu,
        seen=pcie.shows_iommu,
        matters=_on_pcie,
    ),
    Rule(
        pcie.PCIE_WIDTH,
        "PCIe links",
        "nvidia-smi --query-gpu=index,pci.bus_id,pcie.link.gen.current,... (as topo discover asks), under load",
        "half the lanes carry half the bytes",
        "reseat the card or its riser; look for a slot that shares its lanes",
        pcie.links,
        seen=pcie.shows_links,
        matters=_several,
    ),
    Rule(
        pcie.NUMA,
        "NUMA nodes",
        "lspci -vv beside nvidia-smi topo -m",
        "processes are bound to the wrong socket",
        "update the BIOS, or set the affinity by hand (NCCL_IGNORE_CPU_AFFINITY=1 with numactl)",
        pcie.numa,
        seen=pcie.shows_numa,
    ),
    Rule(
        nics.NIC_SIDE,
        "NICs on both sides",
        "nvidia-smi topo -m",
        "GPUs without a NIC on their side send through the sockets' link, without GPUDirect RDMA",
        "move NICs so that each pair of GPUs has one below the same switch",
        nics.one_side,
        seen=nics.has_nics,
    ),
    Rule(
        nics.NIC_DISTANCE,
        "distance of NICs",
        "nvidia-smi topo -m",
        "GPUDirect RDMA through a processor is slower than through a switch",
        "move NICs to the switches of the GPUs, where slots allow",
        nics.distance,
        seen=nics.has_nics,
    ),
    Rule(
        run.NO_GDR,
        "GPUDirect RDMA",
        "a log with NCCL_DEBUG=INFO",
        "what goes to other hosts is copied through memory, which halves the rate",
        "load nvidia-peermem (or a kernel with DMA-BUF), and see that ACS is off between GPU and NIC",
        run.gdr,
        seen=run.shows_gdr,
        matters=nics.has_nics,
    ),
    Rule(
        run.SHM_FALLBACK,
        "transports inside the host",
        "a log with NCCL_DEBUG=INFO",
        "GPUs that could reach each other directly go through the host's memory",
        "let the processes share IPC, PID and network namespaces (docker --ipc=host), unset NCCL_P2P_DISABLE and "
        "NCCL_P2P_LEVEL, and look at peer-to-peer traffic",
        run.shared_memory,
        seen=_with_log,
    ),
    Rule(
        run.SOCKET_FALLBACK,
        "transports between hosts",
        "a log with NCCL_DEBUG=INFO",
        "TCP sockets reach a fraction of the NIC's rate, and cost a processor",
        "install the verbs library in the container, pass /dev/infiniband through, set NCCL_IB_HCA, raise memlock",
        run.sockets,
        seen=_with_log,
    ),
    Rule(
        run.WRONG_TOPOLOGY,
        "topology file",
        "a log with NCCL_DEBUG=INFO",
        "NCCL plans for a machine that is not there",
        "unset NCCL_TOPO_FILE, or dump a new one on this machine with NCCL_TOPO_DUMP_FILE",
        run.wrong_topology,
        seen=_with_log,
    ),
    Rule(
        run.NCCL_WARNING,
        "warnings of NCCL",
        "a log with NCCL_DEBUG=INFO",
        "NCCL says itself what it could not do",
        "look the warning up",
        run.warnings,
        seen=_with_log,
    ),
)
"""Every rule once."""


def rule_of(finding: Finding) -> Rule | None:
    """The rule that a finding is of; None for what a reader or a merge says."""
    return next((rule for rule in RULES if rule.id == finding.rule), None)


def examine(case: Case) -> tuple[Finding, ...]:
    """All findings first, then notes, in the order of the rules; what two of them say of one thing is said once."""
    said = list(case.topology.findings) if case.topology else list(case.captures.unread())
    unchecked: list[Finding] = []
    for rule in RULES:
        if rule.seen(case):
            said.extend(rule.check(case))
        elif rule.matters(case):
            unchecked.append(Finding(NOT_CHECKED, "note", f"not checked: {rule.title}, add {rule.needs}"))
    if unchecked and not (case.captures.texts or case.log):
        unchecked = [Finding(NOT_CHECKED, "note", "nothing was captured on it: only its structure was looked at")]
    said.extend(unchecked)
    return tuple(sorted(_once(said), key=lambda finding: finding.severity != "finding"))


_SAME_MATTER = {
    "nvlink-count": nvlinks.NVLINK_INACTIVE,
    nvlinks.NVLINK_FEWER: nvlinks.NVLINK_INACTIVE,
    pcie.PCIE_SPEED: pcie.PCIE_IDLE,
}
"""Rules that tell of one matter by other evidence."""


def _once(said: list[Finding]) -> Iterator[Finding]:
    """Of several on one matter and the same devices, the first that is a finding, else the first."""
    first: dict[tuple[str, object], Finding] = {}
    for finding in said:
        matter = _SAME_MATTER.get(finding.rule, finding.rule)
        key = (matter, finding.subjects or finding.sentence)
        known = first.get(key)
        if known is None or (known.severity == "note" and finding.severity == "finding"):
            first[key] = finding
    yield from first.values()
