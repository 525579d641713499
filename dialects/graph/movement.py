"""Operations that only move elements: reshape, transpose, concat, split, slice, expand and pad."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
    var_result_def,
)
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects.graph.base import (
    SIGNATURE,
    GraphOp,
    I64Array,
    I64Attr,
    InferredOp,
    Operand,
    Properties,
    Tensor,
    broadcast_shapes,
    get_int,
    get_ints,
    int_attr,
    ints_attr,
    normalize_axis,
    number_type,
    rank_of,
    require_axis,
    require_broadcast_to,
    require_same_elements,
    shape_of,
    shape_text,
    tensor_type,
    with_shape,
)


@irdl_op_definition
class ReshapeOp(GraphOp):
    """The same elements, in row-major order, in the shape of the result.

    ONNX Reshape, Flatten, Squeeze and Unsqueeze.

    ```mlir
    %y = graph.reshape %x : tensor<2x3x4xf32> to tensor<6x4xf32>
    ```
    """

    name = "graph.reshape"
    input = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    def __init__(self, input: Operand, shape: Sequence[int]):
        """Raises `VerifyException` if `shape` has another number of elements."""
        operand = tensor_type(SSAValue.get(input).type)
        result = with_shape(operand, shape)
        self.check(operand, result)
        super().__init__(operands=[input], result_types=[result])

    @staticmethod
    def check(operand: Tensor, result: Tensor) -> None:
        """Raise unless `operand` can be reshaped to `result`."""
        require_same_elements(operand, result, "the result")
        if prod(operand.get_shape()) != prod(result.get_shape()):
            raise VerifyException(
                f"expected a result of {prod(operand.get_shape())} elements, found {result}"
            )

    def verify_types(self) -> None:
        self.check(tensor_type(self.input.type), tensor_type(self.result.type))


@irdl_op_definition
class TransposeOp(InferredOp):
    """Dimension `i` of the result is dimension `perm[i]` of the operand. ONNX Transpose.

    ```mlir
    %y = graph.transpose %x perm = [0, 2, 1] : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
    ```
    """

    name = "graph.transpose"
    input = operand_def(TensorType)
    result = result_def(TensorType)
    perm = prop_def(I64Array)
    assembly_format = "$input `perm` `=` $perm " + SIGNATURE

    def __init__(self, input: Operand, perm: Sequence[int] | None = None):
        """Without `perm` the dimensions are reversed, as ONNX and numpy do."""
        order = reversed(range(rank_of(input))) if perm is None else perm
        super().__init__([input], {"perm": ints_attr(order)})

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        shape = operands[0].get_shape()
        perm = get_ints(properties, "perm") or ()
        if sorted(perm) != list(range(len(shape))):
            raise VerifyException(f"expected a permutation of {len(shape)} axes, found {shape_text(perm)}")
        return (with_shape(operands[0], [shape[axis] for axis in perm]),)

    @property
    def permutation(self) -> tuple[int, ...]:
        """`perm` as plain numbers."""
        return get_ints(self.properties, "perm") or ()


@irdl_op_definition
class ConcatOp(InferredOp):
    """The operands one after the other along `axis`; the other dimensions are equal. ONNX Concat.

    ```mlir
    %y = graph.concat %a, %b axis = 0 : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<6x3xf32>
    ```
    """

    name = "graph.concat"
    inputs = var_operand_def(TensorType)
    result = result_def(TensorType)
    axis = prop_def(I64Attr)
    assembly_format = "operands `axis` `=` $axis " + SIGNATURE

    def __init__(self, inputs: Sequence[Operand], axis: int):
        if not inputs:
            raise VerifyException("expected at least one operand, found none")
        super().__init__([inputs], {"axis": int_attr(normalize_axis(axis, rank_of(inputs[0])))})

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        if not operands:
            raise VerifyException("expected at least one operand, found none")
        return (joined_along(operands, properties),)


def joined_along(operands: Sequence[Tensor], properties: Properties) -> Tensor:
    """The type of one or more operands one after the other along the property `axis`; raises if they don't fit."""
    first = operands[0]
    axis = get_int(properties, "axis")
    require_axis(axis, len(first.get_shape()))
    size = 0
    for index, operand in enumerate(operands):
        require_same_elements(first, operand, f"operand {index}")
        if _without(operand.get_shape(), axis) != _without(first.get_shape(), axis):
            raise VerifyException(
                f"expected operand {index} to be like {first} but for axis {axis}, found {operand}"
            )
        size += operand.get_shape()[axis]
    return with_shape(first, _with(first.get_shape(), axis, size))


