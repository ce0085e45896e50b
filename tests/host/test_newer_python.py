"""Statements and expressions that Python has got since 3.10: kernels do not have them, and say so."""

from __future__ import annotations

import linecache
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import dsalang as dsa
import dsalang.language as tl

NEWER = {
    "match": ((3, 10), "    match n:\n        case 1:\n            tl.store(x, 1)\n"),
    "try": ((3, 11), "    try:\n        tl.store(x, n)\n    except* ValueError:\n        pass\n"),
    "type": ((3, 12), "    type T = int\n    tl.store(x, n)\n"),
    "template": ((3, 14), "    tl.static_print(t'{n}')\n    tl.store(x, n)\n"),
}


def kernel_of(name: str, body: str, head: str = "def k(x, n):\n") -> Any:
    text, file = head + body, f"<newer {name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    space: dict[str, Any] = {"tl": tl}
    exec(compile(text, file, "exec", dont_inherit=True), space)
    return dsa.jit(space["k"])


@pytest.mark.parametrize("name", NEWER)
def test_refused_with_a_place(name: str) -> None:
    least, body = NEWER[name]
    if sys.version_info < least:
        pytest.skip(f"from Python {least} on")
    kernel = kernel_of(name, body)
    with pytest.raises(dsa.CompileError, match="not supported in kernels") as error:
        kernel[(1,)](np.zeros(1, np.int32), 3)
    assert error.value.loc is not None and error.value.loc.line == 2


@pytest.mark.skipif(sys.version_info < (3, 12), reason="from Python 3.12 on")
def test_type_parameters_are_annotations() -> None:
    kernel, x = kernel_of("generic", "    tl.store(x, n)\n", "def k[T](x: T, n):\n"), np.zeros(1)
    kernel[(1,)](x, 3)
    assert x[0] == 3


def test_warnings_as_errors() -> None:
    """Libraries in between use names of `ast` that Python 3.12 and 3.13 warn about."""
    kernel, x = kernel_of("plain", "    tl.store(x, tl.cdiv(n, 2))\n"), np.zeros(1, np.int32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel[(1,)](x, 5)
    assert x[0] == 3
