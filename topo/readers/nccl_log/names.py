"""What NCCL calls functions, algorithms and protocols in its logs, and what toposcope calls them."""

from __future__ import annotations

from collections.abc import Mapping

FUNCTIONS: Mapping[str, str] = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "sendrecv": "sendrecv",
    "alltoall": "all_to_all",
}
ALGORITHMS: Mapping[str, str] = {
    "tree": "tree",
    "ring": "ring",
    "collnet": "collnet",
    "collnetdirect": "collnet-direct",
    "collnetchain": "collnet-chain",
    "nvls": "nvls",
    "nvlstree": "nvls-tree",
    "pat": "pat",
}
PROTOCOLS: Mapping[str, str] = {"ll": "ll", "ll128": "ll128", "simple": "simple"}

_ALGORITHM_NUMBERS = ("tree", "ring", "collnet-direct", "collnet-chain", "nvls", "nvls-tree", "pat")
_OLD_ALGORITHM_NUMBERS = ("tree", "ring", "collnet")
_PROTOCOL_NUMBERS = ("ll", "ll128", "simple")
_COLLNET_SPLIT_IN = (2, 14)
"""Since this version CollNet is two algorithms, and numbers from 2 on mean others."""


def function_name(word: str) -> str:
    """toposcope's name of a function ("AllReduce"), or the word itself where it is none that we know."""
    return FUNCTIONS.get(word.lower(), word)


def algorithm_name(word: str, version: tuple[int, int] | None = None) -> str:
    """toposcope's name of an algorithm: of a word ("NVLS_TREE", "CollNetDirect"), or of a number before NCCL 2.24.

    `version` is NCCL's, which decides what numbers mean; the word itself where it names nothing that we know.
    """
    if word.isdecimal():
        is_old = version is not None and version < _COLLNET_SPLIT_IN
        names = _OLD_ALGORITHM_NUMBERS if is_old else _ALGORITHM_NUMBERS
        number = int(word)
        if version is None and number == 2:
            return "collnet"
        return names[number] if number < len(names) else word
    return ALGORITHMS.get(word.lower().replace("_", ""), word)


def protocol_name(word: str) -> str:
    """toposcope's name of a protocol: of a word ("SIMPLE") or a number; the word where it names none."""
    if word.isdecimal():
        number = int(word)
        return _PROTOCOL_NUMBERS[number] if number < len(_PROTOCOL_NUMBERS) else word
    return PROTOCOLS.get(word.lower(), word)


def version_numbers(version: str) -> tuple[int, int] | None:
    """Major and minor number of a version ("2.18.3+cuda12.2"); None where it does not begin with two numbers."""
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None
