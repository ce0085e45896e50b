"""Microkernels that come with dsalang (docs/microkernels.md). Importing this makes them candidates for the ops they implement.

- `batch1_matmul`: `dot` with one row, on the vector engine or on both engines.
- `online_softmax_step`: the op, in the language, of one step of attention, and its microkernel `softmax_step`.
- `int4_dot`: the op of a product with packed int4 weights and group scales, and its microkernel `int4_dot_packed`.
"""

from __future__ import annotations

from .batch1 import batch1_matmul as batch1_matmul
from .int4 import int4_dot as int4_dot
from .int4 import int4_dot_packed as int4_dot_packed
from .softmax import online_softmax_step as online_softmax_step
from .softmax import softmax_step as softmax_step
