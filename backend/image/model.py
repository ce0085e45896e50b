"""What a device image holds, as plain data. `elf.py` writes and reads it."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field

from ..errors import Loc
from ..isa.table import BY_NAME, Instruction
from ..isa.vprog import VectorProgram


@dataclass(frozen=True)
class Argument:
    """A kernel argument. `fmt` names the format of the scalar or of what the pointer points to."""

    name: str
    fmt: str
    is_pointer: bool


@dataclass(frozen=True)
class Template:
    """An instruction whose open fields come at run time.

    `open` names them in operand order: "field" or "field.d" for entry d of an array field; their values
    in `instruction.fields` are 0. `hbm_arg` is the kernel argument behind the hbm field, -1 when unknown.
    """

    instruction: Instruction
    open: tuple[str, ...]
    loc: Loc | None
    hbm_arg: int = -1


@dataclass(frozen=True)
class RingInfo:
    """A ring of SRAM slots: slot k is at address + k * stride_bytes. `shape` and `fmt` describe the tile.

    `turns`: a slot is last accessed before the ring has turned so often (1: the next slot is taken when this one has
    been used, in the order of issue); 0 when unknown.
    """

    label: str
    address: int
    slots: int
    stride_bytes: int
    slot_bytes: int
    shape: tuple[int, ...]
    fmt: str
    loc: Loc | None
    kept: str = ""
    turns: int = 0


@dataclass(frozen=True)
class PrintInfo:
    """A device print. A value with a shape comes as the SRAM address of a row-major tile."""

    prefix: str
    fmts: tuple[str, ...]
    shapes: tuple[tuple[int, ...] | None, ...]  # None: a scalar
    loc: Loc | None


@dataclass(frozen=True)
class AssertInfo:
    """A device assertion."""

    message: str
    loc: Loc | None


@dataclass(frozen=True)
class Choice:
    """A call of an op that a microkernel serves, and what was decided: hand-written or generated.

    `site` is the place with its call chain, `loc` the place; `ran`: the microkernel runs there. The cycles are the cost
    model's for the whole kernel without and with it, -1 where it does not compile.
    """

    site: str
    loc: Loc
    op: str
    kernel: str
    ran: bool
    generated_cycles: int
    micro_cycles: int
    reason: str


@dataclass(frozen=True)
class Timing:
    """A static schedule: what the image promises for one grid. Entries are by core, in cycles.

    Attributes:
        grid: the sizes of the grid that the image is for.
        cycles: when each core is done.
        dynamic: when it would be done with flags in place of fixed times.
        bound: no schedule of the same instructions is shorter.
        flags: sets and waits that the fixed times made needless, over all cores.
        issues: template and start of each instruction in the order of issue, alternating.
    """

    grid: tuple[int, ...]
    cycles: tuple[int, ...]
    dynamic: tuple[int, ...]
    bound: tuple[int, ...]
    flags: int
    issues: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Residency:
    """What an image leaves in the SRAM of each core for its next launch.

    Attributes:
        flag: the number of the argument that says whether to load it (0: it is still there).
        start, stop: the bytes that it takes.
        arrays: numbers of the arguments that it comes from.
        depends: numbers of the scalar arguments that it depends on, too.
        grid: the sizes of the grid that the image is for.
        contents: a hash of what is loaded, and where to: images that have it in common share what is there.
    """

    flag: int
    start: int
    stop: int
    arrays: tuple[int, ...]
    depends: tuple[int, ...]
    grid: tuple[int, ...]
    contents: str


@dataclass(frozen=True)
class Image:
    """A compiled kernel.

    Attributes:
        name: the kernel's name.
        target: name of the target it was compiled for; `target_digest` is the hash of its figures.
        credits: initial count per semaphore.
        sram_bytes: SRAM used, one past the last byte.
        code: RV64 machine code, issue calls already linked to custom-0; `entry` is the offset of dsa_kernel;
            code is position dependent and meant to be at `code_address` (constants behind the code included).
        glue: the LLVM IR of the same glue without a target triple, for the host.
        file: the ELF object that `code` stands in; made when the image is linked or loaded. An image made by
            changing another one (`dataclasses.replace`) has none.
        choices: where microkernels could run, and whether they do.
        timing: the static schedule, None for an image whose instructions start as soon as flags allow.
        residency: what stays in SRAM between launches, None when nothing does.
    """

    name: str
    target: str
    target_digest: str
    arguments: tuple[Argument, ...]
    templates: tuple[Template, ...]
    programs: tuple[VectorProgram, ...]
    credits: tuple[int, ...]
    rings: tuple[RingInfo, ...]
    prints: tuple[PrintInfo, ...]
    asserts: tuple[AssertInfo, ...]
    sram_bytes: int
    code: bytes
    code_address: int
    entry: int
    glue: str
    file: bytes = field(default=b"", init=False, repr=False, compare=False)
    timing: Timing | None = None
    residency: Residency | None = None
    choices: tuple[Choice, ...] = ()

    def stored_in(self, file: bytes) -> Image:
        """The same image with the file that it was just written to or read from."""
        image = copy(self)
        object.__setattr__(image, "file", file)
        return image

    @property
    def working_bytes(self) -> int:
        """SRAM used without what stays between launches, one past the last byte."""
        ends = (r.address + r.stride_bytes * r.slots for r in self.rings if not r.kept)
        return min(self.sram_bytes, max(ends, default=0))

    @property
    def beyond(self) -> bool:
        """Whether instructions access HBM by pointers that are no arguments, such as those loaded from memory."""
        return any(
            template.hbm_arg < 0 and "hbm" in BY_NAME[template.instruction.op].by_name
            for template in self.templates
        )
