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
    import io
    from xml.sax import SAXParseException
    from xml.sax.xmlreader import InputSource

    from defusedxml.common import DefusedXmlException
    from defusedxml.sax import parse as parse_defused

    body = text.removeprefix("\ufeff")
    leading = body[: len(body) - len(body.lstrip())].count("\n")
    document = InputSource()
    document.setCharacterStream(io.StringIO(body.lstrip()))
    handler = _handler(source, leading)
    try:
        parse_defused(document, handler, forbid_dtd=True)
    except SAXParseException as error:
        raise CaptureError(
            f"the XML is not well-formed ({error.getMessage()}): it may be cut off, capture it again",
            source=source,
            line=(error.getLineNumber() or 1) + leading,
        ) from None
    except DefusedXmlException as error:
        raise CaptureError(
            f"the XML declares a DTD or entities ({type(error).__name__}), which no topology needs: remove them",
            source=source,
        ) from None
    root: Element = handler.root
    return root


def _handler(source: str, leading_lines: int) -> Any:
    """A SAX handler that builds the tree; made in a function so that importing this module loads no parser."""
    from xml.sax.handler import ContentHandler

    class TreeHandler(ContentHandler):
        """Builds `root` with a stack of open elements."""

        _locator: Any

        def __init__(self) -> None:
            super().__init__()
            self.root: Element | None = None
            self.open: list[tuple[str, dict[str, str], int, list[Element]]] = []
            self.num_elements = 0

        def startElement(self, name: str, attrs: Any) -> None:  # noqa: N802 (SAX names it so)
            line = self._locator.getLineNumber() + leading_lines
            self.num_elements += 1
            attributes = dict(attrs.items())
            _check_limits(len(self.open) + 1, self.num_elements, attributes, source, line)
            self.open.append((name, attributes, line, []))

        def endElement(self, name: str) -> None:  # noqa: N802
            tag, attributes, line, children = self.open.pop()
            element = Element(tag, attributes, line, tuple(children))
            if self.open:
                self.open[-1][3].append(element)
            else:
                self.root = element

    return TreeHandler()


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
