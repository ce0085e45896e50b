"""LLVM's RISC-V backend: glue in, relocatable object or assembly out."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm

from ..errors import InternalError

TRIPLE = "riscv64-unknown-elf"
# no compressed instructions and no linker relaxation: calls stay 8 bytes and are patched in place
FEATURES = "+m,-c,-relax"


@lru_cache(maxsize=1)
def _machine() -> Any:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(TRIPLE)
    return target.create_target_machine(features=FEATURES, reloc="static", codemodel="small", opt=2)


def _optimized(glue: str) -> Any:
    machine = _machine()
    head = f'target datalayout = "{machine.target_data}"\ntarget triple = "{TRIPLE}"\n'
    try:
        module = llvm.parse_assembly(head + glue)
        module.verify()
    except RuntimeError as error:
        raise InternalError(f"lower: LLVM refuses the glue: {error}\n{glue}") from None
    passes = llvm.create_new_module_pass_manager()
    # The glue is scalar code without calls to inline: O2 takes ten times as long and its code is no shorter.
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    passes.run(module, llvm.create_pass_builder(machine, options))
    for function in module.functions:
        if not function.is_declaration:
            # From here on registers are allocated with care, but nothing else is sought: a quarter less time, and
            # as many instructions within 3 %.
            function.add_function_attribute("noinline")
            function.add_function_attribute("optnone")
    return module


def compile_object(glue: str) -> bytes:
    """An ELF64 relocatable object with the glue's RV64 code."""
    return bytes(_machine().emit_object(_optimized(glue)))


def assembly(glue: str) -> str:
    """The glue as RV64 assembly text, calls into the machine still symbolic."""
    return str(_machine().emit_assembly(_optimized(glue)))
