"""What in a log may explain that NCCL did not build what the plan of it says: each cause a sentence, or empty."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sim.planners.nccl_2_30.options import NcclOptions
from topo.errors import TopoError
from topo.words import counted

if TYPE_CHECKING:
    from sim.planners.nccl_2_30 import NcclPlan
    from topo.readers.nccl_log.facts import Communicator, NcclLog

VERSION = (2, 30)


class Causes:
    """The causes that one log offers for differences from one plan."""

    def __init__(self, plan: NcclPlan, log: NcclLog) -> None:
        self._plan = plan
        self._log = log

    def all(self) -> Iterable[str]:
        """All that may explain that NCCL built something else, the most telling first."""
        return (self.version(), self.plugins(), self.networks(), self.settings(), self.partial())

    def version(self) -> str:
        """That another NCCL made the log, or an unknown one."""
        versions = self._log.versions
        if not versions:
            return "the log does not say of which NCCL it is"
        numbers = versions[0].split(".")[:2]
        same = tuple(int(number) for number in numbers if number.isdecimal()) == VERSION
        return "" if same else f"the log is of NCCL {versions[0]}, which searches and tunes otherwise than 2.30"

    def plugins(self) -> str:
        """That a network plugin had a say in rates and latencies."""
        plugins = [name for name in self._log.plugins if name not in ("IB", "Socket")]
        return f"network plugin {', '.join(plugins)} states rates and latencies of its own" if plugins else ""

    def tuner_plugin(self) -> str:
        """That a plugin chose algorithms and protocols."""
        names = [setting.name for setting in self._log.settings if setting.name.startswith("NCCL_TUNER")]
        return f"{names[0]} is set: a plugin chooses" if names else ""

    def networks(self) -> str:
        """NICs of the log that are not those of the plan: fused, hidden, or others."""
        used = {(device.host, device.index) for device in self._log.networks if device.kind != "Socket"}
        hosts = {host for host, _ in used}
        if not used:
            sockets = any(device.kind == "Socket" for device in self._log.networks)
            has_nic = self._plan.num_nets > 0
            return "the run used sockets, no RDMA" if sockets and has_nic else ""
        per_host = len(used) // max(len(hosts), 1)
        planned = self._plan.num_nets
        if per_host == planned:
            return ""
        fused = any("+" in device.name for device in self._log.networks)
        return f"the run had {counted(per_host, 'NIC')} on a host{' (fused)' if fused else ''}, the plan has {planned}"

    def settings(self) -> str:
        """That NCCL was told something that plans do not follow."""
        names = [setting.name for setting in self._log.settings]
        unknown = NcclOptions.from_environment({name: "" for name in names if _is_not_modelled(name)}).not_modelled
        telling = [name for name in unknown if not name.startswith(("NCCL_DEBUG", "NCCL_SOCKET", "NCCL_IB_TC"))]
        return f"the run had {', '.join(telling[:3])}, which plans do not follow" if telling else ""

    def partial(self) -> str:
        """That not all ranks speak in the log."""
        main = self._log.main
        whole = main is not None and main.complete and not self._log.unread
        return "" if whole else "the log shows only some of the ranks"

    def order(self, main: Communicator) -> str:
        """Whether ranks do not follow the GPUs' numbers (affinity, CUDA_VISIBLE_DEVICES)."""
        by_host: dict[str | None, list[int]] = {}
        for place in sorted(main.places, key=lambda place: place.rank):
            number = place.nvml_dev if place.nvml_dev is not None else place.cuda_dev
            if number is not None:
                by_host.setdefault(place.host, []).append(number)
        mixed = any(numbers != sorted(numbers) for numbers in by_host.values())
        return "ranks do not follow the numbers of the GPUs (affinity or CUDA_VISIBLE_DEVICES)" if mixed else ""


def _is_not_modelled(name: str) -> bool:
    try:
        return bool(NcclOptions.from_environment({name: ""}).not_modelled)
    except TopoError:
        return False
