"""Model families as code: parameters by name and shape from hyper-parameters, in the order that torch lists them.

Names and order are those of torchvision (ResNet) and of Hugging Face transformers (BertModel, GPT2LMHeadModel with its
head tied to the embedding, LlamaForCausalLM). A matrix of i x o costs 2*i*o operations per token in forward; attention
further 4*s*d per token of a sequence of s tokens (scores and their sum over values, nothing saved for causal masks).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sim.ddp.model import FLOPS_PER_WEIGHT, Layer, Model, Parameter
from topo.errors import NameChoiceError, UnitError

Options = dict[str, int]

MFU_OF_CONVOLUTIONS = 0.2
"""Assumed: ResNet-50 at 2,500 images/s on an A100 in mixed precision is 61 of 312 TFLOP/s."""

MFU_OF_TRANSFORMERS = 0.4
"""Assumed: published training runs of large transformers report 0.3 to 0.55."""


@dataclass(frozen=True, slots=True)
class Family:
    """One family: its options with their defaults, and what builds a model from a name and all of them."""

    options: Options
    build: Callable[[str, Options], Model]


def _linear(name: str, wide_in: int, wide_out: int, tokens: int, unit: str, *, bias: bool = True) -> Layer:
    """A linear layer; torch stores (out, in)."""
    weights = [Parameter(f"{name}.weight", (wide_out, wide_in))]
    weights += [Parameter(f"{name}.bias", (wide_out,))] if bias else []
    return Layer(name, tuple(weights), FLOPS_PER_WEIGHT * wide_in * wide_out * tokens, unit)


def _norm(name: str, width: int, unit: str = "", *, bias: bool = True) -> Layer:
    """A norm: few operations, which are not counted."""
    names = ("weight", "bias") if bias else ("weight",)
    return Layer(name, tuple(Parameter(f"{name}.{own}", (width,)) for own in names), 0.0, unit, first_to_last=True)


def _embedding(name: str, rows: int, width: int) -> Layer:
    return Layer(name, (Parameter(f"{name}.weight", (rows, width)),), 0.0)


def _attention(name: str, width: int, tokens: int, unit: str) -> Layer:
    return Layer(name, (), 4.0 * tokens * tokens * width, unit)


RESNETS = {
    18: ("basic", (2, 2, 2, 2)),
    34: ("basic", (3, 4, 6, 3)),
    50: ("bottleneck", (3, 4, 6, 3)),
    101: ("bottleneck", (3, 4, 23, 3)),
    152: ("bottleneck", (3, 8, 36, 3)),
}
"""Blocks per stage by depth (He et al., Deep Residual Learning, table 1)."""


def resnet(name: str, options: Options) -> Model:
    """A ResNet of torchvision for images of `image` x `image` pixels and `classes` classes."""
    if options["depth"] not in RESNETS:
        raise NameChoiceError("depth of resnet", str(options["depth"]), map(str, RESNETS))
    kind, blocks = RESNETS[options["depth"]]
    return Model(
        name,
        tuple(_resnet_layers(kind, blocks, options)),
        batch=64,
        mfu=MFU_OF_CONVOLUTIONS,
    )


def _resnet_layers(kind: str, blocks: tuple[int, ...], options: Options) -> Iterator[Layer]:
    pixels = _halved(options["image"])
    yield _convolution("conv1", 3, 64, 7, pixels, "stem")
    yield _norm("bn1", 64, "stem")
    pixels, width_in = _halved(pixels), 64
    for stage, count in enumerate(blocks, start=1):
        for block in range(count):
            strided = stage > 1 and block == 0
            before, pixels = pixels, _halved(pixels) if strided else pixels
            layers = _block(f"layer{stage}.{block}", kind, width_in, 64 * 2 ** (stage - 1), before, pixels)
            yield from layers
            width_in = 64 * 2 ** (stage - 1) * (4 if kind == "bottleneck" else 1)
    yield _linear("fc", width_in, options["classes"], 1, "")


def _block(name: str, kind: str, width_in: int, width: int, before: int, pixels: int) -> Iterator[Layer]:
    """A residual block; the stride of a bottleneck is in its 3x3 convolution (torchvision's v1.5)."""
    if kind == "basic":
        convolutions = [(width_in, width, 3, pixels), (width, width, 3, pixels)]
    else:
        convolutions = [(width_in, width, 1, before), (width, width, 3, pixels), (width, width * 4, 1, pixels)]
    for number, (wide_in, wide_out, kernel, size) in enumerate(convolutions, start=1):
        yield _convolution(f"{name}.conv{number}", wide_in, wide_out, kernel, size, name)
        yield _norm(f"{name}.bn{number}", wide_out, name)
    width_out = convolutions[-1][1]
    if width_out != width_in or before != pixels:
        yield _convolution(f"{name}.downsample.0", width_in, width_out, 1, pixels, name)
        yield _norm(f"{name}.downsample.1", width_out, name)


def _convolution(name: str, wide_in: int, wide_out: int, kernel: int, pixels: int, unit: str) -> Layer:
    weight = Parameter(f"{name}.weight", (wide_out, wide_in, kernel, kernel))
    return Layer(name, (weight,), float(FLOPS_PER_WEIGHT * weight.num_elements * pixels * pixels), unit)


def _halved(pixels: int) -> int:
    """The side of an image after a stride of 2 with padding."""
    return (pixels + 1) // 2


def bert(name: str, options: Options) -> Model:
    """BertModel: embeddings, encoder and pooler, without a head."""
    width, tokens = options["hidden"], options["context"]
    rows = {"word": options["vocab"], "position": options["positions"], "token_type": 2}
    word, position, token_type = (_embedding(f"embeddings.{kind}_embeddings", rows[kind], width) for kind in rows)
    layers = [word, token_type, position, _norm("embeddings.LayerNorm", width)]
    for number in range(options["layers"]):
        unit = f"encoder.layer.{number}"
        own = f"{unit}.attention"
        layers += [_linear(f"{own}.self.{part}", width, width, tokens, unit) for part in ("query", "key", "value")]
        layers += [
            _attention(f"{own}.self", width, tokens, unit),
            _linear(f"{own}.output.dense", width, width, tokens, unit),
            _norm(f"{own}.output.LayerNorm", width, unit),
            _linear(f"{unit}.intermediate.dense", width, options["ffn"], tokens, unit),
            _linear(f"{unit}.output.dense", options["ffn"], width, tokens, unit),
            _norm(f"{unit}.output.LayerNorm", width, unit),
        ]
    layers.append(_linear("pooler.dense", width, width, 1, ""))
    declared = tuple(row.name for layer in (word, position, token_type, *layers[3:]) for row in layer.parameters)
    return Model(name, tuple(layers), declared, batch=8, tokens=tokens, mfu=MFU_OF_TRANSFORMERS)


def gpt2(name: str, options: Options) -> Model:
    """GPT2LMHeadModel; its linear layers store (in, out), and the head is the embedding once more."""
    width, tokens = options["hidden"], options["context"]
    layers = [
        _embedding("transformer.wte", options["vocab"], width),
        _embedding("transformer.wpe", options["positions"], width),
    ]
    for number in range(options["layers"]):
        unit = f"transformer.h.{number}"
        layers += [
            _norm(f"{unit}.ln_1", width, unit),
            _turned(_linear(f"{unit}.attn.c_attn", width, 3 * width, tokens, unit)),
            _attention(f"{unit}.attn", width, tokens, unit),
            _turned(_linear(f"{unit}.attn.c_proj", width, width, tokens, unit)),
            _norm(f"{unit}.ln_2", width, unit),
            _turned(_linear(f"{unit}.mlp.c_fc", width, 4 * width, tokens, unit)),
            _turned(_linear(f"{unit}.mlp.c_proj", 4 * width, width, tokens, unit)),
        ]
    head = Layer("lm_head", (), float(FLOPS_PER_WEIGHT * width * options["vocab"] * tokens))
    layers += [_norm("transformer.ln_f", width), head]
    return Model(name, tuple(layers), batch=8, tokens=tokens, mfu=MFU_OF_TRANSFORMERS)


def _turned(layer: Layer) -> Layer:
    """The layer with its matrix stored the other way."""
    weight, *rest = layer.parameters
    turned = Parameter(weight.name, weight.shape[::-1])
    return Layer(layer.name, (turned, *rest), layer.forward_flops, layer.unit)


def llama(name: str, options: Options) -> Model:
    """LlamaForCausalLM; a layer's norms are declared behind its matrices, but run before them."""
    width, tokens, heads = options["hidden"], options["context"], options["heads"]
    if width % heads or heads % options["kv_heads"]:
        raise UnitError(
            f"{name}: hidden {width}, heads {heads}, kv_heads {options['kv_heads']}: each must divide the one before"
        )
    narrow = width // heads * options["kv_heads"]
    layers = [_embedding("model.embed_tokens", options["vocab"], width)]
    declared = ["model.embed_tokens.weight"]
    for number in range(options["layers"]):
        unit = f"model.layers.{number}"
        wide = {"q": (width, width), "k": (width, narrow), "v": (width, narrow), "o": (width, width)}
        *inputs, output = [
            _linear(f"{unit}.self_attn.{part}_proj", *sizes, tokens, unit, bias=False) for part, sizes in wide.items()
        ]
        feed = {"gate": (width, options["ffn"]), "up": (width, options["ffn"]), "down": (options["ffn"], width)}
        mlp = [_linear(f"{unit}.mlp.{part}_proj", *sizes, tokens, unit, bias=False) for part, sizes in feed.items()]
        first, second = (
            _norm(f"{unit}.{where}_layernorm", width, unit, bias=False) for where in ("input", "post_attention")
        )
        block = [first, *inputs, _attention(f"{unit}.self_attn", width, tokens, unit), output, second, *mlp]
        layers += block
        declared += [row.name for layer in (*inputs, output, *mlp, first, second) for row in layer.parameters]
    head = _linear("lm_head", width, options["vocab"], tokens, "", bias=False)
    layers += [_norm("model.norm", width, bias=False), head]
    declared += ["model.norm.weight", "lm_head.weight"]
    return Model(name, tuple(layers), tuple(declared), batch=1, tokens=tokens, mfu=MFU_OF_TRANSFORMERS)


FAMILIES: dict[str, Family] = {
    "resnet": Family({"depth": 50, "image": 224, "classes": 1000}, resnet),
    "bert": Family({"layers": 24, "hidden": 1024, "ffn": 4096, "vocab": 30522, "positions": 512, "context": 512}, bert),
    "gpt2": Family({"layers": 12, "hidden": 768, "vocab": 50257, "positions": 1024, "context": 1024}, gpt2),
    "llama": Family(
        {"layers": 32, "hidden": 4096, "ffn": 11008, "heads": 32, "kv_heads": 32, "vocab": 32000, "context": 2048},
        llama,
    ),
}
"""Families by name."""

MOST_OF_AN_OPTION = 10**7
MOST_LAYERS = 1000


def build(name: str, family: str, given: Options) -> Model:
    """The model of a family with these options, all others at their default.

    NameChoiceError for a family or option that is not known, UnitError for a number out of range.
    """
    if family not in FAMILIES:
        raise NameChoiceError("family of models", family, FAMILIES)
    row = FAMILIES[family]
    for option, value in given.items():
        if option not in row.options:
            raise NameChoiceError(f"option of {family}", option, row.options)
        if not 1 <= value <= MOST_OF_AN_OPTION:
            raise UnitError(f"{family}: {option}={value}, a whole number from 1 to {MOST_OF_AN_OPTION} is needed")
    options = {**row.options, **given}
    if options.get("layers", 1) > MOST_LAYERS:
        raise UnitError(f"{family}: layers={options['layers']}, a whole number from 1 to {MOST_LAYERS} is needed")
    return row.build(name, options)
