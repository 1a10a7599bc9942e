"""Words in sentences: how many of what, and names that may hold anything."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Categories of signs that steer a terminal or the direction of text, that are half a sign, or that end a line."""


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


def ranges(numbers: Sequence[int]) -> str:
    """Numbers in order with runs drawn together.

    >>> ranges([0, 1, 2, 3, 8])
    '0-3,8'
    """
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def printable(text: str) -> str:
    """The text with signs that a terminal would obey written as escapes; names of files and devices may hold them.

    >>> printable("GPU0"), printable("\x1b[31mred")
    ('GPU0', '\\\\x1b[31mred')
    """
    if text.isprintable():
        return text
    return "".join(
        sign.encode("unicode_escape").decode() if unicodedata.category(sign) in _UNSEEN else sign for sign in text
    )
