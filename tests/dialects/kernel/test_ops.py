"""Building kernel ops in Python, and what they say about themselves."""

from __future__ import annotations

import pytest
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import FloatAttr, IndexType, TensorType, UnrankedTensorType, f32
from xdsl.ir import Block, Region, SSAValue
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.test_value import create_ssa_value

from mlopt.dialects.kernel import (
    NO_PAD,
    Access,
    CallOp,
    ConstantOp,
    ContractOp,
    FillOp,
    IndexOp,
    LaunchOp,
    LinearExpr,
    MapOp,
    ReduceOp,
    ReshapeOp,
    YieldOp,
    tensor_type,
)
from mlopt.dialects.mlopt import WeightAttr
from mlopt.ir.verifier import verify_op


def empty(*shape: int) -> SSAValue:
    return create_ssa_value(TensorType(f32, shape))


def body(count: int, yielded: int) -> Region:
    """A body of f32 arguments that yields one of them."""
    block = Block(arg_types=[f32] * count)
    block.add_op(YieldOp(block.args[yielded]))
    return Region(block)


def test_map_describes_its_space() -> None:
    accesses = [Access(2, (LinearExpr((1, 0)), LinearExpr((0, 1), -1))), Access.identity(2)]
    op = MapOp(
        {"m": 2, "n": 3}, [empty(2, 2)], [empty(2, 3)], accesses, body(2, 0), pads=[FloatAttr(1.0, f32)]
    )
    verify_op(op)
    assert op.named_bounds == {"m": 2, "n": 3}
    assert (op.names, op.extents) == (("m", "n"), (2, 3))
    assert op.in_accesses == (accesses[0],) and op.out_accesses == (accesses[1],)
    assert op.pad_of(0) == FloatAttr(1.0, f32)
    assert op.reduction_dims == ()
    assert op.is_movement


def test_what_is_no_movement() -> None:
    access = Access.identity(1)
    assert not MapOp({"i": 2}, [empty(2)], [empty(2)], [access, access], body(2, 1)).is_movement
    assert not MapOp({"i": 2}, [empty(2)] * 2, [empty(2)], [access] * 3, body(3, 0)).is_movement


def test_reduce_knows_what_it_reduces() -> None:
    accesses = [Access.identity(3), Access.of_dims([1], 3)]
    op = ReduceOp({"a": 2, "b": 3, "c": 4}, [empty(2, 3, 4)], [empty(3)], accesses, body(2, 0))
    verify_op(op)
    assert op.reduction_dims == (0, 2)
    assert op.pads.data == (NO_PAD,) and op.pad_of(0) is None


def test_contract_has_no_body() -> None:
    accesses = [Access.of_dims([0, 2], 3), Access.of_dims([2, 1], 3), Access.of_dims([0, 1], 3)]
    op = ContractOp({"m": 2, "n": 3, "k": 4}, [empty(2, 4), empty(4, 3)], [empty(2, 3)], accesses)
    verify_op(op)
    assert op.reduction_dims == (2,) and not op.regions
    assert op.res[0].type == op.outs[0].type


def test_launch_knows_its_arguments() -> None:
    x, out = empty(4), empty(4)
    block = Block(arg_types=[x.type, out.type])
    zero = arith.ConstantOp(FloatAttr(0.0, f32))
    fill = FillOp(zero.result, block.args[1])
    block.add_ops([zero, fill, YieldOp(fill.result)])
    launch = LaunchOp("zero", [x], [out], Region(block))
    verify_op(launch)
    assert launch.in_args == (block.args[0],) and launch.out_args == (block.args[1],)
    assert launch.yielded == (fill.result,)
    assert (fill.ins, fill.outs) == ((zero.result,), (block.args[1],))


def test_index_inside_a_launch_body_belongs_to_the_structured_op() -> None:
    block = Block(arg_types=[IndexType()])
    index = IndexOp(0)
    block.add_ops([index, YieldOp(index.result)])
    out = create_ssa_value(TensorType(IndexType(), [3]))
    verify_op(MapOp({"i": 3}, [], [out], [Access.identity(1)], Region(block)))


def test_small_ops() -> None:
    verify_op(ReshapeOp(empty(4, 6), [2, 12]))
    verify_op(CallOp("mlopt_rt_sort", [empty(8)], [empty(8)]))
    constant = ConstantOp(WeightAttr("w"), TensorType(f32, [3]))
    verify_op(constant)
    assert tensor_type(constant.result).get_shape() == (3,)
    assert tensor_type(tensor.EmptyOp([], TensorType(f32, [2])).tensor).element_type == f32


def test_tensor_type_of_something_else() -> None:
    with pytest.raises(VerifyException, match=r"expected a ranked tensor, found tensor<\*xf32>"):
        tensor_type(create_ssa_value(UnrankedTensorType(f32)))
