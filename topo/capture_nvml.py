"""What NVML tells of this machine's GPUs, as a JSON document: through nvidia-ml-py, where that is installed.

It stands in for nvidia-smi where a container has the driver's library, but not the command. What a call refuses is
left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from topo.commands import RawText

FILE = "nvml.json"
COMMAND = ("python", "-m", "pynvml")
SCHEMA = "nvml/1"
MAX_NVLINKS = 18


def capture_nvml() -> RawText:
    """The document, or why there is none."""
    try:
        import pynvml
    except ImportError:
        return RawText(FILE, COMMAND, problem="not installed (pip install nvidia-ml-py)")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return RawText(FILE, COMMAND, problem=f"NVML says: {error}")
    try:
        return RawText(FILE, COMMAND, _document(pynvml))
    except pynvml.NVMLError as error:
        return RawText(FILE, COMMAND, problem=f"NVML says: {error}")
    finally:
        pynvml.nvmlShutdown()


def _document(nvml: Any) -> str:
    from topo import jsonio

    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    gpus = [_gpu(nvml, index, handle) for index, handle in enumerate(handles)]
    pairs = [_pair(nvml, one, other, handles) for one in range(len(handles)) for other in range(one + 1, len(handles))]
    return jsonio.encode_document(SCHEMA, {"gpus": gpus, "pairs": pairs})


def _gpu(nvml: Any, index: int, handle: Any) -> dict[str, Any]:
    ask = _asker(nvml)
    capability = ask(nvml.nvmlDeviceGetCudaComputeCapability, handle)
    mig = ask(nvml.nvmlDeviceGetMigMode, handle)
    return {
        "index": index,
        "name": _words(ask(nvml.nvmlDeviceGetName, handle)),
        "bus_id": _bus_id(ask(nvml.nvmlDeviceGetPciInfo, handle)),
        "compute_capability": list(capability) if capability else None,
        "pcie_generation": ask(nvml.nvmlDeviceGetCurrPcieLinkGeneration, handle),
        "pcie_generation_max": ask(nvml.nvmlDeviceGetMaxPcieLinkGeneration, handle),
        "pcie_width": ask(nvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
        "pcie_width_max": ask(nvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
        "mig": bool(mig[0]) if mig else None,
        "nvlinks": list(_nvlinks(nvml, handle)),
    }


def _nvlinks(nvml: Any, handle: Any) -> Iterator[dict[str, Any]]:
    ask = _asker(nvml)
    for link in range(MAX_NVLINKS):
        state = ask(nvml.nvmlDeviceGetNvLinkState, handle, link)
        if state is None:
            return
        remote = _bus_id(ask(nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)) if state else None
        yield {"link": link, "active": bool(state), "remote": remote}


def _pair(nvml: Any, one: int, other: int, handles: list[Any]) -> dict[str, Any]:
    ask = _asker(nvml)
    level = ask(nvml.nvmlDeviceGetTopologyCommonAncestor, handles[one], handles[other])
    p2p = ask(nvml.nvmlDeviceGetP2PStatus, handles[one], handles[other], nvml.NVML_P2P_CAPS_INDEX_READ)
    return {"gpus": [one, other], "common_ancestor": level, "p2p_read": p2p}


def _asker(nvml: Any) -> Callable[..., Any]:
    """Calls a function of NVML; None where it refuses, or this library has no such function."""

    def ask(function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except nvml.NVMLError:
            return None

    return ask


def _bus_id(info: Any) -> str | None:
    return None if info is None else _words(info.busId)


def _words(text: Any) -> str | None:
    """Older releases of the library return bytes."""
    return text.decode(errors="replace") if isinstance(text, bytes) else text
