"""Logs of NCCL (NCCL_DEBUG=INFO, 2.3 to 2.30; RCCL's too): text -> which rings, trees and transports a run used.

Launchers, collectors and people wrap such logs, tear lines and cut parts out. What a line says counts only where it
is whole; `unread` of the result lists the others. Of several communicators in one log the largest is `main`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from topo.errors import CaptureError

if TYPE_CHECKING:
    from topo.readers.nccl_log.facts import NcclLog

FORMAT = "NCCL log"

_TELLING = (
    *("INFO Channel ", "INFO Ring ", "INFO Trees ", "INFO Tree ", "INFO Coll", " comm 0x"),
    *("=== System : max", "INFO Pattern ", " Bytes -> Algo ", " coll channels, "),
)
"""Words of which a log holds at least one; `NCCL INFO Launch mode` alone tells nothing of a run."""

_BARE = re.compile(
    r"^[ >]{0,12}(?:=== System : max(?:Bw|Width) |Trees \[\d+\] [-\d/]+->|Pattern \d+, crossNic |"
    r"Ring \d+ : \d+ -> \d+ -> \d+$|Channel \d+/\d+ :(?: +\d+)+$|"
    r"Channel \d+(?:/\d+)? : \d+\[\w+\] -> \d+\[\w+\] (?:\[\w+\] )?via )",
    re.MULTILINE,
)
"""Lines of a log whose prefix somebody cut off."""


def sniff(text: str) -> bool:
    """Whether the text is a log of NCCL that tells something of a run, or an excerpt of one without its prefixes."""
    if "NCCL INFO" in text or "NCCL WARN" in text:
        return any(words in text for words in _TELLING)
    return _BARE.search(text) is not None


def read(text: str, source: str = "") -> NcclLog:
    """Everything that the log says; CaptureError where it has no line of NCCL's that tells anything of a run."""
    from topo.readers.nccl_log.collect import collect

    if not sniff(text):
        raise CaptureError(
            "no log of NCCL: expected lines with NCCL INFO about channels, rings or a communicator; run with "
            "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,ENV,TUNING",
            source=source,
        )
    return collect(text, source)


def summary(log: NcclLog) -> dict[str, Any]:
    """What the log's main communicator did, in plain values for JSON.

    `num_ranks`, `num_nodes` (None: not shown), `rings` (whole ones, from rank 0 in sending direction) with their
    `ring_channels`, `trees` for each channel: `{"up": [...], "down": [[...]]}` by rank, -1 for none and None where no
    line shows it; `transports`: how many connection lines of the whole log name each.
    """
    from topo.jsonio import to_plain
    from topo.readers.nccl_log.run import run_of

    plain: dict[str, Any] = to_plain(run_of(log))
    return plain
