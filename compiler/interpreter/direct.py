"""The shortest way into numpy for a call of a plan: the same result, up to half a microsecond earlier.

Public functions of numpy first ask their arguments whether they override them, or are Python around one call in C; all
that a plan calls them with are plain arrays. `np.matmul` takes 500 ns longer than `np.dot` to come to the same product
in BLAS, bit for bit. `np.dot` copies operands that are not contiguous, and does not write to a matrix with gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np
from numpy._core import multiarray

from mlopt.interpreter.halves import views_to_widen, widen
from mlopt.interpreter.views import View

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
