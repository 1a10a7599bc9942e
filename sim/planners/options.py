"""What a user fixes of a plan, for every planner."""

from __future__ import annotations

from dataclasses import dataclass, replace

from topo.errors import UnitError

P2P_DISABLE = "NCCL_P2P_DISABLE"
"""NCCL's variable without which GPUs of one machine write into each other's memory."""

P2P_LEVEL = "NCCL_P2P_LEVEL"
"""How far apart GPUs may be for that; LOC: no two of them do it."""

NVLS_ENABLE = "NCCL_NVLS_ENABLE"
"""NCCL's variable for reducing in NVSwitches, which reaches other GPUs' memory too."""

MOST = 65_536
"""Channels and chunks beyond this are a slip of the keyboard, and would ask for gigabytes."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a user fixes; None leaves it to the planner.

    `server` is `host`, or ranks or GPU names with commas. `protocol` and `environment` (names and values of NCCL's
    variables) are for planners that know a library's protocols. `nccl_version` is that of the NCCL that runs, for the
    planner of another version, which follows what is known of it (None: its own).
    """

    num_channels: int | None = None
    num_chunks: int | None = None
    server: str | None = None
    protocol: str | None = None
    environment: tuple[tuple[str, str], ...] = ()
    nccl_version: tuple[int, ...] | None = None

    def without_peers(self) -> Options:
        """The same without the two variables on GPUs' reaching each other: what the network follows, whoever plans."""
        kept = tuple(pair for pair in self.environment if pair[0] not in (P2P_DISABLE, NVLS_ENABLE))
        return replace(self, environment=kept)

    def __post_init__(self) -> None:
        if self.server is not None and not self.server.strip():
            raise UnitError("--server names no server: give host, or GPUs such as 0,1")
        for name, value in (("channels", self.num_channels), ("chunks", self.num_chunks)):
            if value is not None and not 1 <= value <= MOST:
                raise UnitError(f"--{name} {value}: a number from 1 to {MOST} is needed")
