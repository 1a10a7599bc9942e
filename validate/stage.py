"""How the processes of a launch stand: each in a network namespace of its own, late if they are told so, and watched.

A launch hands this to its processes as a file named by STAGE_VARIABLE; without it they stand as they were started.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topo.errors import EnvironmentMissing

STAGE_VARIABLE = "TOPOSCOPE_STAGE"
CLONE_NEWNET = 0x40000000
NAMESPACES = Path("/var/run/netns")
STORE_PORT = 29500
PRIORITY = 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where one process stands: the namespace, its device there, and its address."""

    namespace: str
    interface: str
    address: str


@dataclass(frozen=True, slots=True)
class Stage:
    """Places and delays by number of the process; none where they stay where they are, and nobody is held up.

    Before each meeting a process waits for `delays_s`. With `arrivals`, a file, rank 0 writes there for each job how
    long every process waited at the meetings.
    """

    places: tuple[Place, ...] = ()
    delays_s: tuple[float, ...] = ()
    arrivals: str = ""

    def environment(self, folder: Path) -> dict[str, str]:
        """The variables for a launch, which name a file in the folder with all of this."""
        from topo.jsonio import to_plain

        path = folder / "stage.json"
        path.write_text(json.dumps(to_plain(self)), encoding="utf-8")
        return {STAGE_VARIABLE: str(path)}

    def delay_s(self, rank: int) -> float:
        """For how long that process is held up before each meeting."""
        return self.delays_s[rank] if rank < len(self.delays_s) else 0.0

    def enter(self, rank: int) -> None:
        """Move this process into its namespace and tell its libraries; call it before any thread is started."""
        if rank >= len(self.places):
            return
        place = self.places[rank]
        _enter(place.namespace)
        os.environ.update(
            MASTER_ADDR=self.places[0].address,
            MASTER_PORT=str(STORE_PORT),
            TORCHELASTIC_USE_AGENT_STORE="False",
            GLOO_SOCKET_IFNAME=place.interface,
        )

    def hasten(self, *, shares_cores: bool = False) -> None:
        """Go before ordinary processes of a busy machine: what is measured waits for messages, not for a processor.

        Hosts of a lab do, and processes that share this machine's cores. Left out where the system does not allow it.
        """
        if self.places or shares_cores:
            with contextlib.suppress(OSError):
                os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(PRIORITY))


def stage_of(variables: Mapping[str, str]) -> Stage:
    """The stage that the variables name, an empty one without."""
    path = variables.get(STAGE_VARIABLE)
    if not path:
        return Stage()
    plain: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    places = tuple(Place(**place) for place in plain.get("places", ()))
    return Stage(places, tuple(plain.get("delays_s", ())), plain.get("arrivals", ""))


def _enter(namespace: str) -> None:
    """The system call itself: `os.setns` is there from Python 3.12 only."""
    libc = ctypes.CDLL(None, use_errno=True)
    with (NAMESPACES / namespace).open(encoding="utf-8") as handle:
        if libc.setns(handle.fileno(), CLONE_NEWNET) != 0:
            reason = os.strerror(ctypes.get_errno())
            raise EnvironmentMissing(f"cannot enter network namespace {namespace}: {reason}")
