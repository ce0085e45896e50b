"""`Config`: a set of compile-time arguments to try."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dsalang._backend.errors import LaunchError

Hook = Callable[..., Any]


class Config:
    """A set of compile-time arguments to try.

    Args:
        kwargs: values of the kernel's parameters by name.
        num_stages: slots of the rings that loads fill; None lets the cost model choose.
        pre_hook: called with all arguments by name before each launch with this configuration.
        num_warps, num_ctas, maxnreg, ir_override, others: accepted for Triton's sake.
    """

    def __init__(
        self,
        kwargs: Mapping[str, Any],
        num_warps: int = 4,
        num_stages: int | None = None,
        num_ctas: int = 1,
        maxnreg: int | None = None,
        pre_hook: Hook | None = None,
        ir_override: str | None = None,
        **accepted: Any,
    ) -> None:
        self.kwargs = dict(kwargs)
        self.num_warps, self.num_ctas, self.maxnreg = num_warps, num_ctas, maxnreg
        self.num_stages, self.pre_hook = num_stages, pre_hook

    def all_kwargs(self) -> dict[str, Any]:
        """The keyword arguments that a launch gets."""
        stages = {} if self.num_stages is None else {"num_stages": self.num_stages}
        return {**self.kwargs, "num_warps": self.num_warps, "num_ctas": self.num_ctas, **stages}

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{name}={value!r}' for name, value in self._shown())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and list(self._shown()) == list(other._shown())

    def __hash__(self) -> int:
        return hash(tuple((name, repr(value)) for name, value in self._shown()))

    def _shown(self) -> Iterator[tuple[str, Any]]:
        yield from self.kwargs.items()
        yield from (("num_warps", self.num_warps), ("num_stages", self.num_stages))


def check_configs(configs: Sequence[Config]) -> None:
    """Raises LaunchError for what is no configuration."""
    for config in configs or ():
        if not isinstance(config, Config):
            raise LaunchError(
                f"autotune takes configurations, not {type(config).__name__} {config!r}",
                hint='configs=[dsa.Config({"BLOCK": 64}), dsa.Config({"BLOCK": 128})]',
            )
