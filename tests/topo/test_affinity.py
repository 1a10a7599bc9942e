"""How far GPUs are from NICs, as text; and NCCL's XML without either, for virtual machines."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.topo import machine_texts as say
from topo.captures import Text, read_texts
from topo.errors import TopologyError
from topo.merge import from_matrix
from topo.merging import merge
from topo.presets import PRESETS, preset
from topo.readers import nccl_xml
from topo.readers.nvidia_smi_topo import read
from topo.topology import Topology
from topo.writers import write

TWO_SIDES = "\tGPU0\tGPU1\tNIC0\nGPU0\t X \tSYS\tPIX\nGPU1\tSYS\t X \tSYS\nNIC0\tPIX\tSYS\t X \n"


def rows(topology: Topology) -> list[list[str]]:
    """The cells of the table, which has all the room that it needs, without its title and header."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "200")
        return [re.split(r" {2,}", line.strip()) for line in write(topology, "affinity").splitlines()[2:]]


def test_each_gpu_has_its_nearest_nics_with_path_rate_and_why() -> None:
    assert rows(preset("dgx-h100"))[5] == ["GPU5", "1", "mlx5_5", "PIX", "50", "yes"]
    near, far = rows(from_matrix(read(TWO_SIDES)))
    assert near[-4:] == ["NIC0", "PIX", "31.51", "by its place, yes: drivers are not shown"]
    assert far[-4:-2] == ["NIC0", "SYS"]
    assert far[-1] == "no: the way leads through a processor"


def test_a_card_that_does_not_offer_it_is_said() -> None:
    machine = preset("dgx-h100")
    devices = tuple(
        replace(one, nic=replace(one.nic, gdr=False)) if one.nic and one.name == "mlx5_3" else one
        for one in machine.devices
    )
    found = rows(replace(machine, devices=devices))
    assert found[3][-1].startswith("no: the NIC does not offer it")
    assert found[2][-1] == "yes"


def test_memory_that_a_processor_shares_is_reached_over_c2c() -> None:
    assert {row[-1] for row in rows(preset("gb200-nvl72"))} == {"over C2C, from NCCL 2.27 on"}


def test_without_nics_there_is_no_distance() -> None:
    with pytest.raises(TopologyError, match="shows no NIC"):
        write(from_matrix(read(say.matrix(say.all_to_all(2, "PIX")))), "affinity")


# --- for virtual machines ---


@pytest.mark.parametrize("name", PRESETS)
def test_the_xml_for_virtual_machines_keeps_processors_and_functions(name: str) -> None:
    whole, bare = write(preset(name), "nccl-xml"), write(preset(name), "nccl-xml-vm")
    assert re.findall(r'busid="[^"]*"', bare) == re.findall(r'busid="[^"]*"', whole)
    assert not re.search(r"<(?:gpu|nic|net|nvlink|c2c|xgmi)\b|host_hash", bare)
    assert nccl_xml.read(bare).of_kind("cpu")
    assert not nccl_xml.read(bare).complete


def test_gpus_without_an_address_cannot_be_told_to_nccl() -> None:
    matrix = say.matrix(say.all_to_all(2, "PIX"))
    with pytest.raises(TopologyError, match="does not say the PCI address of GPU0"):
        write(from_matrix(read(matrix)), "nccl-xml-vm")
    captures = read_texts(Text(text, name, name) for name, text in (("m", matrix), ("q", say.query(2))))
    text = write(merge(captures, "here"), "nccl-xml-vm")
    assert [bus for bus in say.BUSES[:2] if f'busid="0000:{bus}:00.0"' in text] == ["18", "2a"]
