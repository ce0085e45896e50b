"""Reports to the host, and calls of microkernels."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, prop_def, traits_def, var_operand_def, var_result_def
from xdsl.traits import Pure

from ..attributes import i64_array, ints, text
from ..definition import DialectOp, op_definition, require


@op_definition
class PrintOp(DialectOp):
    """Print a prefix and values (scalars or tiles) from the device."""

    name = "tile.print"
    prefix = prop_def(StringAttr)
    args = var_operand_def()
    unsigned = prop_def(DenseArrayBase)  # 1 where an integer argument is unsigned

    def __init__(self, prefix: str, args: Sequence[SSAValue], unsigned: Sequence[int]) -> None:
        super().__init__(
            operands=[list(args)],
            properties={"prefix": text(prefix), "unsigned": i64_array(unsigned)},
        )


@op_definition
class AssertOp(DialectOp):
    """Stop the device with a message when a bool value is false anywhere."""

    name = "tile.assert"
    condition = operand_def()
    message = prop_def(StringAttr)

    def __init__(self, condition: SSAValue, message: str) -> None:
        super().__init__(operands=[condition], properties={"message": text(message)})


class _Microkernel(DialectOp):
    """A call of a microkernel (`backend/micro`): what the place pass writes instructions for.

    `kernel` is the name under which the microkernel is registered. `contract` is JSON: "arguments" maps each parameter to
    {"operand": number} or {"value": constant}; "operands" and "results" are the names of their formats (which
    know the signs that IR types lack). Result k is written over operand `in_place[k]` where that is not -1.
    """

    kernel = prop_def(StringAttr)
    contract = prop_def(StringAttr)
    in_place = prop_def(DenseArrayBase)
    args = var_operand_def()
    res = var_result_def()

    def __init__(
        self,
        kernel: str,
        contract: str,
        args: Sequence[SSAValue],
        in_place: Sequence[int],
        result_types: Sequence[Attribute],
    ) -> None:
        super().__init__(
            operands=[list(args)],
            properties={
                "kernel": text(kernel),
                "contract": text(contract),
                "in_place": i64_array(in_place),
            },
            result_types=[list(result_types)],
        )

    def verify_(self) -> None:
        places = ints(self.in_place)
        require(len(places) == len(self.res), "in_place and results differ in number")
        for result, place in zip(self.res, places):
            if place >= 0:
                require(self.args[place].type == result.type, "an in-place operand differs in type")


@op_definition
class MicrokernelOp(_Microkernel):
    """A call of a microkernel that works on its tiles only."""

    name = "tile.micro"
    traits = traits_def(Pure())


@op_definition
class MicrokernelHbmOp(_Microkernel):
    """A call of a microkernel that gets addresses of HBM: it may read and write there."""

    name = "tile.micro_hbm"


MICROKERNELS: tuple[type[_Microkernel], ...] = (MicrokernelOp, MicrokernelHbmOp)
