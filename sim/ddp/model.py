"""A model as data-parallel training sees it: parameters by name and shape, in the order their gradients appear."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sim.workload import ELEMENT_BYTES
from topo.errors import NameChoiceError, UnitError

MOST_ELEMENTS = 10**13
"""More than any model has: beyond it a shape is a slip of the keyboard."""

FLOPS_PER_WEIGHT = 2
"""Operations that a weight costs in forward for each sample: it is multiplied once and added once."""

BACKWARD_PER_FORWARD = 2
"""Backward multiplies twice where forward does once: for the gradients of inputs and of weights."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One tensor of weights; `dtype` None is the model's."""

    name: str
    shape: tuple[int, ...]
    dtype: str | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise UnitError(f"a parameter of shape {list(self.shape)} has no name: give it one")
        wrong = [length for length in self.shape if length < 1]
        if wrong or self.num_elements > MOST_ELEMENTS:
            found = f"a length of {wrong[0]}" if wrong else f"{self.num_elements} elements"
            raise UnitError(
                f"parameter {self.name} of shape {list(self.shape)} has {found}: lengths from 1 on are needed, and at "
                f"most {MOST_ELEMENTS:.0e} elements"
            )
        if self.dtype is not None and self.dtype not in ELEMENT_BYTES:
            raise NameChoiceError(f"dtype of parameter {self.name}", self.dtype, ELEMENT_BYTES)

    @property
    def num_elements(self) -> int:
        """How many weights it holds."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Layer:
    """One piece of forward and backward with the parameters that are its own, in declared order.

    Its backward gives their gradients from the last to the first, as a linear layer's (bias, then weight), or with
    `first_to_last` the other way, as a convolution's and a norm's. `forward_flops` count one sample, None where only
    the weights are known. `unit` is what FSDP wraps it in, empty for the root.
    """

    name: str
    parameters: tuple[Parameter, ...] = ()
    forward_flops: float | None = None
    unit: str = ""
    first_to_last: bool = False

    def __post_init__(self) -> None:
        if self.forward_flops is not None and not 0 <= self.forward_flops < math.inf:
            raise UnitError(f"layer {self.name} has {self.forward_flops} forward_flops: 0 or more are needed")

    @property
    def num_elements(self) -> int:
        """How many weights its parameters hold."""
        return sum(row.num_elements for row in self.parameters)

    @property
    def ready(self) -> tuple[Parameter, ...]:
        """Its parameters in the order in which backward gives their gradients."""
        return self.parameters if self.first_to_last else self.parameters[::-1]


@dataclass(frozen=True)
class Model:
    """Layers in the order of forward.

    `declared` are the names of all parameters as torch's `named_parameters()` lists them; () where that is the order
    of the layers. `batch` and `tokens` (of one sample; 1 for images) are what a run takes where nothing else is said,
    `mfu` the share of a GPU's peak such a model is assumed to reach.
    """

    name: str
    layers: tuple[Layer, ...]
    declared: tuple[str, ...] = ()
    dtype: str = "float32"
    batch: int = 1
    tokens: int = 1
    mfu: float = 0.4

    def __post_init__(self) -> None:
        if self.dtype not in ELEMENT_BYTES:
            raise NameChoiceError("dtype", self.dtype, ELEMENT_BYTES)
        names = [row.name for row in self.parameters]
        if not names:
            raise UnitError(f"model {self.name} has no parameter: at least one is needed")
        _require_unique(names, f"model {self.name}", "parameters")
        _require_unique([layer.name for layer in self.layers], f"model {self.name}", "layers")
        if self.declared and set(self.declared) != set(names):
            odd = sorted(set(self.declared) ^ set(names))[0]
            raise UnitError(
                f"model {self.name}: parameter {odd} is declared or in a layer, but not both: name it in both places"
            )
        if self.batch < 1 or self.tokens < 1 or not 0 < self.mfu <= 1:
            raise UnitError(
                f"model {self.name}: batch {self.batch}, tokens {self.tokens}, mfu {self.mfu}: whole numbers from 1 on "
                "and a share above 0 and up to 1 are needed"
            )

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """All parameters, layer by layer in the order of forward."""
        return tuple(row for layer in self.layers for row in layer.parameters)

    @property
    def named_parameters(self) -> tuple[Parameter, ...]:
        """All parameters as torch lists them."""
        by_name = {row.name: row for row in self.parameters}
        return tuple(by_name[name] for name in self.declared) if self.declared else self.parameters

    @property
    def ready(self) -> tuple[Parameter, ...]:
        """All parameters in the order in which backward gives their gradients."""
        return tuple(row for layer in reversed(self.layers) for row in layer.ready)

    @property
    def num_elements(self) -> int:
        """How many weights the model has."""
        return sum(row.num_elements for row in self.parameters)

    @property
    def num_bytes(self) -> int:
        """Bytes of all its gradients."""
        return sum(map(self.bytes_of, self.parameters))

    def dtype_of(self, parameter: Parameter) -> str:
        """The type of a parameter and its gradient."""
        return parameter.dtype or self.dtype

    def bytes_of(self, parameter: Parameter) -> int:
        """Bytes of a parameter's gradient."""
        return parameter.num_elements * ELEMENT_BYTES[self.dtype_of(parameter)]

    def forward_flops(self, layer: Layer) -> float:
        """Operations of a layer in forward for one sample; two per weight and token where it does not say more."""
        if layer.forward_flops is not None:
            return layer.forward_flops
        return FLOPS_PER_WEIGHT * layer.num_elements * self.tokens


def model_of(name: str, named_parameters: Iterable[tuple[str, Any]], *, dtype: str | None = None) -> Model:
    """The model of anything with torch's `named_parameters()`: pairs of a name and something with `shape` and `dtype`.

    Parameters of one module are one layer; layers run in the order in which they are declared.
    """
    rows = []
    for name_of_one, tensor in named_parameters:
        found = str(getattr(tensor, "dtype", "float32")).rpartition(".")[2]
        rows.append(Parameter(name_of_one, tuple(int(length) for length in tensor.shape), found))
    return Model(name, by_module(rows), dtype=dtype or (rows[0].dtype if rows else None) or "float32")


def by_module(parameters: Iterable[Parameter]) -> tuple[Layer, ...]:
    """One layer per module, which is what stands before the last dot of a parameter's name."""
    grouped: dict[str, list[Parameter]] = {}
    for row in parameters:
        grouped.setdefault(row.name.rpartition(".")[0] or row.name, []).append(row)
    return tuple(
        Layer(name, tuple(rows), first_to_last=len(rows[0].shape) != MATRIX_DIMENSIONS)
        for name, rows in grouped.items()
    )


MATRIX_DIMENSIONS = 2
"""Of a weight that is a matrix torch has the bias' gradient first; a convolution's and a norm's weight come first."""


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A `ddp-model/1` document: layers in the order of forward, or bare parameters in that of `named_parameters()`."""

    name: str
    layers: tuple[Layer, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    declared: tuple[str, ...] = ()
    dtype: str = "float32"
    batch: int = 1
    tokens: int = 1
    mfu: float = 0.4

    def model(self) -> Model:
        """The model; UnitError where it has both layers and bare parameters."""
        if self.layers and self.parameters:
            raise UnitError(f"model {self.name} has both layers and parameters: put all parameters into its layers")
        layers = self.layers or by_module(self.parameters)
        return Model(self.name, layers, self.declared, self.dtype, self.batch, self.tokens, self.mfu)


def _require_unique(names: list[str], where: str, what: str) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UnitError(f"{where}: two {what} are called {twice!r}, names must differ")
