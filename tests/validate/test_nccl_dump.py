"""NCCL's own dump as a source of a live capture: what is run, kept and recorded, with a GPU and torch stood in for."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.topo import machine_texts as say
from topo.commands import RawText
from topo.sources import installed_sources
from validate import nccl_dump as source


@pytest.fixture
def gpus(tmp_path: Path) -> Path:
    """A folder in which the driver shows one GPU."""
    folder = tmp_path / "gpus"
    (folder / "0000:18:00.0").mkdir(parents=True)
    return folder


def answering(text: str, problem: str = "") -> source.Run:
    return lambda file, command, timeout_s: RawText(file, command, text, problem)


def never(file: str, command: tuple[str, ...], timeout_s: float) -> RawText:
    raise AssertionError(f"{command} was run")


def test_nothing_is_started_without_a_gpu(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        assert source.nccl_dump(never, folder).problem == "the NVIDIA driver shows no GPU here"


def test_nothing_is_started_without_torch(gpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "find_spec", lambda name: None)
    assert source.nccl_dump(never, gpus).problem.startswith("torch is not installed")


@pytest.mark.parametrize(
    ("text", "problem", "kept", "recorded"),
    [
        (say.xml(2), "", say.xml(2), ""),
        ("", "", "", "NCCL dumped no topology"),
        (
            "a warning\ntorch sees no CUDA GPU\n",
            "ended with status 1",
            "",
            "ended with status 1: torch sees no CUDA GPU",
        ),
        ("", "gave no answer within 90 s", "", "gave no answer within 90 s"),
    ],
)
def test_the_dump_is_kept_and_a_failure_recorded(
    text: str, problem: str, kept: str, recorded: str, gpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "find_spec", lambda name: object())
    raw = source.nccl_dump(answering(text, problem), gpus)
    assert (raw.file, raw.text, raw.problem) == ("nccl-topo.xml", kept, recorded)


def test_it_is_an_installed_source() -> None:
    assert "nccl-topo.xml" in [ask().file for ask in installed_sources()]


# --- the process that asks NCCL ---


def fake_torch(environment: dict[str, str], dump: str | None, *, said: str = "", num_gpus: int = 2) -> SimpleNamespace:
    """A torch whose NCCL dumps that text as it starts, or fails; `said` is what it warns of before."""

    def all_reduce(numbers: list[object]) -> None:
        assert len(numbers) == num_gpus
        if said:
            Path(environment["NCCL_DEBUG_FILE"]).write_text(said)
        if dump is None:
            raise RuntimeError("NCCL Error 3:\n internal error")
        if dump:
            Path(environment["NCCL_TOPO_DUMP_FILE"]).write_text(dump)

    return SimpleNamespace(
        cuda=SimpleNamespace(
            is_available=lambda: num_gpus > 0,
            device_count=lambda: num_gpus,
            synchronize=lambda index: None,
            nccl=SimpleNamespace(all_reduce=all_reduce),
        ),
        distributed=SimpleNamespace(is_nccl_available=lambda: True),
        ones=lambda count, device: device,
    )


def ask(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], torch: SimpleNamespace) -> str:
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "torch.cuda", torch.cuda)
    return source.main(environment)


def test_all_gpus_are_asked_and_what_stands_in_for_the_machine_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"NCCL_TOPO_FILE": "/etc/a.xml", "CUDA_VISIBLE_DEVICES": "3", "NCCL_SOCKET_IFNAME": "lo"}
    assert ask(monkeypatch, environment, fake_torch(environment, say.xml(2))) == say.xml(2)
    kept = {"NCCL_TOPO_DUMP_FILE", "NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_SOCKET_IFNAME"}
    assert set(environment) == kept
    assert not Path(environment["NCCL_TOPO_DUMP_FILE"]).parent.exists()


@pytest.mark.parametrize(
    ("dump", "said", "num_gpus", "words"),
    [
        (None, "", 2, "NCCL Error 3: internal error"),
        (None, "host:1:2 [0] a.cc:1 NCCL WARN Cuda failure 'out of memory'\n", 2, "Cuda failure 'out of memory'"),
        ("", "", 2, "NCCL dumped no topology"),
        ("", "", 0, "torch sees no CUDA GPU"),
    ],
)
def test_what_fails_is_said_in_one_line(
    dump: str | None, said: str, num_gpus: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment: dict[str, str] = {}
    torch = fake_torch(environment, dump, said=said, num_gpus=num_gpus)
    with pytest.raises(RuntimeError) as caught:
        ask(monkeypatch, environment, torch)
    assert str(caught.value) == words
