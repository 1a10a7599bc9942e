"""A stand-in for iproute2 and the kernel: takes the lab's commands, and says of itself what the real ones would."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from topo.errors import EnvironmentMissing


@dataclass
class FakeSystem:
    """Namespaces with their devices. `fails_at` is the number of the command that is refused, None for none."""

    namespaces: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    commands: list[tuple[str, ...]] = field(default_factory=list)
    fails_at: int | None = None

    def __call__(self, command: Sequence[str]) -> str:
        self.commands.append(tuple(command))
        if self.fails_at == len(self.commands):
            raise EnvironmentMissing(f"{' '.join(command)}: Operation not permitted")
        match command:
            case ("ip", "netns", "add", name):
                assert name not in self.namespaces
                self.namespaces[name] = {}
            case ("ip", "netns", "delete", name):
                if name not in self.namespaces:
                    raise EnvironmentMissing(f"{name}: no such file or directory")
                del self.namespaces[name]
            case ("ip", "netns", "list"):
                return "".join(f"{name} (id: 1)\n" for name in self.namespaces)
            case ("ip", "netns", "pids", _):
                return ""
            case ("ip", "netns", "exec", name, "sh", "-c", _):
                assert name in self.namespaces
            case ("ip", "-netns", name, *words):
                return self._ip(name, words)
            case ("tc", "-netns", name, *words):
                return self._tc(name, words)
            case _:
                raise AssertionError(f"an unknown command: {command}")
        return ""

    def _ip(self, name: str, words: Sequence[str]) -> str:
        devices = self.namespaces[name]
        match words:
            case ("link", "add", device, "type", "bridge"):
                self._add(name, device, linkinfo={"info_kind": "bridge"})
            case ("link", "add", near, "type", "veth", "peer", "name", far, "netns", other):
                self._pair((name, near), (other, far))
            case ("link", "add", near, "type", "veth", "peer", "name", far):
                self._pair((name, near), (name, far))
                devices[near]["link"], devices[far]["link"] = far, near
            case ("link", "set", device, "master", bridge):
                assert devices[bridge]["linkinfo"]["info_kind"] == "bridge"
                devices[device]["master"] = bridge
            case ("link", "set", device, *_):
                assert device in devices or device == "lo"
            case ("address", "add", _, "dev", device):
                assert device in devices
            case ("-json", "-details", "link", "show"):
                return json.dumps(
                    [{key: item for key, item in row.items() if key != "rate"} for row in devices.values()]
                )
            case _:
                raise AssertionError(f"unknown words of ip: {words}")
        return ""

    def _tc(self, name: str, words: Sequence[str]) -> str:
        devices = self.namespaces[name]
        match words:
            case ("qdisc", "add", "dev", device, "root", "tbf", "rate", rate, "burst", _, "limit", _):
                devices[device]["rate"] = round(int(rate.removesuffix("bit")) / 8)
                return ""
            case ("-json", "qdisc", "show"):
                limited = [row for row in devices.values() if "rate" in row]
                return json.dumps(
                    [{"kind": "tbf", "dev": row["ifname"], "options": {"rate": row["rate"]}} for row in limited]
                    + [{"kind": "noqueue", "dev": "lo", "options": {}}]
                )
            case _:
                raise AssertionError(f"unknown words of tc: {words}")

    def _add(self, name: str, device: str, **more: Any) -> dict[str, Any]:
        devices = self.namespaces[name]
        assert device not in devices
        assert len(device) <= 15
        devices[device] = {"ifindex": len(devices) + 2, "ifname": device, **more}
        return devices[device]

    def _pair(self, near: tuple[str, str], far: tuple[str, str]) -> None:
        ends = [self._add(*end, linkinfo={"info_kind": "veth"}) for end in (near, far)]
        ends[0]["link_index"], ends[1]["link_index"] = ends[1]["ifindex"], ends[0]["ifindex"]
