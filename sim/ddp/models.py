"""What `--model` names: a known model, a family with its hyper-parameters, or a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sim.ddp.families import FAMILIES, Options, build
from sim.ddp.model import Model, ModelFile
from topo.errors import NameChoiceError, UnitError

SCHEMA = "ddp-model/1"

MODELS: Mapping[str, str] = {
    "resnet18": "resnet:depth=18",
    "resnet34": "resnet:depth=34",
    "resnet50": "resnet:depth=50",
    "resnet101": "resnet:depth=101",
    "resnet152": "resnet:depth=152",
    "bert-base": "bert:layers=12,hidden=768,ffn=3072",
    "bert-large": "bert:layers=24,hidden=1024,ffn=4096",
    "gpt2": "gpt2:layers=12,hidden=768",
    "gpt2-medium": "gpt2:layers=24,hidden=1024",
    "gpt2-large": "gpt2:layers=36,hidden=1280",
    "gpt2-xl": "gpt2:layers=48,hidden=1600",
    "llama-7b": "llama:layers=32,hidden=4096,ffn=11008,heads=32,kv_heads=32",
    "llama-13b": "llama:layers=40,hidden=5120,ffn=13824,heads=40,kv_heads=40",
}
"""Known models as their description."""


def load_model(text: str) -> Model:
    """The model that a text means: a name of MODELS, `FAMILY:OPTION=NUMBER,...`, or a `ddp-model/1` file.

    NameChoiceError for a name that is none, CaptureError (file and place) for a file that is no such document.
    """
    if text in MODELS:
        return _described(text, MODELS[text])
    if text.partition(":")[0] in FAMILIES:
        return _described(text, text)
    path = Path(text)
    if path.suffix == ".json" or path.exists():
        return _read(path)
    raise NameChoiceError("model (or file)", text, (*MODELS, *FAMILIES))


MOST_DIGITS = 9


def _described(name: str, description: str) -> Model:
    family, _, listed = description.partition(":")
    options: Options = {}
    for part in filter(None, listed.split(",")):
        option, equals, value = part.partition("=")
        if not (equals and value.strip().isdecimal()):
            raise UnitError(f"model {name}: {part!r} is no OPTION=NUMBER, such as layers=24")
        if len(value) > MOST_DIGITS:
            raise UnitError(f"model {name}: {part[:40]!r} has more than {MOST_DIGITS} digits: no model is so large")
        if option.strip() in options:
            raise UnitError(f"model {name}: {option.strip()} is given twice, give each option once")
        options[option.strip()] = int(value)
    return build(name, family, options)


def _read(path: Path) -> Model:
    from topo.errors import CaptureError, TopoError
    from topo.jsonio import decode
    from topo.textfile import read_file

    found = decode(read_file(path), ModelFile, SCHEMA, str(path))
    try:
        return found.model()
    except TopoError as error:
        raise CaptureError(str(error), source=str(path)) from None
