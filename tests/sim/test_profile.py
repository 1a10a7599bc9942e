"""Profiles: checked when made, written and read back, and what a protocol changes in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.profile import IDEAL, Hop, Profile, Protocol, Transport, load_profile
from topo import jsonio
from topo.errors import CaptureError, NameChoiceError
from topo.presets import preset, synthetic

H100 = preset("dgx-h100")


def test_auto_is_ideal_where_there_is_no_hardware_to_look_up() -> None:
    assert load_profile("auto", synthetic("switch:2,bandwidth=1GB/s")) is IDEAL
    assert load_profile("auto", H100).name == "nccl-fitted"


@pytest.mark.parametrize(
    ("protocol", "share", "hop_us"), [("ll", 0.5, 0.6), ("ll128", 0.9375, 1.9), ("simple", 1, 3.4)]
)
def test_a_protocol_changes_payload_and_latency(protocol: str, share: float, hop_us: float) -> None:
    whole = load_profile("nccl-constants", H100)
    nvlink = whole.under(protocol).transport("nvlink")
    assert nvlink.efficiency == pytest.approx(20.6 / 25 * share)
    assert nvlink.hop_latency_s == pytest.approx(hop_us * 1e-6)


def test_what_a_profile_does_not_know_changes_nothing() -> None:
    assert IDEAL.under("ll") is IDEAL
    assert not IDEAL.knows("ll")


def test_a_profile_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "my.json"
    whole = load_profile("auto", H100)
    path.write_text(jsonio.encode(whole, "profile/1"))
    assert load_profile(str(path), H100) == whole


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        ({"transports": (Transport("nvlink", 1.5),)}, "efficiency 1.5"),
        ({"transports": (Transport("nvlink", 1e-320),)}, "efficiency"),
        ({"transports": (Transport("nvlink"), Transport("pcie"), Transport("nvlink", 0.5))}, "nvlink stands twice"),
        ({"transports": (Transport("nvlink", 1.0, -1e-6),)}, "hop latency"),
        ({"protocols": (Protocol("ll", 0.5, 0.0), Protocol("ll", 0.4, 0.0))}, "ll stands twice among its protocols"),
        (
            {"protocols": (Protocol("ll", 0.5, 0.0, (Hop("pcie", 0.0), Hop("pcie", 1.0))),)},
            "twice among its hops of ll",
        ),
        ({"launch_overhead_s": -1.0}, "launch overhead"),
        ({"gpu_reduce_bytes_per_s": 0.0}, "reduce rate"),
        ({"protocols": (Protocol("ll", 0.0, 0.0),)}, "payload share"),
        ({"protocols": (Protocol("ll", 0.5, -1.0),)}, "launch overhead"),
    ],
)
def test_numbers_without_sense_are_refused(broken: dict[str, object], complaint: str) -> None:
    with pytest.raises(CaptureError, match=complaint):
        Profile(**{"name": "mine", "provenance": "a test", "transports": (), **broken})  # type: ignore[arg-type]


def test_an_unknown_profile_names_the_nearest() -> None:
    with pytest.raises(NameChoiceError, match="ideal"):
        load_profile("idael", H100)
