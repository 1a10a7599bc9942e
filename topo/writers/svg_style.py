"""The colours of drawings: on white for screens and paper, and on black where the viewer prefers it dark."""

from __future__ import annotations

LIGHT = """\
text { font-family: "DejaVu Sans", Verdana, sans-serif; font-size: 10px; fill: #1f2328; }
.page { fill: #ffffff; }
.title { font-size: 15px; font-weight: bold; }
.middle { text-anchor: middle; }
.name { font-weight: bold; }
.note, .legend { fill: #424a53; }
.frame { fill: #fafbfc; stroke: #6e7781; }
.cpu .box { fill: #f0f3f6; stroke: #8c959f; }
.box { fill: #ffffff; stroke: #8c959f; }
.bar, .box { stroke-width: 1; }
.cpu .bar { fill: #d5dbe1; stroke: #57606a; }
.pcie_switch .bar, .host_bridge .bar, .nic_card .bar { fill: #e9ddf7; stroke: #6e4ba3; }
.gpu rect, .process rect { fill: #dcefba; stroke: #4c7a00; }
.nic rect { fill: #d3e5fb; stroke: #0a58a8; }
.nvswitch rect { fill: #b5d989; stroke: #3d6300; }
.net_switch rect { fill: #a9cdf5; stroke: #0a58a8; }
.idle rect { fill-opacity: 0.25; stroke-dasharray: 4 3; }
.link { fill: none; }
.nvlink { stroke: #4c8c00; }
.xgmi { stroke: #c2410c; }
.c2c { stroke: #00857a; }
.pcie { stroke: #8250df; }
.cpu-link { stroke: #9a6700; }
.network { stroke: #0a58a8; }
.local { stroke: #6e7781; stroke-dasharray: 2 2; }
.bad { stroke: #cf222e; }
.down { stroke-dasharray: 6 4; }
.alarm { fill: #cf222e; font-weight: bold; paint-order: stroke; stroke: #ffffff; stroke-width: 3px; }
"""
"""The style sheet of every drawing; classes are states, and kinds of devices and links (`cpu-link` between CPUs)."""

DARK = """\
text { fill: #e6edf3; }
.page { fill: #0d1117; }
.note, .legend { fill: #b1bac4; }
.frame { fill: #11161d; stroke: #6e7681; }
.cpu .box { fill: #161b22; stroke: #6e7681; }
.box { fill: #0d1117; stroke: #6e7681; }
.cpu .bar { fill: #30363d; stroke: #8b949e; }
.pcie_switch .bar, .host_bridge .bar, .nic_card .bar { fill: #3c2a5c; stroke: #a882e0; }
.gpu rect, .process rect { fill: #26400a; stroke: #86b93f; }
.nic rect { fill: #0c2d55; stroke: #6cb0ff; }
.nvswitch rect { fill: #35590c; stroke: #a4d65e; }
.net_switch rect { fill: #103f75; stroke: #6cb0ff; }
.nvlink { stroke: #86c232; }
.xgmi { stroke: #f08a4b; }
.c2c { stroke: #3ec9bb; }
.pcie { stroke: #b392f0; }
.cpu-link { stroke: #d8a83c; }
.network { stroke: #6cb0ff; }
.local { stroke: #8b949e; }
.bad { stroke: #ff7b72; }
.alarm { fill: #ff7b72; stroke: #0d1117; }
"""
"""What differs where the viewer prefers it dark."""

STYLE = f"{LIGHT}@media (prefers-color-scheme: dark) {{\n{DARK}}}\n"
"""Both in one sheet."""
