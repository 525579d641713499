"""Resize: another number of elements along some axes, interpolated between those that are there."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    Float32Type,
    FloatAttr,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
    UnitAttr,
    f32,
    f64,
    i8,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects.graph.base import (
    NUMERIC,
    SIGNATURE,
    F64Attr,
    GraphOp,
    Operand,
    Tensor,
    is_integer,
    require_elements,
    require_same_elements,
    shape_of,
    tensor_type,
    unit_attr,
    with_shape,
)
from mlopt.dialects.graph.resampling import COORDINATES, MODES, NEAREST, AxisTable, Resampling, axis_table

_BYTES = frozenset((i8, IntegerType(8, Signedness.UNSIGNED)))
_IN_DOUBLES: frozenset[Attribute] = frozenset((f64, i64, IntegerType(64, Signedness.UNSIGNED)))


@irdl_op_definition
class ResizeOp(GraphOp):
    """Every axis resampled to the size of the result, `scales[axis]` from the old size to the new. ONNX Resize.

    `coordinates` is ONNX's `coordinate_transformation_mode`: where a position of the result lies in the input. The
    other attributes are ONNX's too. `roi` has the starts, then the ends of the part that `tf_crop_and_resize` takes,
    from 0 to 1. A size is the scaled one rounded down, or to the nearest number. With `fractional`, "align_corners" and
    "tf_crop_and_resize" compute with the scaled size before it is rounded, as ONNX does from operator set 19 on.
    Coordinates and weights are in f32 (see `resampling`); f16 and bf16 are summed in f32.

    Integers are interpolated in f32 (those of 64 bits in f64), the weights of all axes multiplied first. Linear
    interpolation rounds toward zero, cubic to the nearest integer, halves to even. With `antialias` each axis rounds to
    the nearest, the last axis first, halves up in 8 bits and away from zero in more. What is then out of the range of
    the type is the nearest number in it.

    ```mlir
    %y = graph.resize %x mode = "linear" coordinates = "half_pixel" scales = [1.0, 1.0, 2.0, 2.0]
      : (tensor<1x3x8x8xf32>) -> tensor<1x3x16x16xf32>
    ```
    """

    name = "graph.resize"
    input = operand_def(TensorType)
    result = result_def(TensorType)
    mode = prop_def(StringAttr)
    coordinates = prop_def(StringAttr)
    scales = prop_def(DenseArrayBase[Float32Type])
    nearest = prop_def(StringAttr, default_value=StringAttr("round_prefer_floor"))
    cubic_a = prop_def(F64Attr, default_value=FloatAttr(-0.75, f64))
    roi = opt_prop_def(DenseArrayBase[Float32Type])
    extrapolation = prop_def(F64Attr, default_value=FloatAttr(0.0, f64))
    exclude_outside = opt_prop_def(UnitAttr)
    antialias = opt_prop_def(UnitAttr)
    fractional = opt_prop_def(UnitAttr)
    assembly_format = (
        "$input `mode` `=` $mode `coordinates` `=` $coordinates `scales` `=` $scales (`nearest` `=` $nearest^)? "
        "(`cubic_a` `=` $cubic_a^)? (`roi` `=` $roi^)? (`extrapolation` `=` $extrapolation^)? "
        "(`exclude_outside` $exclude_outside^)? (`antialias` $antialias^)? (`fractional` $fractional^)? "
        + SIGNATURE
    )

    def __init__(
        self,
        input: Operand,
        shape: Sequence[int],
        scales: Sequence[float],
        how: Resampling,
        *,
        roi: Sequence[float] | None = None,
        extrapolation: float = 0.0,
    ):
        """`scales` has one number per axis, as `shape` has; `roi` two. Raises `VerifyException` if they don't fit."""
        operand = tensor_type(SSAValue.get(input).type)
        super().__init__(
            operands=[input],
            result_types=[with_shape(operand, shape)],
            properties={
                "mode": StringAttr(how.mode),
                "coordinates": StringAttr(how.coordinates),
                "scales": DenseArrayBase.from_list(f32, list(scales)),
                "nearest": StringAttr(how.nearest),
                "cubic_a": FloatAttr(how.cubic_a, f64),
                "roi": None if roi is None else DenseArrayBase.from_list(f32, list(roi)),
                "extrapolation": FloatAttr(extrapolation, f64),
                "exclude_outside": unit_attr(how.exclude_outside),
                "antialias": unit_attr(how.antialias),
                "fractional": unit_attr(how.fractional),
            },
        )
        self.verify_types()

    def verify_types(self) -> None:
        input, result = tensor_type(self.input.type), tensor_type(self.result.type)
        require_elements(NUMERIC, input, "the operand")
        require_same_elements(input, result, "the result")
        _require_one_of(MODES, self.mode, "mode")
        _require_one_of(COORDINATES, self.coordinates, "coordinates")
        _require_one_of(NEAREST, self.nearest, "nearest")
        rank, scales = len(input.get_shape()), self.scales.get_values()
        if len(scales) != rank or not all(0 < scale < float("inf") for scale in scales):
            raise VerifyException(f"expected {rank} scales above 0, found {list(scales)}")
        if self.how.antialias and self.how.mode == "nearest":
            raise VerifyException('expected antialias with mode "linear" or "cubic" only')
        if self.crops != (self.roi is not None):
            raise VerifyException('expected a roi with coordinates "tf_crop_and_resize", and only with them')
        if self.roi is not None and len(self.roi) != 2 * rank:
            raise VerifyException(f"expected a roi of {2 * rank} numbers, found {len(self.roi)}")
        self._verify_sizes(input, result)

    def _verify_sizes(self, input: Tensor, result: Tensor) -> None:
        sizes, results = input.get_shape(), result.get_shape()
        if len(results) != len(sizes):
            raise VerifyException(f"expected a result of rank {len(sizes)}, found {result}")
        for size, wanted, scale in zip(sizes, results, self.scales.get_values(), strict=True):
            if (size == 0 and wanted) or abs(wanted - size * scale) > 1:
                raise VerifyException(
                    f"expected sizes of about the scaled ones, found {input} to {result} "
                    f"by {list(self.scales.get_values())}"
                )

    @property
    def crops(self) -> bool:
        """Whether a part of the input is taken, and positions may lie outside of it."""
        return self.coordinates.data == "tf_crop_and_resize"

    @property
    def how(self) -> Resampling:
        """The attributes that are the same for all axes."""
        return Resampling(
            self.mode.data,
            self.coordinates.data,
            self.nearest.data,
            self.cubic_a.value.data,
            self.exclude_outside is not None,
            self.antialias is not None,
            self.fractional is not None,
            self.antialias is not None and tensor_type(self.input.type).element_type in _BYTES,
        )

    @property
    def wide(self) -> AnyFloat:
        """The type that sums are in: f64 where f32 is too narrow for the elements, or for sums on the `grid`."""
        element = tensor_type(self.input.type).element_type
        return f64 if element in _IN_DOUBLES or self.how.grid else f32

    @property
    def steps(self) -> list[dict[int, AxisTable]]:
        """Axis → its table, for the axes that are resampled together; one such step after the other.

        Floats: an axis a step. Those that shrink come first, from the outermost on, then those that grow, from the
        innermost on: that moves the fewest elements. Integers round once a step: with `antialias` for each axis, else
        once for all.
        """
        sizes, results, scales = shape_of(self.input), shape_of(self.result), self.scales.get_values()
        roi = (0.0,) * len(sizes) + (1.0,) * len(sizes) if self.roi is None else self.roi.get_values()
        found: dict[int, AxisTable] = {}
        for axis, (size, result, scale) in enumerate(zip(sizes, results, scales, strict=True)):
            table = axis_table(self.how, size, result, scale, (roi[axis], roi[axis + len(sizes)]))
            if table is not None:
                found[axis] = table
        if self.antialias is not None:
            return [{axis: found[axis]} for axis in sorted(found, reverse=True)]
        if is_integer(tensor_type(self.input.type).element_type) and self.mode.data != "nearest":
            return [found] if found else []
        order = sorted(found, key=lambda a: (results[a] > sizes[a], -a if results[a] > sizes[a] else a))
        return [{axis: found[axis]} for axis in order]


def _require_one_of(allowed: Sequence[str], found: StringAttr, name: str) -> None:
    if found.data not in allowed:
        choices = ", ".join(f'"{choice}"' for choice in allowed)
        raise VerifyException(f'expected {name} to be one of {choices}, found "{found.data}"')
