"""Two outputs that are one file are refused before anything is computed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from topo.cli import main

STAR = "switch:2,bandwidth=200GB/s,latency=1us"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def said(result: Result) -> str:
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("topo: error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["simulate", STAR, "--size", "1M"], ("--page", "--trace")),
        (["simulate", STAR, "--size", "1M"], ("--page", "-o")),
        (["simulate", STAR, "--size", "1M"], ("--trace", "-o")),
        (["simulate", STAR, "--size", "1M"], ("--plot", "-o")),
        (["what-if", STAR, "--change", "server GPU0"], ("--plot", "-o")),
        (["ddp", STAR, "--model", "resnet18"], ("--plot", "-o")),
        (["plan", "dgx-h100", "--size", "1M"], ("--graph-xml", "-o")),
    ],
)
@pytest.mark.parametrize("how", ["same", "by another way", "hard link", "symbolic link", "link to nothing"])
def test_one_file_for_two_outputs_is_refused(
    tmp_path: Path, words: list[str], options: tuple[str, str], how: str
) -> None:
    one, other = tmp_path / "one.svg", tmp_path / "other.svg"
    match how:
        case "same":
            other = one
        case "by another way":
            (tmp_path / "folder").mkdir()
            other = tmp_path / "folder" / ".." / "one.svg"
        case "hard link":
            one.write_text("kept")
            other.hardlink_to(one)
        case "symbolic link":
            one.write_text("kept")
            other.symlink_to(one)
        case "link to nothing":
            other.symlink_to(one)
    text = said(invoke(*words, options[0], str(one), options[1], str(other)))
    assert all(option in text for option in options)
    assert "one file" in text
    assert not one.exists() or one.read_text() == "kept"


def test_measurements_are_not_written_over(tmp_path: Path) -> None:
    file = tmp_path / "measured.json"
    file.write_text("{}")
    assert "one file" in said(invoke("simulate", STAR, "--measured", str(file), "--page", str(file)))


def test_what_is_no_file_may_be_named_twice() -> None:
    result = invoke("simulate", STAR, "--size", "1M", "--page", "/dev/null", "--trace", "/dev/null", "-o", "/dev/null")
    assert result.exit_code == 0, result.output


def test_a_circle_of_links_is_refused_in_one_sentence(tmp_path: Path) -> None:
    one, other = tmp_path / "one.svg", tmp_path / "other.svg"
    one.symlink_to(other)
    other.symlink_to(one)
    said(invoke("simulate", "dgx-h100", "--size", "1M", "--page", str(one), "--plot", str(other)))


@pytest.mark.parametrize("name", ["a\x1b[31m/x.html", "a\n\x07/x.html", "a\u202e/x.html"])
def test_names_steer_no_terminal(name: str, tmp_path: Path) -> None:
    text = said(invoke("simulate", STAR, "--size", "1M", "--page", str(tmp_path / name)))
    assert text.rstrip("\n").isprintable()


def test_names_in_tables_steer_no_terminal(tmp_path: Path) -> None:
    machine = tmp_path / "x.json"
    made = invoke("show", "dgx1-v100", "--as", "json").stdout.replace('"dgx1-v100"', '"dgx\\u001b[31m"')
    machine.write_text(made)
    result = invoke("simulate", str(machine), "--size", "1M")
    assert result.exit_code == 0, result.output
    assert "\\x1b[31m" in result.stdout
    assert "\x1b" not in result.stdout


def test_labels_in_a_matrix_steer_no_terminal(tmp_path: Path) -> None:
    machine = tmp_path / "x.json"
    document = json.loads(invoke("show", "dgx1-v100", "--as", "json").stdout)
    gpus = [device for device in document["devices"] if device["kind"] == "gpu"]
    for gpu in gpus:
        gpu["label"] = f"\x1b[31m\t{gpu['id']}"
    machine.write_text(json.dumps(document))
    shown = invoke("show", str(machine), "--as", "matrix")
    assert shown.exit_code == 0, shown.output
    assert "\x1b" not in shown.stdout
    assert shown.stdout.splitlines()[0].count("\t") >= len(gpus)


def test_where_one_drawing_is_not_to_be_had_none_is_written(tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("x.html", "x.json")]
    many = ["simulate", "dgx-h100", "--nodes", "64", "--algorithm", "ring", "--size", "1G"]
    assert "too many for a trace" in said(invoke(*many, "--page", files[0], "--trace", files[1]))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["simulate", STAR, "--algorithm", "ring", "--size", "1M"], "--page"),
        (["simulate", STAR, "--algorithm", "ring", "--size", "1M"], "--trace"),
        (["simulate", STAR, "--algorithm", "ring", "--size", "1M"], "-o"),
        (["plan", "dgx-h100", "--size", "1M"], "--graph-xml"),
    ],
)
def test_a_full_disk_is_blamed_on_the_option_that_named_it(words: list[str], option: str) -> None:
    assert f"{option} /dev/full: cannot be written" in said(invoke(*words, option, "/dev/full"))
