"""`dsa.profile`: where a launch's time goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsalang._backend.errors import LaunchError

if TYPE_CHECKING:
    from dsalang._runtime.profile import Profile


def profile(kernel: Any, /, *args: Any, **kwargs: Any) -> Profile:
    """Launch a kernel and tell where its time went: `kernel.profile(*args, **kwargs)`.

    Args:
        kernel: a kernel, with `grid=` among the keywords, or `kernel[grid]`.
        args, kwargs: as for a launch; `show=False` prints nothing.

    Returns:
        Busy and stall cycles by engine with their reasons, HBM bytes by array, SRAM over time, the roofline point, and
        which microkernels ran; `.json(path)`, `.html(path)`.

    Raises:
        LaunchError: `kernel` is no kernel, or is interpreted and has no times.

    >>> import numpy as np
    >>> import dsalang as dsa
    >>> @dsa.jit
    ... def double(x, BLOCK: dsa.constexpr):
    ...     i = dsa.program_id(0) * BLOCK + dsa.arange(0, BLOCK)
    ...     dsa.store(x + i, 2 * dsa.load(x + i))
    >>> dsa.profile(double[(4,)], np.ones(4096, np.float32), BLOCK=1024, show=False).run.cycles > 0
    True
    """
    if not hasattr(kernel, "profile"):
        raise LaunchError(
            f"dsa.profile: {type(kernel).__name__} is no kernel",
            hint="pass a function decorated with @dsa.jit",
        )
    found: Profile = kernel.profile(*args, **kwargs)
    return found
