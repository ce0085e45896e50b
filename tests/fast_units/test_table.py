"""The table of host code generators."""

from __future__ import annotations

import pytest

from dsalang._backend.errors import Loc
from dsalang._backend.image.model import Template
from dsalang._backend.isa.table import OPCODES, Engine, Instruction
from dsalang._backend.llvm import ir
from dsalang._backend.llvm.host.emit import EMITTERS, emit_unit, unit_key

from .harness import TARGET, Case


def test_every_opcode_that_touches_data_has_host_code() -> None:
    assert {op.name for op in OPCODES} - set(EMITTERS) == {"set", "wait"}
    assert set(EMITTERS) <= {op.name for op in OPCODES}


def test_set_has_none() -> None:
    image = Case("scan", {}).image()
    template = Template(Instruction("set", Engine.VE, {"sem": 1}), (), None)
    with pytest.raises(KeyError):
        emit_unit(ir.Module(), template, image, TARGET, "f")


def test_key_ignores_the_source_place_only() -> None:
    image = Case("scan", {"ndim": 1, "size": (3,)}).image()
    (template,) = image.templates
    moved = Template(template.instruction, template.open, Loc("k.py", 1, 1), template.hbm_arg)
    opened = Template(template.instruction, ("in",), None)
    assert unit_key(template, image) == unit_key(moved, image)
    assert unit_key(template, image) != unit_key(opened, image)