@irdl_op_definition
class SplitOp(GraphOp):
    """The operand cut along `axis` into parts of the sizes of the result types. ONNX Split.

    ```mlir
    %a, %b = graph.split %x axis = 0 : (tensor<6x3xf32>) -> (tensor<2x3xf32>, tensor<4x3xf32>)
    ```
    """

    name = "graph.split"
    input = operand_def(TensorType)
    parts = var_result_def(TensorType)
    axis = prop_def(I64Attr)
    assembly_format = "$input `axis` `=` $axis " + SIGNATURE

    def __init__(self, input: Operand, axis: int, sizes: Sequence[int]):
        """Raises `VerifyException` if the sizes don't add up to that of the operand."""
        operand = tensor_type(SSAValue.get(input).type)
        axis = normalize_axis(axis, len(operand.get_shape()))
        results = [with_shape(operand, _with(operand.get_shape(), axis, size)) for size in sizes]
        self.check(operand, axis, results)
        super().__init__(operands=[input], properties={"axis": int_attr(axis)}, result_types=[results])

    @staticmethod
    def check(operand: Tensor, axis: int, results: Sequence[Tensor]) -> None:
        """Raise unless `operand` can be split into `results`."""
        require_axis(axis, len(operand.get_shape()))
        whole = operand.get_shape()[axis]
        sizes: list[int] = []
        for result in results:
            require_same_elements(operand, result, "a result")
            if _without(result.get_shape(), axis) != _without(operand.get_shape(), axis):
                raise VerifyException(
                    f"expected results of the sizes of {operand} but for axis {axis}, found {result}"
                )
            sizes.append(result.get_shape()[axis])
        if not results or sum(sizes) != whole:
            raise VerifyException(
                f"expected results of {whole} in all along axis {axis}, found {shape_text(sizes)}"
            )

    def verify_types(self) -> None:
        results = [tensor_type(result.type) for result in self.results]
        self.check(tensor_type(self.input.type), get_int(self.properties, "axis"), results)


@irdl_op_definition
class SliceOp(InferredOp):
    """In each dimension the elements `start, start + step, ...` up to but without `stop`. ONNX Slice.

    There is one number per dimension, and they are plain: no wrap-around and no clamping is left. For a
    positive step `0 <= start, stop <= size`; for a negative one `-1 <= start, stop < size`, where stop -1
    means down to the first element. `steps` may be left out if all are 1.

    ```mlir
    %y = graph.slice %x starts = [0, 8] stops = [2, -1] steps = [1, -1] : (tensor<4x9xf32>) -> tensor<2x9xf32>
    ```
    """

    name = "graph.slice"
    input = operand_def(TensorType)
    result = result_def(TensorType)
    starts = prop_def(I64Array)
    stops = prop_def(I64Array)
    steps = opt_prop_def(I64Array)
    assembly_format = "$input `starts` `=` $starts `stops` `=` $stops (`steps` `=` $steps^)? " + SIGNATURE

    def __init__(
        self, input: Operand, starts: Sequence[int], stops: Sequence[int], steps: Sequence[int] | None = None
    ):
        """One plain number per dimension; see `over_axes` for ONNX's and numpy's conventions."""
        strided = steps is not None and any(step != 1 for step in steps)
        super().__init__(
            [input],
            {
                "starts": ints_attr(starts),
                "stops": ints_attr(stops),
                "steps": ints_attr(steps) if strided and steps is not None else None,
            },
        )

    @classmethod
    def over_axes(
        cls,
        input: Operand,
        starts: Sequence[int],
        stops: Sequence[int],
        axes: Sequence[int] | None = None,
        steps: Sequence[int] | None = None,
    ) -> SliceOp:
        """A slice of some axes with numbers as ONNX has them.

        Negative numbers count from the end, those out of range are clamped: as in numpy, but a backward slice that
        starts before the first element starts at it. `axes` defaults to the first ones, `steps` to 1. Raises
        `VerifyException` for numbers that don't fit.
        """
        shape = shape_of(input)
        axes = range(len(starts)) if axes is None else [normalize_axis(axis, len(shape)) for axis in axes]
        steps = [1] * len(starts) if steps is None else steps
        if not len(starts) == len(stops) == len(axes) == len(steps) or len(set(axes)) != len(axes):
            raise VerifyException(
                f"expected a start, stop and step for each of distinct axes, found {len(starts)} starts, "
                f"{len(stops)} stops, {len(steps)} steps and axes {shape_text(axes)}"
            )
        if 0 in steps:
            raise VerifyException(f"expected steps other than 0, found {shape_text(steps)}")
        if len(axes) > len(shape):
            raise VerifyException(f"expected at most {len(shape)} axes, found {len(axes)}")
        plain = [(0, size, 1) for size in shape]
        for axis, start, stop, step in zip(axes, starts, stops, steps, strict=True):
            first, end, step = slice(start, stop, step).indices(shape[axis])
            plain[axis] = (max(first, min(0, shape[axis] - 1)), end, step)
        return cls(input, [p[0] for p in plain], [p[1] for p in plain], [p[2] for p in plain])

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        shape = operands[0].get_shape()
        sizes: list[int] = []
        numbers = _slice_numbers(properties, len(shape))
        for size, (start, stop, step) in zip(shape, numbers, strict=True):
            low, high = (0, size) if step > 0 else (-1, size - 1)
            if step == 0 or not (low <= start <= high and low <= stop <= high):
                raise VerifyException(
                    f"expected start and stop in [{low}, {high}] and a step other than 0 for size {size}, "
                    f"found start {start}, stop {stop}, step {step}"
                )
            sizes.append(len(range(start, stop, step)))
        return (with_shape(operands[0], sizes),)

    @property
    def ranges(self) -> tuple[tuple[int, int, int], ...]:
        """(start, stop, step) per dimension."""
        return _slice_numbers(self.properties, rank_of(self.input))


