"""Host code: compiled by LLVM to an object, loaded into this process."""

from __future__ import annotations

import functools
import hashlib
import platform
import sys
from pathlib import Path
from typing import Any

from ..installed import version_of


@functools.cache
def fingerprint() -> str:
    """What host code depends on: the processor with its features, the system, the compiler.

    Found without LLVM, which takes longer to import than many a kernel takes to run.
    """
    # Not platform.processor(), which starts a process.
    parts = [platform.machine(), sys.platform, version_of("llvmlite")]
    try:
        for block in Path("/proc/cpuinfo").read_text(errors="replace").split("\n\n")[:1]:
            kept = ("model name", "flags", "Features", "CPU part", "vendor_id", "stepping")
            parts += [line for line in block.splitlines() if line.startswith(kept)]
    except OSError:
        pass
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@functools.cache
def machine(level: int = 1) -> Any:
    """LLVM's target machine for this host, with a level of effort of code generation."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=level,
        reloc="pic",
        codemodel="small",
    )


def compile_object(text: str, thorough: bool = False) -> bytes:
    """A relocatable object of a module in LLVM IR text (without triple and data layout).

    Instructions come as the vectors and loops that they should be, so few passes are enough, which take a
    tenth of the time of LLVM's own choice at O2 (`thorough`).
    """
    import llvmlite.binding as llvm

    target = machine(2 if thorough else 1)
    head = f'target datalayout = "{target.target_data}"\ntarget triple = "{target.triple}"\n'
    module = llvm.parse_assembly(head + text)
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_unrolling = options.slp_vectorization = options.loop_vectorization = False
    builder = llvm.create_pass_builder(target, options)
    if thorough:
        passes = builder.getModulePassManager()
    else:
        passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.add_instruction_combine_pass()
    passes.run(module, builder)
    return bytes(target.emit_object(module))
