"""Arguments made of several: tuples, and tensor descriptors made on the host.

A launch passes their parts one by one, under names such as `desc.base` and `pair.0`; `Composite` says how the
parser and the interpreter put them together again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from dsalang._backend.errors import LaunchError

T = TypeVar("T")
TUPLE, DESCRIPTOR = "tuple", "tensor descriptor"


class TensorDescriptor:
    """An array whose blocks a kernel loads and stores: `desc.load([i, j])`.

    Args:
        base: the array.
        shape, strides: per dim, strides in elements.
        block_shape: the shape of a block; compile-time.
        padding: what it reads outside the array: "zero", or "nan" for floats.
    """

    def __init__(
        self,
        base: Any,
        shape: Sequence[int],
        strides: Sequence[int],
        block_shape: Sequence[int],
        padding: str = "zero",
    ) -> None:
        if padding not in ("zero", "nan"):
            raise LaunchError(
                f"the padding of a tensor descriptor is 'zero' or 'nan', not {padding!r}"
            )
        if not len(shape) == len(strides) == len(block_shape):
            raise LaunchError(
                f"shape {list(shape)}, strides {list(strides)} and block_shape {list(block_shape)} of a tensor "
                "descriptor differ in length"
            )
        self.base, self.shape, self.strides = base, list(shape), list(strides)
        self.block_shape, self.padding = list(block_shape), padding

    @classmethod
    def from_tensor(
        cls, tensor: Any, block_shape: Sequence[int], padding: str = "zero"
    ) -> TensorDescriptor:
        """The descriptor of a whole array."""
        strides = getattr(tensor, "strides", ())
        if callable(getattr(tensor, "stride", None)):  # torch counts in elements
            strides = tensor.stride()
        else:
            strides = [step // tensor.itemsize for step in strides]
        return cls(tensor, tensor.shape, strides, block_shape, padding)


@dataclass(frozen=True)
class Composite:
    """How an argument is put together. `parts` are names of arguments, or nested composites.

    `block_shape` and `padding` are those of a descriptor, `made_as` is the class of a tuple.
    """

    kind: str
    parts: tuple[str | Composite, ...]
    block_shape: tuple[int, ...] = ()
    padding: str = "zero"
    made_as: type[tuple[Any, ...]] = tuple

    def build(self, leaf: Callable[[str], T], join: Callable[[Composite, list[T]], T]) -> T:
        """Put the argument together from what `leaf` gives for each name."""
        items = [leaf(p) if isinstance(p, str) else p.build(leaf, join) for p in self.parts]
        return join(self, items)


def is_composite(value: object) -> bool:
    """True for arguments that are passed in parts."""
    return isinstance(value, tuple | TensorDescriptor)


def taken_apart(name: str, value: Any, leaves: dict[str, Any]) -> str | Composite:
    """The composite of an argument called `name`; its parts are added to `leaves`."""
    if isinstance(value, TensorDescriptor):
        parts = [taken_apart(f"{name}.base", value.base, leaves)]
        for field in ("shape", "strides"):
            for k, number in enumerate(getattr(value, field)):
                parts.append(taken_apart(f"{name}.{field}.{k}", int(number), leaves))
        block = tuple(int(n) for n in value.block_shape)
        return Composite(DESCRIPTOR, tuple(parts), block, value.padding)
    if isinstance(value, tuple):
        items = tuple(taken_apart(f"{name}.{k}", item, leaves) for k, item in enumerate(value))
        kind = type(value) if hasattr(value, "_fields") else tuple
        return Composite(TUPLE, items, made_as=kind)
    leaves[name] = value
    return name


def composites(constants: Mapping[str, Any]) -> dict[str, Composite]:
    """The composites among the constants of a specialisation."""
    return {name: value for name, value in constants.items() if isinstance(value, Composite)}
