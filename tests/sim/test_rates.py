"""`topo rates`: nominal, what NCCL counts, and calibrated, never in one field."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from sim.profile import IDEAL, Profile, Transport, load_profile
from sim.rates import rates
from topo.cli import main
from topo.cluster import Cluster
from topo.presets import PRESETS, preset
from topo.synthetic import synthetic


def test_three_rates_of_an_nvlink() -> None:
    own = Profile("mine", "a test", (Transport("nvlink", 0.5),))
    [nvlink] = [row for row in rates(preset("dgx-h100"), own) if row.kind == "nvlink"]
    assert (nvlink.lanes, nvlink.num_links) == (18, 16)
    assert nvlink.nominal_bytes_per_s == pytest.approx(450e9)
    assert nvlink.effective_bytes_per_s == pytest.approx(370.8e9)
    assert nvlink.calibrated_bytes_per_s == pytest.approx(225e9)


@pytest.mark.parametrize("name", PRESETS)
def test_nothing_carries_more_than_it_is_built_for(name: str) -> None:
    for row in rates(preset(name), load_profile("auto", preset(name))):
        assert 0 < row.calibrated_bytes_per_s <= row.nominal_bytes_per_s
        assert 0 < (row.effective_bytes_per_s or 1.0) <= row.nominal_bytes_per_s * (1 + 1e-9)


def test_a_cluster_s_rates_are_its_node_s_and_ports_count() -> None:
    node = preset("dgx-h100")
    assert rates(Cluster(node, 4), IDEAL) == rates(node, IDEAL)
    [port] = [row for row in rates(node, IDEAL) if row.kind == "network"]
    assert (port.num_links, port.nominal_bytes_per_s) == (8, 50e9)


def test_a_description_is_taken_as_given() -> None:
    [row] = rates(synthetic("switch:4,bandwidth=200GB/s"), IDEAL)
    assert (row.num_links, row.effective_bytes_per_s, row.calibrated_bytes_per_s) == (8, None, 200e9)


@pytest.mark.parametrize("form", ["table", "json", "csv", "md"])
def test_the_command_line(form: str) -> None:
    result = CliRunner().invoke(main, ["rates", "dgx-h100", "--format", form], standalone_mode=False)
    assert result.exit_code == 0
    assert "nvlink" in result.stdout
    if form == "json":
        document = json.loads(result.stdout)
        assert (document["schema"], document["profile"]) == ("rates/1", "nccl-fitted")
        assert {"nominal_bytes_per_s", "effective_bytes_per_s", "calibrated_bytes_per_s"} <= document["rows"][0].keys()
