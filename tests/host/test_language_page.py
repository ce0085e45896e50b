"""docs/language.md says what the tables say, and the tables say what the language has."""

from __future__ import annotations

from pathlib import Path

import dsalang.language as tl
from dsalang._jit import language_page, names
from dsalang._jit.builtin import Builtin

PAGE = Path(__file__).parents[2] / "docs" / "language.md"
PUBLIC = {n: b for n, b in vars(tl).items() if isinstance(b, Builtin) and n[0] != "_"}


def test_the_page_is_fresh():
    assert PAGE.read_text() == language_page.page(), (
        "docs/language.md is stale: python -m dsalang._jit.language_page > docs/language.md"
    )


def test_every_name_is_on_the_page():
    text = PAGE.read_text()
    for name, builtin in PUBLIC.items():
        assert f"`{name}(" in text or f"tl.{name}`" in text, name
        assert builtin.doc, f"{name} has no description"
    for name in (n for n in vars(tl.libdevice) if n[0] != "_"):
        builtin = getattr(tl.libdevice, name)
        assert f"`{builtin.name}(" in text or f"libdevice.{name}`" in text, name


def test_every_builtin_is_public():
    """What is in the tables can be reached from the language."""
    reachable = {*PUBLIC.values(), *vars(tl.math).values()}
    assert [n for n, b in names.BUILTINS.items() if b not in reachable] == []


def test_hints_exist():
    for name, parameters in language_page.HINT_PARAMETERS.items():
        assert set(parameters) <= set(names.BUILTINS[name].signature.parameters), name
    assert set(language_page.HINTS) <= set(names.BUILTINS)


def test_every_name_of_the_statistics_is_known():
    """What 2,343 public kernels use (LANGUAGE-USE): supported, accepted or refused, never unknown."""
    used = [
        "load",
        "arange",
        "store",
        "cast",
        "program_id",
        "zeros",
        "sum",
        "where",
        "cdiv",
        "dot",
        "exp",
        "max",
        "maximum",
        "trans",
        "num_programs",
        "exp2",
        "range",
        "full",
        "make_block_ptr",
        "minimum",
        "sigmoid",
        "reshape",
        "log",
        "atomic_add",
        "cumsum",
        "sqrt",
        "multiple_of",
        "static_range",
        "static_assert",
        "abs",
        "debug_barrier",
        "rsqrt",
        "max_contiguous",
        "log2",
        "advance",
        "min",
        "broadcast_to",
        "reduce",
        "make_tensor_descriptor",
        "zeros_like",
        "inline_asm_elementwise",
        "split",
        "philox",
        "join",
        "floor",
        "atomic_cas",
        "assume",
        "gather",
        "clamp",
        "rand",
        "sin",
        "atomic_max",
        "argmax",
        "cos",
        "atomic_xchg",
        "ceil",
        "device_assert",
        "fma",
        "erf",
        "sort",
        "dot_scaled",
        "associative_scan",
        "fdiv",
        "empty",
        "interleave",
        "argmin",
        "atomic_min",
        "softmax",
        "broadcast",
        "expand_dims",
        "static_print",
        "topk",
        "atomic_and",
        "atomic_or",
        "device_print",
        "max_constancy",
        "reduce_or",
        "swizzle2d",
        "target_info",
        "xor_sum",
        "cumprod",
        "flip",
        "histogram",
        "randn",
        "randint",
        "randint4x",
        "float8e4b15",
        "float8e4b8",
        "const",
    ]
    assert [name for name in used if not hasattr(tl, name)] == []
