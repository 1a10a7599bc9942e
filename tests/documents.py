"""The commands that documents show: found, run, compared, and written anew by `make docs`.

A fenced block that begins with ```console is run line by line in a scratch folder that sees examples/ and docs/:
`$ topo ...` must exit with 0, or with what a comment states (`$ topo diff a b  # exit 1`), and print what stands
below it (a line `...` stands for any lines). Words after `console` say more: `measured` - times differ from run to
run, so only the exit status counts; `gpu` - run only where there is an NVIDIA GPU; `root` - run only by root.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
ANYTHING = "..."
FENCE = re.compile(r"^```console([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WORDS = {"measured", "gpu", "root"}


@dataclass
class Example:
    """One command of a document: where it stands, what it must exit with and print, where its output begins."""

    line: int
    command: str
    words: set[str]
    output: list[str] = field(default_factory=list)
    output_line: int = 0

    @property
    def status(self) -> int:
        """The exit status that the command's comment states."""
        stated = re.search(r"# exit (\d+)$", self.command)
        return int(stated[1]) if stated else 0


def examples(text: str) -> list[Example]:
    """The commands of all console blocks, in order."""
    found: list[Example] = []
    for block in FENCE.finditer(text):
        words = set(block[1].split())
        assert words <= WORDS, f"unknown words after console: {words - WORDS}"
        first = text.count("\n", 0, block.start()) + 2
        for number, line in enumerate(block[2].splitlines(), start=first):
            if found and found[-1].command.endswith("\\"):
                found[-1].command = found[-1].command[:-1] + line.strip()
                found[-1].output_line = number + 1
            elif line.startswith("$ "):
                found.append(Example(number, line[2:].strip(), words, output_line=number + 1))
            elif found:
                found[-1].output.append(line.rstrip())
    return found


def can_run(example: Example) -> bool:
    """Whether this machine has what the example needs; only `topo` is ever run."""
    if not example.command.startswith("topo "):
        return False
    return not ("gpu" in example.words and not shutil.which("nvidia-smi")) and not (
        "root" in example.words and os.geteuid() != 0
    )


def matches(expected: Sequence[str], printed: str) -> bool:
    """Whether the output is what the document shows; a line `...` stands for any number of lines."""
    pattern = "".join("(?:.*\n)*?" if line.strip() == ANYTHING else re.escape(line) + " *\n" for line in expected)
    return re.fullmatch(pattern, printed.rstrip("\n") + "\n") is not None


def run_all(text: str, folder: Path) -> Iterator[tuple[Example, subprocess.CompletedProcess[str]]]:
    """Every example that can run here with what it did, one after the other in a folder that they share."""
    for name in ("examples", "docs"):
        (folder / name).symlink_to(ROOT / name)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("COLUMNS", None)
    for example in filter(can_run, examples(text)):
        yield (
            example,
            subprocess.run(
                ["bash", "-c", example.command],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            ),
        )


def renewed(shown: Sequence[str], printed: str) -> list[str]:
    """What a document that shows these lines should show of the new output: as many lines at each place.

    Lines before the first `...` are the output's first, those behind the last its last. Lines between two are kept,
    since nothing says which of the new ones they were.
    """
    lines = [line.rstrip() for line in printed.rstrip("\n").splitlines()]
    places = [number for number, line in enumerate(shown) if line.strip() == ANYTHING]
    if not places:
        return lines
    first, last = places[0], places[-1]
    num_last = len(shown) - last - 1
    return [*lines[:first], *shown[first : last + 1], *(lines[-num_last:] if num_last else [])]


def refresh(document: Path) -> list[str]:
    """Write the outputs of a document anew; what must be looked at by a person, in sentences."""
    text = document.read_text(encoding="utf-8")
    lines, open_ = text.splitlines(), []
    with tempfile.TemporaryDirectory() as name:
        done = list(run_all(text, Path(name)))
    for example, ran in reversed(done):
        printed = ran.stdout + ran.stderr
        where = f"{document.name}:{example.line}: {example.command}"
        if ran.returncode != example.status:
            open_.append(f"{where}: exit status {ran.returncode}, {example.status} stated\n{ran.stderr}")
        elif example.output and "measured" not in example.words and not matches(example.output, printed):
            now = renewed(example.output, printed)
            first = example.output_line - 1
            lines[first : first + len(example.output)] = now
            open_.append(f"{where}: {'written anew' if matches(now, printed) else 'still differs'}")
    renewed_text = "\n".join(lines) + "\n"
    if renewed_text != text:
        document.write_text(renewed_text, encoding="utf-8")
    return open_[::-1]


def main() -> None:
    """Refresh the documents named on the command line, or all."""
    for document in [Path(name) for name in sys.argv[1:]] or DOCUMENTS:
        for sentence in refresh(document):
            sys.stdout.write(f"{sentence}\n")


if __name__ == "__main__":
    main()
