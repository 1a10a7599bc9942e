"""Numbers in sentences: how many of what."""

from __future__ import annotations


def plural(word: str, count: int) -> str:
    """The word as it stands behind that number.

    >>> plural("rank", 1), plural("switch", 2), plural("pair", 0)
    ('rank', 'switches', 'pairs')
    """
    if count == 1:
        return word
    if word.endswith("y"):
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "ch")) else f"{word}s"


def counted(count: int, word: str) -> str:
    """The number with its word; thousands are set apart.

    >>> counted(1, "rank"), counted(65536, "rank")
    ('1 rank', '65,536 ranks')
    """
    return f"{count:,} {plural(word, count)}"
