"""Generated parts of documents: what stands between `<!-- NAME -->` and `<!-- /NAME -->`."""

from __future__ import annotations

from pathlib import Path


def between(document: Path, name: str) -> str:
    """The text between the marks."""
    return _parts(document, name)[1]


def put_between(document: Path, name: str, text: str) -> None:
    """Replaces what stands between the marks."""
    before, _, after = _parts(document, name)
    document.write_text(before + text + after)


def _parts(document: Path, name: str) -> tuple[str, str, str]:
    """The document up to behind the first mark, between both, and from the second one on."""
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, found, rest = document.read_text().partition(begin)
    inside, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"{document} lacks {begin.strip()} or {end}: put both where the text belongs")
    return before + begin, inside, end + after
