"""The tile dialect: value semantics over tiles with static shapes, made by the front end.

Scalar constants are `arith.constant`, control flow is `scf`, the kernel is a `func.func`; everything
else is here. A "value" below is a scalar or a tile; shapes of operands match exactly (the front end
inserts `splat` and `broadcast`). `docs/architecture.md` says what each pass guarantees.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from ..attributes import i64_array, ints
from ..types import PtrType
from .calls import MICROKERNELS, AssertOp, MicrokernelHbmOp, MicrokernelOp, PrintOp
from .contractions import ArgReduceOp, DotOp, ReduceOp, ScanOp
from .memory import (
    AddPtrOp,
    AtomicListOp,
    AtomicOp,
    GatherOp,
    LoadBoxOp,
    LoadOp,
    PtrCastOp,
    ScatterOp,
    StoreBoxOp,
    StoreOp,
)
from .programs import FusedOp, IndexOp, YieldOp, operations
from .values import IotaOp, MapOp, NumProgramsOp, ProgramIdOp, SplatOp
from .views import VIEWS, BroadcastOp, ConcatOp, ExpandDimsOp, PermuteOp, ReshapeOp, SliceOp, TakeOp

Tile = Dialect(
    "tile",
    [
        ProgramIdOp, NumProgramsOp, IotaOp, SplatOp, MapOp, AddPtrOp, PtrCastOp, ExpandDimsOp,
        BroadcastOp, ReshapeOp, PermuteOp, SliceOp, ConcatOp, TakeOp, LoadOp, StoreOp, AtomicOp, LoadBoxOp, StoreBoxOp, GatherOp,
        ScatterOp, AtomicListOp, DotOp, ReduceOp, ArgReduceOp, ScanOp, PrintOp, AssertOp, YieldOp,
        IndexOp, FusedOp, MicrokernelOp, MicrokernelHbmOp,
    ],
    [PtrType],
)  # fmt: skip

__all__ = [
    "MICROKERNELS",
    "VIEWS",
    "AddPtrOp",
    "ArgReduceOp",
    "AssertOp",
    "AtomicListOp",
    "AtomicOp",
    "BroadcastOp",
    "ConcatOp",
    "DotOp",
    "ExpandDimsOp",
    "FusedOp",
    "GatherOp",
    "IndexOp",
    "IotaOp",
    "LoadBoxOp",
    "LoadOp",
    "MapOp",
    "MicrokernelHbmOp",
    "MicrokernelOp",
    "NumProgramsOp",
    "PermuteOp",
    "PrintOp",
    "ProgramIdOp",
    "PtrCastOp",
    "ReduceOp",
    "ReshapeOp",
    "ScanOp",
    "ScatterOp",
    "SliceOp",
    "SplatOp",
    "StoreBoxOp",
    "StoreOp",
    "TakeOp",
    "Tile",
    "YieldOp",
    "i64_array",
    "ints",
    "operations",
]
