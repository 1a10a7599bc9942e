"""Published runs made up for tests: documents, and the cases that they become."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from validate.published.cases import Cases, cases_of
from validate.published.document import SCHEMA
from validate.published.runs import runs_in


def document(**changes: Any) -> dict[str, Any]:
    """A small run on two GPUs of a DGX, with these top-level keys changed."""
    machine = {
        "topology": "machines/dgx-a100.xml",
        "description": "half of it",
        "nodes": 1,
        "gpus_per_node": 2,
        "class": "A100-test",
        "assumed": None,
    }
    plain = {
        "schema": SCHEMA,
        "id": "900",
        "name": "mine",
        "source": "my own desk",
        "machine": machine,
        "collective": "all_reduce",
        "num_ranks": 2,
        "algorithm": None,
        "protocol": None,
        "num_channels": None,
        "dtype": "float",
        "reduction": "sum",
        "software": {"nccl": "2.30.7", "gpus_per_process": 1, "env": {}},
        "quality": "healthy",
        "quality_basis": "mine",
        "explanation": "",
        "samples": [{"num_bytes": 1024, "time_s": 1e-5}, {"num_bytes": 1 << 20, "time_s": 5e-5}],
    }
    machine.update(changes.pop("machine", {}))
    return {**plain, **changes}


def cases_from(folder: Path, *documents: dict[str, Any], machines: Path | None = None) -> Cases:
    folder.mkdir(exist_ok=True)
    for number, plain in enumerate(documents):
        (folder / f"{number}.json").write_text(json.dumps(plain))
    found = runs_in(folder)
    made = cases_of(found.runs, machines)
    return Cases(made.cases, (*found.set_aside, *made.set_aside), made.remarks)
