"""docs/discovery.md says what the code does: its readers, commands, rules and what it does not read."""

from __future__ import annotations

import re

import pytest

from tests.topo import discovery_page
from topo.captures import NOT_READ
from topo.commands import TIMEOUT_S
from topo.findings import RULES
from topo.readers import READERS
from topo.writers.matrix import MOST_ENDS
from validate import nccl_dump

TEXT = discovery_page.PAGE.read_text()


def test_its_tables_follow_from_the_code() -> None:
    assert discovery_page.page(TEXT) == TEXT, "write them again: python -m tests.topo.discovery_page"


def test_every_format_has_its_line_in_the_order_of_the_readers() -> None:
    section = TEXT[TEXT.index("## What is read") : TEXT.index("## What a live capture asks")]
    titles = [line.split(" | ")[0].removeprefix("| ") for line in section.splitlines() if line.startswith("| ")]
    assert titles[2:] == [reader.title for reader in READERS.values()]


def test_topologies_stand_first_and_are_counted() -> None:
    building = [not reader.supporting for reader in READERS.values()]
    assert building == sorted(building, reverse=True)
    assert sum(building) == 8, "the page counts them in a word"
    assert "The first eight tell" in TEXT


@pytest.mark.parametrize("title", [row[0] for row in NOT_READ])
def test_what_is_not_read_is_named(title: str) -> None:
    assert f"`{title}`" in TEXT


def test_limits_are_the_code_s() -> None:
    assert f"for at most {TIMEOUT_S:g} s" in TEXT
    assert f"({nccl_dump.TIMEOUT_S:g} s at most)" in TEXT
    assert f"more than {MOST_ENDS:,} GPUs and NICs" in TEXT


def test_every_rule_stands_once() -> None:
    assert re.findall(r"^\| `([a-z0-9-]+)` \|", TEXT, re.MULTILINE) == [rule.id for rule in RULES]
