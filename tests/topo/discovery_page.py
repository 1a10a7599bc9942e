"""The tables of docs/discovery.md that follow from the code: `python -m tests.topo.discovery_page` writes them anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tests.support import ROOT
from topo.capture import COMMANDS
from topo.findings import RULES

PAGE = ROOT / "docs" / "discovery.md"


def asked() -> str:
    """What a live capture runs, and where its text is kept."""
    return _table(("command", "kept in"), ((f"`{' '.join(command)}`", f"`{file}`") for file, command in COMMANDS))


def rules() -> str:
    """The doctor's rules."""
    rows = ((f"`{rule.id}`", rule.title, f"`{rule.needs}`", rule.why, rule.fix) for rule in RULES)
    return _table(("rule", "what about", "evidence", "why it hurts", "what to do"), rows)


PARTS: Mapping[str, Callable[[], str]] = {"asked": asked, "rules": rules}


def page(text: str) -> str:
    """The page with both tables as they follow from the code."""
    for name, make in PARTS.items():
        before, begin, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- /{name} -->")
        assert begin, f"docs/discovery.md lacks the mark {name}"
        assert end, f"docs/discovery.md lacks the mark /{name}"
        text = before + begin + make() + end + after
    return text


def _table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = tuple(titles)
    lines = [titles, (":---",) * len(titles), *(tuple(cell.replace("|", r"\|") for cell in row) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