def _slice_numbers(properties: Properties, rank: int) -> tuple[tuple[int, int, int], ...]:
    starts, stops = get_ints(properties, "starts") or (), get_ints(properties, "stops") or ()
    steps = get_ints(properties, "steps") or (1,) * rank
    if not len(starts) == len(stops) == len(steps) == rank:
        raise VerifyException(
            f"expected {rank} starts, stops and steps, found {len(starts)}, {len(stops)} and {len(steps)}"
        )
    return tuple(zip(starts, stops, steps, strict=True))


@irdl_op_definition
class ExpandOp(GraphOp):
    """The operand broadcast to the shape of the result type, as numpy does. ONNX Expand.

    ```mlir
    %y = graph.expand %x : tensor<3x1xf32> to tensor<2x3x4xf32>
    ```
    """

    name = "graph.expand"
    input = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    def __init__(self, input: Operand, shape: Sequence[int]):
        """As in ONNX, a 1 in `shape` keeps the operand's size; raises `VerifyException` if it doesn't fit."""
        operand = tensor_type(SSAValue.get(input).type)
        result = with_shape(operand, broadcast_shapes(operand.get_shape(), shape))
        super().__init__(operands=[input], result_types=[result])

    def verify_types(self) -> None:
        operand, result = tensor_type(self.input.type), tensor_type(self.result.type)
        require_same_elements(operand, result, "the result")
        require_broadcast_to(result.get_shape(), operand, "the operand")


@irdl_op_definition
class PadOp(InferredOp):
    """The operand with `low` elements of `value` before and `high` after it in each dimension.

    ONNX Pad, mode constant. Negative numbers take elements away. `value` has the element type.

    ```mlir
    %y = graph.pad %x low = [0, 1] high = [2, -1] value = 0.0 : f32 : (tensor<2x3xf32>) -> tensor<4x3xf32>
    ```
    """

    name = "graph.pad"
    input = operand_def(TensorType)
    result = result_def(TensorType)
    low = prop_def(I64Array)
    high = prop_def(I64Array)
    value = prop_def(Attribute)
    assembly_format = "$input `low` `=` $low `high` `=` $high `value` `=` $value " + SIGNATURE

    def __init__(self, input: Operand, low: Sequence[int], high: Sequence[int], value: Attribute):
        super().__init__([input], {"low": ints_attr(low), "high": ints_attr(high), "value": value})

    @classmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        (input,) = operands
        shape = input.get_shape()
        low, high = get_ints(properties, "low") or (), get_ints(properties, "high") or ()
        if not len(low) == len(high) == len(shape):
            raise VerifyException(
                f"expected {len(shape)} numbers for low and high, found {len(low)} and {len(high)}"
            )
        if number_type(properties["value"]) != input.element_type:
            raise VerifyException(
                f"expected a value of type {input.element_type}, found {properties['value']}"
            )
        sizes = [size + before + after for size, before, after in zip(shape, low, high, strict=True)]
        if any(size < 0 for size in sizes):
            raise VerifyException(f"expected a result of sizes 0 or more, found {shape_text(sizes)}")
        return (with_shape(input, sizes),)

    @property
    def widths(self) -> tuple[tuple[int, int], ...]:
        """(low, high) per dimension."""
        low, high = get_ints(self.properties, "low") or (), get_ints(self.properties, "high") or ()
        return tuple(zip(low, high, strict=True))


def _without(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


def _with(shape: Sequence[int], axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])
