"""What differs between two topologies: what each kind of damage is called, and that one machine equals itself."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from tests.support import NO_CORPUS, ROOT, corpus_files
from topo.captures import Text
from topo.cli import main
from topo.diff import Change, diff
from topo.diff_summary import summary
from topo.load import load_topology
from topo.matching import match_devices
from topo.presets import PRESETS, preset
from topo.readers import nccl_xml
from topo.reading import from_texts
from topo.topology import Device, Link, Provenance, Topology
from topo.writers import write

MACHINES = corpus_files("machines/*.xml")
EXAMPLE = str(ROOT / "examples" / "dgx-h100-topo-m.txt")
DGX1 = preset("dgx1-v100")
DGX = preset("dgx-h100")


def topo(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["diff", *arguments], prog_name="topo")


def changed(machine: Topology, one: str, other: str, *, both_ways: bool = True, **changes: object) -> Topology:
    """The machine in which a link is not as it was."""
    ends = [(one, other), (other, one)] if both_ways else [(one, other)]
    links = tuple(
        replace(link, **changes) if (link.src, link.dst) in ends else link  # type: ignore[arg-type]
        for link in machine.links
    )
    return replace(machine, links=links)


def without(machine: Topology, *lost: str) -> Topology:
    """The machine without some devices and their links."""
    return replace(
        machine,
        devices=tuple(device for device in machine.devices if device.id not in lost),
        links=tuple(link for link in machine.links if not {link.src, link.dst} & set(lost)),
        gpu_ids=tuple(gpu_id for gpu_id in machine.gpu_ids if gpu_id not in lost),
    )


def short(changes: tuple[Change, ...]) -> list[tuple[str, str, str]]:
    return [(change.change, change.part, change.name) for change in changes]


@pytest.mark.parametrize("name", PRESETS)
def test_a_machine_equals_itself(name: str) -> None:
    machine = preset(name)
    found = diff(machine, machine)
    assert found.is_equal
    assert found.num_devices == len(machine.devices)
    assert found.num_links == len(machine.links) / 2
    again = load_from(write(machine, "json"))
    assert diff(machine, again).is_equal


@pytest.mark.parametrize("machine", ["dgx1-v100", "dgx-a100", "dgx-h100", "dgx-b200", "pcie-4gpu", "alps-gh200x4"])
@pytest.mark.parametrize("spelled", ["NVIDIA {}", "Tesla {}", "{} of another driver", "lower", "dashes"])
def test_another_spelling_of_a_product_is_no_change(machine: str, spelled: str) -> None:
    whole = preset(machine)

    def named(name: str | None) -> str | None:
        ways = {"lower": str.lower, "dashes": lambda text: text.replace(" ", "-")}
        return name and ways.get(spelled, spelled.format)(name)

    again = replace(
        whole,
        devices=tuple(
            replace(device, model=named(device.model)) if device.kind == "gpu" else device for device in whole.devices
        ),
    )
    assert diff(whole, again).is_equal
    assert diff(again, whole).is_equal


def load_from(text: str) -> Topology:
    return from_texts([Text(text, "text")], "text")


@pytest.mark.corpus
@pytest.mark.skipif(not MACHINES, reason=NO_CORPUS)
@pytest.mark.parametrize("file", MACHINES, ids=lambda file: file.stem)
def test_a_preset_equals_the_capture_of_it(file: Path) -> None:
    captured = nccl_xml.read(file.read_text(), file.name)
    found = diff(preset(file.stem), captured)
    assert found.changes == ()
    assert found.num_devices == len(captured.devices)
    assert found.num_links == len(captured.links) / 2


ONE_HOST = [name for name, known in PRESETS.items() if known.machine.num_hosts == 1]


@pytest.mark.parametrize("name", ONE_HOST)
def test_a_matrix_of_a_machine_equals_the_machine(name: str) -> None:
    machine = preset(name)
    matrix = load_from(write(machine, "matrix"))
    found = diff(machine, matrix)
    assert found.changes == ()
    ends = len(machine.of_kind("gpu", "nic"))
    assert (found.num_devices, found.num_pairs, found.num_links) == (ends, ends * (ends - 1) / 2, 0)
    assert found.num_bridged_pairs == 0
    assert diff(matrix, matrix).is_equal


def test_a_slower_link_names_both_rates() -> None:
    found = diff(DGX, changed(DGX, "GPU3", "NVS0", bandwidth_bytes_per_s=425e9, lanes=17))
    assert found.changes[0] == Change(
        *("slower", "link", "GPU3 - NVS0", "NVLink x18 450 GB/s", "NVLink x17 425 GB/s", 450e9, 425e9),
        *("nvlink", "rate"),
    )
    assert {change.part for change in found.changes[1:]} == {"letters"}
    assert (found.changes[1].before, found.changes[1].after) == ("NV18", "NV17")
    assert len(found.changes) == 1 + 7


@pytest.mark.parametrize(
    ("changes", "both_ways", "expected"),
    [
        ({"state": "inactive"}, True, ("lost", "GPU0 - GPU4", "NVLink x2 down")),
        ({"bandwidth_bytes_per_s": 25e9, "lanes": 1}, False, ("slower", "GPU0 -> GPU4", "NVLink 25 GB/s")),
        ({"bandwidth_bytes_per_s": 100e9, "lanes": 4}, True, ("faster", "GPU0 - GPU4", "NVLink x4 100 GB/s")),
        ({"latency_s": 1e-6}, True, ("changed", "GPU0 - GPU4", "NVLink x2 50 GB/s 1 us")),
    ],
)
def test_what_happens_to_a_link(changes: dict[str, object], both_ways: bool, expected: tuple[str, str, str]) -> None:
    found = diff(DGX1, changed(DGX1, "GPU0", "GPU4", both_ways=both_ways, **changes)).changes
    assert (found[0].change, found[0].name, found[0].after) == expected
    assert found[0].before == "NVLink x2 50 GB/s"
    assert {change.part for change in found[1:]} <= {"letters"}


def test_rates_that_differ_by_rounding_are_equal() -> None:
    assert diff(DGX1, changed(DGX1, "GPU0", "GPU4", bandwidth_bytes_per_s=50.04e9)).is_equal


def test_a_gpu_that_fell_off_the_bus_renumbers_the_others() -> None:
    names = {f"GPU{number}": f"GPU{number - 1}" for number in range(3, 8)}
    rest = without(DGX, "GPU2")
    renamed = replace(
        rest,
        devices=tuple(
            replace(
                device,
                id=names.get(device.id, device.id),
                label=names.get(device.label or "", device.label),
                gpu=device.gpu and replace(device.gpu, index=int(names.get(device.id, device.id)[3:])),
            )
            for device in rest.devices
        ),
        links=tuple(
            replace(link, src=names.get(link.src, link.src), dst=names.get(link.dst, link.dst)) for link in rest.links
        ),
        gpu_ids=tuple(names.get(gpu_id, gpu_id) for gpu_id in rest.gpu_ids),
    )
    found = diff(DGX, renamed)
    assert short(found.changes) == [("lost", "device", "GPU2")]
    assert match_devices(DGX, renamed, ["gpu"])["GPU7"] == "GPU6"


def test_there_and_back_are_opposites() -> None:
    less = without(changed(DGX, "GPU5", "NVS0", bandwidth_bytes_per_s=100e9), "mlx5_3")
    opposite = {"lost": "added", "slower": "faster", "changed": "changed"}
    there, back = diff(DGX, less).changes, diff(less, DGX).changes
    assert [(opposite[change.change], change.name) for change in there] == [(c.change, c.name) for c in back]
    assert [change.before for change in there] == [change.after for change in back]


@given(
    st.lists(
        st.tuples(st.integers(0, len(DGX1.links) - 1), st.floats(0.01, 100)),
        max_size=12,
        unique_by=lambda edit: edit[0],
    )
)
def test_every_changed_rate_is_found_and_no_other(edits: list[tuple[int, float]]) -> None:
    links = list(DGX1.links)
    for number, factor in edits:
        links[number] = replace(DGX1.links[number], bandwidth_bytes_per_s=links[number].bandwidth_bytes_per_s * factor)
    expected = {
        (new.src, new.dst): "slower" if new.bandwidth_bytes_per_s < old.bandwidth_bytes_per_s else "faster"
        for old, new in zip(DGX1.links, links, strict=True)
        if abs(new.bandwidth_bytes_per_s / old.bandwidth_bytes_per_s - 1) > 0.001
    }
    found = {}
    for change in diff(DGX1, replace(DGX1, links=tuple(links))).changes:
        assert change.part == "link"
        src, way, dst = change.name.split(" ")
        found[src, dst] = change.change
        if way == "-":
            found[dst, src] = change.change
    assert found == expected


def test_a_device_may_change() -> None:
    devices = []
    for device in DGX.devices:
        if device.id == "mlx5_2" and device.nic:
            device = replace(device, nic=replace(device.nic, bandwidth_bytes_per_s=25e9))  # noqa: PLW2901
        if device.id == "GPU1":
            device = replace(device, model="H200 SXM5")  # noqa: PLW2901
        devices.append(device)
    found = diff(DGX, replace(DGX, devices=tuple(devices))).changes
    assert found == (
        Change("changed", "device", "GPU1", "H100 SXM5", "H200 SXM5", kind="gpu", aspect="model"),
        Change("slower", "device", "mlx5_2", "400 Gb/s", "200 Gb/s", 50e9, 25e9, "nic", "rate"),
    )


def test_names_of_nics_are_those_of_the_operating_system_too() -> None:
    legend = replace(
        DGX,
        devices=tuple(
            replace(device, id=f"NIC{7 - int(device.id[5:])}", label=None, nic=replace(device.nic, os_name=device.id))
            if device.nic
            else device
            for device in DGX.devices
        ),
        links=tuple(link for link in DGX.links if not any(end.startswith("mlx5") for end in (link.src, link.dst))),
    )
    legend = replace(legend, devices=tuple(replace(device, pci=None) for device in legend.devices))
    assert match_devices(DGX, legend, ["nic"])["mlx5_2"] == "NIC5"


def test_pairs_that_a_capture_hides_are_not_compared() -> None:
    hidden = replace(changed(DGX1, "GPU0", "GPU4", lanes=1), hidden_pairs=(("GPU4", "GPU0"),))
    assert diff(DGX1, hidden).num_pairs == diff(DGX1, DGX1).num_pairs - 1
    assert diff(DGX1, hidden).is_equal


def test_exit_status_and_words(tmp_path: Path) -> None:
    after = tmp_path / "after.json"
    after.write_text(write(without(DGX, "mlx5_0"), "json"))
    equal, different = topo("dgx-h100", "dgx-h100"), topo("dgx-h100", str(after))
    assert (equal.exit_code, different.exit_code) == (0, 1)
    assert equal.stdout.split() == ["change", "part", "name", "before", "after"]
    assert "no difference; compared: 29 devices" in equal.stderr
    assert "1 difference;" in different.stderr
    assert different.stdout.splitlines()[0] == "1 NIC lost"
    assert different.stdout.splitlines()[2].split() == [
        "lost",
        "device",
        "mlx5_0",
        "NIC",
        "400",
        "Gb/s",
        "0000:03:00.0",
        "-",
    ]


def test_every_format(tmp_path: Path) -> None:
    slow = tmp_path / "slow.json"
    slow.write_text(write(changed(DGX1, "GPU0", "numa0/switch0", bandwidth_bytes_per_s=1e9), "json"))
    document = json.loads(topo("dgx1-v100", str(slow), "--format", "json").stdout)
    assert (document["schema"], document["equal"], document["after"]) == ("diff/1", False, "dgx1-v100")
    assert document["rows"] == [
        {
            "change": "slower",
            "part": "link",
            "name": "GPU0 - numa0/switch0",
            "before": "PCIe x16 15.75 GB/s",
            "after": "PCIe x16 1 GB/s",
            "before_bytes_per_s": pytest.approx(15.75e9, rel=1e-3),
            "after_bytes_per_s": 1e9,
            "kind": "pcie",
            "aspect": "rate",
        }
    ]
    rows = list(csv.DictReader(topo("dgx1-v100", str(slow), "--format", "csv").stdout.splitlines()))
    assert [row["change"] for row in rows] == ["slower"]
    assert topo("dgx1-v100", str(slow), "--format", "md").stdout.startswith("| change | part |")
    assert json.loads(topo("dgx1-v100", "dgx1-v100", "--format", "json").stdout)["equal"] is True


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["dgx-h100"], "AFTER"),
        (["-", "-"], "both standard input"),
        (["dgx-h100", "dgx-h10"], "did you mean 'dgx-h100'"),
        (["dgx-h100", "switch:8,bandwidth=1GB/s"], None),
    ],
)
def test_bad_usage(arguments: list[str], problem: str | None) -> None:
    done = topo(*arguments)
    assert done.exit_code == (2 if problem else 1)
    assert (problem or "differences") in done.stderr
    assert "Traceback" not in done.output


def test_two_machines_with_nothing_in_common(tmp_path: Path) -> None:
    bare = Topology(
        (Device("P0", "process"), Device("P1", "process")),
        (Link("P0", "P1", "local", 1e9), Link("P1", "P0", "local", 1e9)),
        ("P0", "P1"),
    )
    file = tmp_path / "bare.json"
    file.write_text(write(bare, "json"))
    done = topo("dgx-h100", str(file))
    assert done.exit_code == 2
    assert "nothing in common" in done.stderr


def matrix_of(letters: str, num_gpus: int = 2) -> Topology:
    """A box whose GPUs all have these letters to each other, and nothing else."""
    names = [f"GPU{number}" for number in range(num_gpus)]
    rows = ["\t".join([one, *(" X " if one == other else letters for other in names)]) for one in names]
    return load_from("\n".join(["\t" + "\t".join(names), *rows]) + "\n")


@pytest.mark.parametrize(
    ("was", "now", "num_gpus", "change"),
    [
        ("NV4", "NV2", 2, "slower"),
        ("NV1", "NV3", 2, "faster"),
        ("NV4", "NV12", 2, "faster"),
        ("NV2", "NV1", 3, "slower"),
    ],
)
def test_links_of_inferred_rates_are_compared_by_number(was: str, now: str, num_gpus: int, change: str) -> None:
    found = diff(matrix_of(was, num_gpus), matrix_of(now, num_gpus)).changes
    links = [row for row in found if row.part == "link"]
    assert len(links) == num_gpus * (num_gpus - 1) / 2
    for row in links:
        assert (row.change, row.kind, row.aspect) == (change, "nvlink", "lanes")
        assert (row.before, row.after) == (f"NVLink x{was[2:]}", f"NVLink x{now[2:]}")
        assert row.before_bytes_per_s is row.after_bytes_per_s is None


def test_guessed_rates_are_no_difference() -> None:
    pair = matrix_of("NV4")
    other = replace(pair, links=tuple(replace(link, bandwidth_bytes_per_s=1e9) for link in pair.links))
    assert diff(pair, other).is_equal


def test_rates_that_a_further_capture_tells_are_compared() -> None:
    known = replace(matrix_of("NV4"), findings=(), provenance=(*matrix_of("NV4").provenance, Provenance("more")))
    slow = tuple(replace(link, bandwidth_bytes_per_s=1e9) if link.kind == "nvlink" else link for link in known.links)
    found = diff(known, replace(known, links=slow)).changes
    assert [(row.change, row.aspect, row.after) for row in found] == [("slower", "rate", "NVLink x4 1 GB/s")]
    assert diff(matrix_of("NV4"), replace(known, links=slow)).is_equal


BRIDGED = (
    "\tGPU0\tGPU1\tGPU2\tNUMA Affinity\nGPU0\t X \tNODE\tSYS\t0\nGPU1\tNODE\t X \tSYS\t0\nGPU2\tSYS\tSYS\t X \t1\n"
)


def test_where_no_host_bridges_are_shown_node_and_phb_are_one() -> None:
    bridged = load_from(BRIDGED)
    bare = load_from(write(bridged, "nccl-xml"))
    assert bridged.of_kind("host_bridge")
    assert not bare.of_kind("host_bridge")
    for one, other in ((bridged, bare), (bare, bridged)):
        found = diff(one, other)
        assert found.is_equal
        assert (found.num_pairs, found.num_bridged_pairs) == (3, 1)
    shared = load_from(BRIDGED.replace("NODE", "PHB"))
    assert short(diff(bridged, shared).changes) == [("changed", "letters", "GPU0 - GPU1")]
    far = load_from(BRIDGED.replace("NODE", "SYS").replace("\t0\nGPU2", "\t2\nGPU2"))
    assert ("changed", "letters", "GPU0 - GPU1") in short(diff(bare, far).changes)


def test_a_note_tells_of_pairs_that_count_as_one() -> None:
    done = topo("dgx-h100", EXAMPLE)
    assert "36 pairs are NODE on one side and PHB on the other: no difference" in done.stderr
    assert done.stdout.splitlines()[0] == "2 NICs added"
    document = json.loads(topo("dgx-h100", EXAMPLE, "--format", "json").stdout)
    assert (document["num_bridged_pairs"], document["summary"]) == (36, "2 NICs added")


def test_a_summary_counts_what_happened_to_what() -> None:
    assert summary(diff(DGX, preset("dgx-a100")).changes) == (
        "8 GPUs changed model, 8 NICs slower, 6 PCIe switches lost, 6 GPUs on another NUMA node, 6 NICs on another "
        "NUMA node, 2 NUMA nodes added, 2 PCIe switches added, 2 memories added, 4 PCIe links slower, 2 PCIe links "
        "lost, 8 NVLinks slower, 1 link between processors faster, 2 links on one chip or host slower, 6 PCIe links "
        "added, 64 pairs with other letters (NV18 -> NV12: 28, PHB -> SYS: 24, PHB -> PIX: 12)"
    )
    assert summary(diff(matrix_of("NV4"), matrix_of("NV2")).changes) == (
        "1 NVLink slower, 1 pair with other letters (NV4 -> NV2)"
    )
    assert summary(()) == ""


@pytest.mark.parametrize("one", ["dgx1-v100", "gb200-nvl8", "pcie-8gpu", "alps-gh200x4"])
@pytest.mark.parametrize("other", ["dgx-h100", "hgx-a100-4gpu-mesh", "dgx-spark"])
def test_every_change_is_in_the_summary(one: str, other: str) -> None:
    changes = diff(preset(one), preset(other)).changes
    counted = re.findall(r"(?:^|, )(\d+) ", re.sub(r"\(.*\)", "", summary(changes)))
    assert sum(map(int, counted)) == len(changes)


@pytest.mark.corpus
def test_a_real_matrix_against_a_preset(corpus: Path) -> None:
    captured = load_topology(str(corpus / "nvidia-smi" / "022-h100-8-nv18-ht.txt"))
    assert isinstance(captured, Topology)
    found = diff(DGX, captured)
    assert found.is_equal
    assert (found.num_pairs, found.device_kinds) == (28, ("gpu",))
