"""The work of tidying one launch; what it does is tested with `fuse-kernels`."""

from __future__ import annotations

from mlopt.dialects.kernel import LaunchOp
from mlopt.ir import make_context, parse_module
from mlopt.passes.kernel.simplify_launch import simplify_launch
from tests.counting import count_calls


def sum_of(count: int) -> LaunchOp:
    """A launch of a map that adds up `count` tensors: nothing to simplify."""
    type_ = "tensor<8xf32>"
    given = ", ".join(f"%x{i}" for i in range(count))
    types = ", ".join([type_] * count)
    arguments = ", ".join(f"%x{i}: {type_}" for i in range(count))
    inner = ", ".join(f"%X{i}: {type_}" for i in range(count))
    reads = ", ".join(f"%X{i}[d]" for i in range(count))
    scalars = ", ".join(f"%a{i}: f32" for i in range(count))
    terms = ["%s0 = arith.addf %a0, %a0 : f32"]
    terms += [f"%s{i} = arith.addf %s{i - 1}, %a{i} : f32" for i in range(1, count)]
    body = "\n".join(terms)
    text = f"""
    func.func @main({arguments}) -> {type_} {{
      %e = tensor.empty() : {type_}
      %y = kernel.launch @sum ins({given} : {types}) outs(%e : {type_}) {{
      ^bb0({inner}, %O: {type_}):
        %r = kernel.map bounds [d = 8] ins({reads} : {types}) outs(%O[d] : {type_}) {{
        ^bb1({scalars}, %o: f32):
          {body}
          kernel.yield %s{count - 1} : f32
        }}
        kernel.yield %r : {type_}
      }} -> {type_}
      func.return %y : {type_}
    }}
    """
    (launch,) = (op for op in parse_module(text, make_context()).walk() if isinstance(op, LaunchOp))
    return launch


def test_work_grows_with_what_a_launch_is_given():
    """Four times the operands take four times the calls, not sixteen, and few: there is nothing to do for any."""

    def work(count: int) -> int:
        launch = sum_of(count)
        calls = count_calls(lambda: simplify_launch(launch))
        assert len(launch.ins) == count
        return calls

    work(4)
    assert work(200) < 4.4 * work(50)
    assert work(200) < 100 * 200
