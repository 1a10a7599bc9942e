"""XML text as a small tree that remembers its lines; what could harm the reader is refused, not expanded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from topo.errors import CaptureError

MAX_DEPTH = 32
MAX_ELEMENTS = 200_000
MAX_ATTRIBUTES = 64
MAX_ATTRIBUTE_CHARACTERS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Element:
    """One XML element with the line it opens on; compared by identity, so that it can be a key."""

    tag: str
    attributes: Mapping[str, str]
    line: int
    children: tuple[Element, ...]

    def of(self, tag: str) -> tuple[Element, ...]:
        """The direct children of that tag, in document order."""
        return tuple(child for child in self.children if child.tag == tag)

    def walk(self) -> Iterator[Element]:
        """This element and everything below it, in document order."""
        todo = [self]
        while todo:
            element = todo.pop()
            yield element
            todo.extend(reversed(element.children))


def parse(text: str, source: str = "") -> Element:
    """The root element of the text; CaptureError with file and line where it is cut off, malformed or too large.

    Entities, DTDs and external references are refused (defusedxml), as are more than MAX_DEPTH levels,
    MAX_ELEMENTS elements or MAX_ATTRIBUTES attributes on one of them.
    """
    from xml.parsers.expat import ErrorString

    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import DefusedXMLParser, ParseError

    body = text.removeprefix("\ufeff")
    leading = body[: len(body) - len(body.lstrip())].count("\n")
    builder = _Builder(source, leading)
    # Not defusedxml.sax: importing it loads urllib and http, which costs more than the parsing.
    parser = DefusedXMLParser(target=builder, forbid_dtd=True)
    builder.parser = parser.parser
    try:
        parser.feed(body.lstrip())
        parser.close()
    except ParseError as error:
        raise CaptureError(
            f"the XML is not well-formed ({ErrorString(error.code)}): it may be cut off, capture it again",
            source=source,
            line=(error.position[0] or 1) + leading,
        ) from None
    except DefusedXmlException as error:
        raise CaptureError(
            f"the XML declares a DTD or entities ({type(error).__name__}), which no topology needs: remove them",
            source=source,
        ) from None
    assert builder.root is not None, "well-formed XML has a root"
    return builder.root


class _Builder:
    """Takes the parser's events and builds `root` with a stack of open elements."""

    parser: Any

    def __init__(self, source: str, leading_lines: int) -> None:
        self.root: Element | None = None
        self._source = source
        self._leading_lines = leading_lines
        self._open: list[tuple[str, dict[str, str], int, list[Element]]] = []
        self._num_elements = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        line = self.parser.CurrentLineNumber + self._leading_lines
        self._num_elements += 1
        _check_limits(len(self._open) + 1, self._num_elements, attributes, self._source, line)
        self._open.append((tag, dict(attributes), line, []))

    def end(self, tag: str) -> None:
        _, attributes, line, children = self._open.pop()
        element = Element(tag, attributes, line, tuple(children))
        if self._open:
            self._open[-1][3].append(element)
        else:
            self.root = element


def _check_limits(depth: int, num_elements: int, attributes: Mapping[str, str], source: str, line: int) -> None:
    longest = max(map(len, attributes.values()), default=0)
    for what, found, limit in (
        ("levels of elements", depth, MAX_DEPTH),
        ("elements", num_elements, MAX_ELEMENTS),
        ("attributes on one element", len(attributes), MAX_ATTRIBUTES),
        ("characters in one attribute", longest, MAX_ATTRIBUTE_CHARACTERS),
    ):
        if found > limit:
            raise CaptureError(f"more than {limit} {what}: no machine's topology is so large", source=source, line=line)
