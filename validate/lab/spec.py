"""A fabric from a TOML file: every key known, every rate with a unit, else one sentence with the file's name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from topo.errors import CaptureError, NameChoiceError, TopologyError, UnitError
from topo.units import parse_rate
from validate.lab.fabric import Cable, Fabric

KEYS = ("name", "hosts", "rate", "links")
LINK_KEYS = ("join", "rate")
EXAMPLE = 'hosts = ["a", "b"], rate = "200mbit", and for each link [[links]] with join = ["a", "switch"]'


def read_fabric(path: Path) -> Fabric:
    """The fabric in a file; CaptureError with the file's name where it does not describe one."""
    from topo.textfile import read_file

    return parse_fabric(read_file(path), str(path))


def parse_fabric(text: str, source: str) -> Fabric:
    """The fabric that a text describes."""
    plain = _toml(text, source)
    try:
        return _fabric(plain, Path(source).stem)
    except (NameChoiceError, TopologyError, UnitError) as error:
        raise CaptureError(str(error), source=source) from None


def _toml(text: str, source: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CaptureError(f"this is no TOML: {error}", source=source) from None


def _fabric(plain: dict[str, Any], name: str) -> Fabric:
    _known(plain, KEYS)
    hosts = _words(plain.get("hosts"), "hosts")
    links = plain.get("links", [])
    if not isinstance(links, list) or not all(isinstance(link, dict) for link in links):
        raise TopologyError(f"links is no list of tables: write {EXAMPLE}")
    cables = tuple(_cable(link, plain.get("rate")) for link in links)
    title = plain.get("name", name)
    if not isinstance(title, str) or not title:
        raise TopologyError(f'name is {title!r}: expected words in quotes, such as name = "two racks"')
    return Fabric(title, hosts, cables)


def _cable(link: dict[str, Any], common: object) -> Cable:
    _known(link, LINK_KEYS)
    ends = _words(link.get("join"), "join")
    if len(ends) != 2:
        raise TopologyError(f"a link joins two places, {len(ends)} were given: write {EXAMPLE}")
    rate = link.get("rate", common)
    if not isinstance(rate, str):
        found = "has no rate" if rate is None else f"has the rate {rate!r}, a number without a unit"
        raise TopologyError(f'link {"-".join(ends)} {found}: write rate = "200mbit" in it, or above all links')
    return Cable(*ends, parse_rate(rate))


def _words(value: object, key: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise TopologyError(f"{key} is {'missing' if value is None else repr(value)}: write {EXAMPLE}")
    return tuple(value)


def _known(table: dict[str, Any], keys: tuple[str, ...]) -> None:
    for key in table:
        if key not in keys:
            raise NameChoiceError("key", key, keys)
