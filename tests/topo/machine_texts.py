"""What the tools print on an invented machine, to be changed and put together at will."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

H100 = "NVIDIA H100 80GB HBM3"
BUSES = ("18", "2a", "3a", "5d", "9a", "ab", "ba", "db")


def matrix(letters: Sequence[Sequence[str]], numa: Sequence[int] = (), nics: int = 0) -> str:
    """`nvidia-smi topo -m`: rows of letters over GPUs first, then NICs; "X" on the diagonal."""
    labels = [f"GPU{i}" for i in range(len(letters) - nics)] + [f"NIC{i}" for i in range(nics)]
    lines = ["\t" + "\t".join(labels) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"]
    for place, (label, row) in enumerate(zip(labels, letters, strict=True)):
        node = numa[place] if place < len(numa) else 0
        tail = f"\t{node * 32}-{node * 32 + 31}\t{node}\t\tN/A" if label.startswith("GPU") else ""
        lines.append("\t".join([label, *(f" {cell} " if cell == "X" else cell for cell in row)]) + tail)
    return "\n".join(lines) + "\n\nLegend:\n\n  X    = Self\n"


def all_to_all(count: int, letters: str, *, but: Mapping[tuple[int, int], str] | None = None) -> list[list[str]]:
    """The same letters between all GPUs, but for the pairs that are told (each once)."""
    told = {**(but or {}), **{(b, a): cell for (a, b), cell in (but or {}).items()}}
    return [["X" if a == b else told.get((a, b), letters) for b in range(count)] for a in range(count)]


def listing(count: int, name: str = H100) -> str:
    """`nvidia-smi -L`."""
    return "".join(f"GPU {i}: {name} (UUID: GPU-00000000-0000-0000-0000-{i:012d})\n" for i in range(count))


def nvlinks(active: Sequence[int], total: int = 18, name: str = H100, rate: str = "26.562") -> str:
    """`nvidia-smi nvlink -s`: how many links of each GPU are up, of how many."""
    lines = []
    for gpu, up in enumerate(active):
        lines.append(f"GPU {gpu}: {name} (UUID: GPU-00000000-0000-0000-0000-{gpu:012d})")
        lines += [f"\t Link {link}: {f'{rate} GB/s' if link < up else '<inactive>'}" for link in range(total)]
    return "\n".join(lines) + "\n"


def remotes(links: Sequence[Sequence[str]], name: str = H100) -> str:
    """`nvidia-smi nvlink -R`: the address that each link of each GPU leads to."""
    lines = []
    for gpu, ends in enumerate(links):
        lines.append(f"GPU {gpu}: {name} (UUID: GPU-00000000-0000-0000-0000-{gpu:012d})")
        lines += [f"\t Link {link}: Remote Device {end}: Link 0" for link, end in enumerate(ends)]
    return "\n".join(lines) + "\n"


def query(
    count: int, name: str = H100, now: str = "5, 5, 16, 16", buses: Sequence[str] = BUSES, more: Mapping[int, str] = {}
) -> str:
    """The CSV of `nvidia-smi --query-gpu`: generation now and at best, width now and at best; `more` by GPU."""
    lines = [
        "index, name, pci.bus_id, compute_cap, pcie.link.gen.current, pcie.link.gen.max, pcie.link.width.current, "
        "pcie.link.width.max"
    ]
    capability = {H100: "9.0"}.get(name, "[N/A]")
    lines += [f"{i}, {name}, 00000000:{buses[i]}:00.0, {capability}, {more.get(i, now)}" for i in range(count)]
    return "\n".join(lines) + "\n"


def p2p(count: int, marks: str = "OK", *, but: Mapping[tuple[int, int], str] | None = None) -> str:
    """`nvidia-smi topo -p2p r`."""
    rows = all_to_all(count, marks, but=but)
    lines = [" \t" + "\t".join(f"GPU{i}" for i in range(count))]
    lines += [f" GPU{i}\t" + "\t".join(row) for i, row in enumerate(rows)]
    return "\n".join(lines) + "\n\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n"


def lspci(
    count: int,
    acs: str = "SrcValid- TransBlk- ReqRedir- CmpltRedir-",
    width: int = 16,
    buses: Sequence[str] = BUSES,
    numa: Sequence[int] = (0,) * 4 + (1,) * 4,
) -> str:
    """`lspci -vvv` of GPUs, each below a root port of its own."""
    lines = []
    for i in range(count):
        bus = int(buses[i], 16)
        lines += [
            f"{bus - 1:02x}:00.0 PCI bridge: Invented root port (rev 01) (prog-if 00 [Normal decode])",
            f"\tBus: primary={bus - 1:02x}, secondary={bus:02x}, subordinate={bus:02x}, sec-latency=0",
            "\tCapabilities: [40] Express (v2) Root Port (Slot+), MSI 00",
            "\t\tLnkCap:\tPort #1, Speed 32GT/s, Width x16, ASPM L1",
            f"\t\tLnkSta:\tSpeed 32GT/s, Width x{width}",
            f"\t\tACSCtl:\t{acs}",
            f"{bus:02x}:00.0 3D controller: NVIDIA Corporation Invented (rev a1)",
            f"\tNUMA node: {numa[i]}",
            "\tCapabilities: [60] Express (v2) Endpoint, MSI 00",
            "\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM L1",
            f"\t\tLnkSta:\tSpeed 32GT/s, Width x{width}",
        ]
    return "\n".join(lines) + "\n"


def xml(count: int, lanes: int = 18, speed: str = "32.0 GT/s PCIe", buses: Sequence[str] = BUSES, sm: int = 90) -> str:
    """NCCL's topology XML of GPUs on NVSwitches."""
    lines = [
        '<system version="1">',
        '  <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">',
    ]
    for i in range(count):
        lines += [
            f'    <pci busid="0000:{buses[i]}:00.0" class="0x030200" link_speed="{speed}" link_width="16">',
            f'      <gpu dev="{i}" sm="{sm}" rank="{i}" gdr="1">',
            f'        <nvlink target="fffffff:ffff:ff" count="{lanes}" tclass="0x068000"/>',
            "      </gpu>",
            "    </pci>",
        ]
    return "\n".join([*lines, "  </cpu>", "</system>"]) + "\n"


def write_all(folder: Path, texts: Mapping[str, str]) -> str:
    """The texts as files of a folder; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return str(folder)
