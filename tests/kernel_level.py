"""Building one-op graph modules and comparing them, at graph and at kernel level, for tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph import GraphOp
from mlopt.interpreter import graph as graph_interpreter
from mlopt.interpreter import kernel as kernel_interpreter
from mlopt.ir.context import CompilerContext
from mlopt.ir.dtypes import array_to_dense, from_numpy_dtype
from mlopt.ir.registration import make_context
from mlopt.ir.verifier import verify_module
from mlopt.passes.convert_graph_to_kernel import ConvertGraphToKernelPass

Build = Callable[..., GraphOp]


def module_of(build: Build, inputs: Sequence[np.ndarray], constants: Sequence[int] = ()) -> ModuleOp:
    """`@main` of one op, `build(*values)`; the inputs at the positions `constants` are graph constants."""
    arguments = [array for i, array in enumerate(inputs) if i not in constants]
    block = Block(arg_types=[TensorType(from_numpy_dtype(a.dtype), a.shape) for a in arguments])
    given, values = list(block.args), list[SSAValue]()
    for i, array in enumerate(inputs):
        if i in constants:
            constant = graph.ConstantOp(array_to_dense(array))
            block.add_op(constant)
            values.append(constant.result)
        else:
            values.append(given.pop(0))
    op = build(*values)
    block.add_ops([op, ReturnOp(*op.results)])
    types = ([arg.type for arg in block.args], [result.type for result in op.results])
    module = ModuleOp([FuncOp("main", types, Region(block))])
    verify_module(module)
    return module


def converted(module: ModuleOp, context: CompilerContext | None = None) -> ModuleOp:
    """A verified kernel-level copy of a graph-level module."""
    copy = module.clone()
    ConvertGraphToKernelPass().run(context or make_context(), copy)
    verify_module(copy)
    return copy


def assert_same(
    build: Build,
    *inputs: np.ndarray,
    constants: Sequence[int] = (),
    rtol: float = 1e-6,
    atol: float = 1e-6,
) -> ModuleOp:
    """Assert that the kernel-level form of one op gives what its reference evaluation does; returns the form."""
    module = module_of(build, inputs, constants)
    context = make_context()
    kernels = converted(module, context)
    arguments = [array for i, array in enumerate(inputs) if i not in constants]
    named = {f"arg{i}": array for i, array in enumerate(arguments)}
    expected = graph_interpreter.evaluate_module(module, named, context.weights)
    found = kernel_interpreter.evaluate_module(kernels, named, context.weights)
    assert found.keys() == expected.keys()
    for name, want in expected.items():
        assert (found[name].dtype, found[name].shape) == (want.dtype, want.shape)
        if want.dtype.kind in "iub":
            np.testing.assert_array_equal(found[name], want)
        else:
            wide = np.float64 if want.dtype == np.float64 else np.float32
            np.testing.assert_allclose(found[name].astype(wide), want.astype(wide), rtol=rtol, atol=atol)
    return kernels
