"""What the tests of the NCCL planner share: the reference runs, and a small front end for topology files."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sim.planners.nccl_2_30.domains import Domain, find_domains
from sim.planners.nccl_2_30.options import NcclOptions
from sim.planners.nccl_2_30.planner import NcclPlan, plan_nccl
from sim.planners.nccl_2_30.spec import C2cSpec, CpuSpec, GpuSpec, NetSpec, NicSpec, NvlinkSpec, PciSpec, SystemSpec
from tests.support import corpus_dir

RESTATED = {"dgx-h100-n2-tree": {"NCCL_ALGO": "allreduce:tree", "NCCL_PROTO": "allreduce:simple"}}
"""Runs whose figures show other settings than the index names: there, tree and simple bind AllReduce alone."""

GIGA = 1e9
COLLECTIVES = {
    "Broadcast": "broadcast",
    "Reduce": "reduce",
    "AllGather": "all_gather",
    "ReduceScatter": "reduce_scatter",
    "AllReduce": "all_reduce",
}
ALGORITHMS = {
    "Tree": "tree",
    "Ring": "ring",
    "CollNetDirect": "collnet-direct",
    "CollNetChain": "collnet-chain",
    "NVLS": "nvls",
    "NVLSTree": "nvls-tree",
    "PAT": "pat",
}
PROTOCOLS = {"LL": "ll", "LL128": "ll128", "Simple": "simple"}
TARGET_KINDS = {"0x068000": "nvswitch", "0x068001": "cpu"}


@dataclass(frozen=True)
class Reference:
    """One reference run of the corpus: which machine, how many copies of it, under which settings."""

    name: str
    machine: str
    hosts: int
    environment: tuple[tuple[str, str], ...]

    @property
    def result(self) -> dict[str, Any]:
        root = corpus_dir()
        assert root is not None
        result: dict[str, Any] = json.loads((root / "nccl-model" / f"{self.name}.json").read_text())
        return result

    @property
    def options(self) -> NcclOptions:
        return NcclOptions.from_environment(RESTATED.get(self.name, dict(self.environment)))

    def __str__(self) -> str:
        return self.name


@cache
def references() -> tuple[Reference, ...]:
    """All reference runs; none without the corpus."""
    root = corpus_dir()
    if root is None:
        return ()
    lines = (root / "nccl-model" / "index.tsv").read_text().splitlines()[1:]
    found = []
    for line in lines:
        name, machine, hosts, environment = line.split("\t")
        pairs = tuple(tuple(setting.split("=", 1)) for setting in environment.split())
        found.append(Reference(name, machine, int(hosts), pairs))  # type: ignore[arg-type]
    return tuple(found)


REFERENCES = references()
FULL = tuple(reference for reference in REFERENCES if "tuner" in reference.result)
"""The runs that hold the tuner's table and chunk splits too."""


@cache
def plan_of(reference: Reference) -> NcclPlan:
    """Our plan for a reference run."""
    return plan_nccl(spec_of(machine_text(reference.machine)), num_copies=reference.hosts, options=reference.options)


@cache
def domain_of(reference: Reference) -> Domain:
    """The domain of rank 0, found without searching any graph."""
    return find_domains(spec_of(machine_text(reference.machine)), reference.hosts, reference.options)[0]


def machine_text(name: str) -> str:
    """The topology file of a machine of the corpus."""
    root = corpus_dir()
    assert root is not None
    return Path(root / "machines" / f"{name}.xml").read_text()


def machine_names() -> list[str]:
    root = corpus_dir()
    return sorted(path.stem for path in (root / "machines").glob("*.xml")) if root else []


def spec_of(text: str, name: str = "") -> SystemSpec:
    """The machine of a well-formed topology file; ranks follow (host, dev), as in the reference runs."""
    root = ET.fromstring(text)
    hosts = list(dict.fromkeys(cpu.get("host_hash", "") for cpu in root.iter("cpu")))
    gpus = [
        (hosts.index(cpu.get("host_hash", "")), int(gpu.get("dev", "0")), position, gpu)
        for cpu in root.iter("cpu")
        for position, gpu in enumerate(cpu.iter("gpu"))
    ]
    anyone = any(gpu.get("rank") is not None for *_, gpu in gpus)
    taking_part = [entry for entry in gpus if entry[3].get("rank") is not None or not anyone]
    ranks = {id(entry[3]): rank for rank, entry in enumerate(sorted(taking_part, key=lambda entry: entry[:3]))}
    return SystemSpec(tuple(_cpu(cpu, ranks) for cpu in root.iter("cpu")), name)


def _cpu(cpu: ET.Element, ranks: dict[int, int]) -> CpuSpec:
    return CpuSpec(
        numa_node=int(cpu.get("numaid", "0")),
        host=cpu.get("host_hash", ""),
        arch=cpu.get("arch"),
        vendor=cpu.get("vendor"),
        family=int(cpu.get("familyid", "0")),
        model=int(cpu.get("modelid", "0")),
        children=tuple(
            _pci(child, ranks) if child.tag == "pci" else _nic(child) for child in cpu if child.tag in ("pci", "nic")
        ),
    )


def _pci(pci: ET.Element, ranks: dict[int, int]) -> PciSpec:
    ids = 0
    for key in ("vendor", "device", "subsystem_vendor", "subsystem_device"):
        ids = ids << 16 | int(pci.get(key, "0"), 16)
    nic = pci.find("nic")
    return PciSpec(
        bus_id=pci.get("busid", ""),
        device_class=pci.get("class", ""),
        ids=ids,
        link_speed=pci.get("link_speed", ""),
        link_width=int(pci.get("link_width") or 0),
        children=tuple(_pci(child, ranks) for child in pci.findall("pci")),
        gpus=tuple(_gpu(gpu, ranks) for gpu in pci.findall("gpu")),
        nic=None if nic is None else _nic(nic),
        peers=tuple(link.get("target", "") for link in pci.findall("pcilink")),
    )


def _gpu(gpu: ET.Element, ranks: dict[int, int]) -> GpuSpec:
    return GpuSpec(
        rank=ranks.get(id(gpu)),
        index=int(gpu.get("dev", "0")),
        compute_capability=int(gpu.get("sm", "0")),
        gdr=gpu.get("gdr") == "1",
        nvlinks=tuple(
            NvlinkSpec(
                target=link.get("target", ""),
                target_kind=TARGET_KINDS.get(link.get("tclass", ""), "gpu"),
                lanes=int(link.get("count", "1")),
            )
            for link in gpu.findall("nvlink")
        ),
        c2c=tuple(C2cSpec(int(c2c.get("bw", "0")) * int(c2c.get("count", "0")) * 1e6) for c2c in gpu.findall("c2c")),
    )


def _nic(nic: ET.Element) -> NicSpec:
    nets = [net for net in nic.findall("net") if net.get("dev") is not None and net.get("net", "1") != "0"]
    return NicSpec(tuple(_net(net) for net in nets))


def _net(net: ET.Element) -> NetSpec:
    speed = int(net.get("speed", "0"))
    guid = net.get("guid")
    return NetSpec(
        index=int(net.get("dev", "0")),
        bandwidth_bytes_per_s=(speed if speed > 0 else 10000) * 125_000.0,
        latency_s=float(net.get("latency", "0")) * 1e-6,
        port=int(net.get("port", "0")),
        guid=None if guid is None else int(guid, 16),
        gdr=net.get("gdr") == "1",
        collnet=net.get("coll") == "1",
    )
