"""What a published run fixed of NCCL, in the planner's terms, and what of it the planner cannot follow."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from topo.errors import NameChoiceError, TopoError

if TYPE_CHECKING:
    from validate.published.document import Published

_FORCING = ("NCCL_ALGO", "NCCL_PROTO")
_VERSION = re.compile(r"^(?P<upto>.*\bpre-)?[^\d]*(?P<numbers>\d+(?:\.\d+)+)")


@dataclass(frozen=True, slots=True)
class Settings:
    """`environment` is what NCCL would read, `algorithms` what a run states that it forced (None: nothing).

    `remarks` are sentences about what is not followed.
    """

    environment: tuple[tuple[str, str], ...]
    algorithms: tuple[str, ...] | None = None
    remarks: tuple[str, ...] = ()

    def unforced(self, remark: str) -> Settings:
        """The same without a forced algorithm or protocol, and with a remark that says why."""
        kept = tuple((name, value) for name, value in self.environment if name not in _FORCING)
        return replace(self, environment=kept, algorithms=None, remarks=(*self.remarks, remark))


def settings_of(run: Published) -> Settings:
    """The settings of a run: its NCCL_* variables, and the algorithm, protocol and channels that it states.

    A variable or value that the planner does not know is left out, with a remark; an algorithm or protocol that is
    stated and not known is a NameChoiceError.
    """
    from sim.planners.nccl_2_30 import NcclOptions
    from topo.readers.nccl_log.names import ALGORITHMS, PROTOCOLS

    environment: dict[str, str] = {}
    remarks = []
    for name, value in run.software.env.items():
        if not name.startswith("NCCL_"):
            continue
        text = str(int(value)) if isinstance(value, bool) else str(value)
        try:
            NcclOptions.from_environment({name: text})
        except TopoError as error:
            remarks.append(f"left out, since the planner cannot follow it: {error}")
            continue
        environment[name] = text
    if run.protocol is not None:
        environment.setdefault("NCCL_PROTO", _known("protocol", run.protocol, PROTOCOLS))
    if run.num_channels is not None:
        for name in ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"):
            environment.setdefault(name, str(run.num_channels))
    algorithms = None if run.algorithm is None else (_known("algorithm", run.algorithm, ALGORITHMS),)
    return Settings(tuple(environment.items()), algorithms, tuple(remarks))


def _known(what: str, word: str, names: Mapping[str, str]) -> str:
    """Our name for NCCL's or ours, in either case (`NVLSTree`, `nvls-tree`); NameChoiceError where it is neither."""
    folded = word.strip().lower().replace("-", "").replace("_", "")
    if folded not in names:
        raise NameChoiceError(f"{what} that was forced", word, names.values())
    return names[folded]


def nccl_version(text: str | None) -> tuple[int, ...] | None:
    """The numbers of the first version in a text; None where there is none, just below X where it says `pre-X`.

    >>> nccl_version("2.29.2 (nccl-library=22902)"), nccl_version("unknown (pre-2.12 header)"), nccl_version("see page")
    ((2, 29, 2), (2, 11), None)
    """
    found = _VERSION.match(text or "")
    if found is None:
        return None
    numbers = tuple(int(part) for part in found["numbers"].split("."))
    return (numbers[0], numbers[1] - 1) if found["upto"] else numbers
