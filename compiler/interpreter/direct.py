"""The shortest way into numpy for a call of a plan: the same result, up to half a microsecond earlier.

Public functions of numpy first ask their arguments whether they override them, or are Python around one call in C; all
that a plan calls them with are plain arrays. `np.matmul` takes 500 ns longer than `np.dot` to come to the same product
in BLAS, bit for bit. `np.dot` copies operands that are not contiguous, and does not write to a matrix with gaps.

A ufunc walks arrays that are not one run of elements with an iterator, which takes longer to start than another call:
two rows are two calls, a third faster where they are short. The iterator would call the same loop for each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np
from numpy._core import multiarray

from mlopt.interpreter.halves import views_to_widen, widen
from mlopt.interpreter.views import Slot, View, broadcast_strides, merged_strides

_Function = Callable[..., object]

_IN_BLAS = (np.dtype(np.float32), np.dtype(np.float64))


def _behind(function: _Function) -> _Function:
    """What a function of numpy calls when no argument overrides it; itself where that is not to be found."""
    return cast(_Function, getattr(function, "_implementation", function))


_MATMUL, _COPYTO = cast(_Function, np.matmul), cast(_Function, np.copyto)
_DOT, _DIRECT_COPYTO = _behind(np.dot), _behind(np.copyto)
_DIRECT: dict[_Function, _Function] = {
    np.einsum: cast(_Function, vars(multiarray).get("c_einsum", np.einsum)),
    np.take: np.ndarray.take,
}


class Call(NamedTuple):
    """A call of a plan; memory is given as views."""

    function: _Function
    args: Sequence[object]
    kwargs: Mapping[str, object]


def direct(function: _Function, args: Sequence[object], kwargs: Mapping[str, object]) -> Call:
    """A call with the same result that takes less time, or the call itself."""
    if function is _MATMUL and not kwargs:
        return _product(*args) or Call(function, args, kwargs)
    if function is _COPYTO:
        if "where" not in kwargs and (views := views_to_widen(*args)) is not None:
            return Call(widen, views, {})
        needless = kwargs == {"casting": "unsafe"} and _casts_by_default(*args)
        return Call(_DIRECT_COPYTO, args, {} if needless else kwargs)
    return Call(_DIRECT.get(function, function), args, kwargs)


def in_rows(call: Call) -> Sequence[Call]:
    """A ufunc of two rows as one call for each of them, anything else as it is."""
    function, args, kwargs = call
    if not isinstance(function, np.ufunc) or function.signature is not None or kwargs.keys() - {"out"}:
        return (call,)
    arrays = (*args, *kwargs.values())
    views = [array for array in arrays if isinstance(array, View)]
    if not len(views) == len(arrays) == function.nargs or len({v.dtype for v in views[: function.nin]}) > 1:
        return (call,)
    if any(isinstance(view.region, Slot) for view in views):
        return (call,)
    whole = views[-1]
    strides = [broadcast_strides(view, whole.ndim) for view in views]
    groups = merged_strides(whole.shape, strides)
    if len(groups) != 2 or math.prod(whole.shape[axis] for axis in groups[0]) != 2:
        return (call,)
    outer, inner = groups[0][-1], groups[1][-1]
    elements = math.prod(whole.shape[axis] for axis in groups[1])

    def row(number: int) -> Call:
        parts = [
            View(
                view.region,
                view.offset + number * by_axis[outer],
                (elements,) if by_axis[inner] else (),
                (by_axis[inner],) if by_axis[inner] else (),
                view.dtype,
            )
            for view, by_axis in zip(views, strides, strict=True)
        ]
        return Call(function, parts[: len(args)], dict(zip(kwargs, parts[len(args) :], strict=True)))

    return row(0), row(1)


def _casts_by_default(target: object, source: object) -> bool:
    return (
        isinstance(target, View)
        and isinstance(source, View)
        and np.can_cast(source.dtype, target.dtype, "same_kind")
    )


def _product(left: object, right: object, out: object) -> Call | None:
    """A product by `np.dot`, if that copies nothing."""
    assert isinstance(left, View) and isinstance(right, View) and isinstance(out, View)
    if not left.dtype == right.dtype == out.dtype or out.dtype not in _IN_BLAS:
        return None
    if (left.ndim, right.ndim) not in ((2, 2), (2, 1)) or 0 in (left.size, right.size):
        return None
    if not all(view.is_contiguous or _turned(view).is_contiguous for view in (left, right)):
        return None
    if out.is_contiguous:
        return Call(_DOT, (left, right, out), {})
    if out.ndim == 2 and _turned(out).is_contiguous:
        return Call(_DOT, (_turned(right), _turned(left), _turned(out)), {})
    return None


def _turned(view: View) -> View:
    """The view with its axes in the opposite order."""
    return view.transposed(range(view.ndim)[::-1])
