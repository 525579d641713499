"""From a small part of Python to LLVM IR: so that one source is both the planner's kernel and its pure Python twin.

What is understood is what loops over integers need, and each thing means the same in both worlds:

- a dataclass of fields `int` and `Ints` (arrays of integers): the state, shared by all functions;
- functions whose parameters are `int`, `Ints` or the state, and which return `int` or nothing;
- assignments to names, to fields that are `int`, and to elements of arrays; `+=` and its like;
- `if`, `while`, `for ... in range(...)` with steps of one, `break`, `continue`, `return`, calls;
- `+ - * // %`, `min` and `max` of two, comparisons, `and`, `or`, `not`, `x if c else y`, constants of the module.

Integers are signed and have 64 bits: whoever calls native code has made sure that nothing overflows. No index is
negative or beyond its array: nothing is checked here. The divisor of `//` and `%` is positive.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

_STATE, _INT, _ARRAY, _BOOL = "state", "i64", "array", "i1"
_ARITHMETIC: dict[type[ast.operator], str] = {ast.Add: "add nsw", ast.Sub: "sub nsw", ast.Mult: "mul nsw"}
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "slt",
    ast.LtE: "sle",
    ast.Gt: "sgt",
    ast.GtE: "sge",
    ast.Eq: "eq",
    ast.NotEq: "ne",
}


class TranslationError(Exception):
    """The source uses something that is not translated; the message names it and its line."""


def translate(source: str) -> str:
    """The LLVM IR, as text, of all functions of a module; each takes a pointer to the state as its fields lie in C."""
    module = ast.parse(source)
    fields: dict[str, tuple[int, str]] = {}
    constants: dict[str, int] = {}
    functions: dict[str, ast.FunctionDef] = {}
    state = ""
    for statement in module.body:
        match statement:
            case ast.ClassDef(name=state):
                for field in statement.body:
                    if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                        fields[field.target.id] = (len(fields), _type_of(field.annotation, state))
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if (
                number := _number(value)
            ) is not None:
                constants[name] = number
            case ast.FunctionDef():
                functions[statement.name] = statement
            case _:
                pass
    bodies = [_Function(f, fields, constants, functions, state).text() for f in functions.values()]
    helpers = ["declare i64 @llvm.smin.i64(i64, i64)", "declare i64 @llvm.smax.i64(i64, i64)", "!0 = !{}"]
    return "\n\n".join([*helpers, *bodies]) + "\n"


def _number(node: ast.expr) -> int | None:
    """The whole number that is written there, if it is one."""
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            return -value
        case _:
            return None


def _type_of(annotation: ast.expr | None, state: str) -> str:
    match annotation:
        case ast.Name(id="int"):
            return _INT
        case ast.Name(id="Ints"):
            return _ARRAY
        case ast.Name(id=name) if name == state:
            return _STATE
        case _:
            raise TranslationError(
                f"expected int, Ints or {state}, found {annotation and ast.dump(annotation)}"
            )


def _signature(function: ast.FunctionDef, state: str) -> tuple[str, list[tuple[str, str]]]:
    """The LLVM type of the result, and name and type of each parameter."""
    match function.returns:
        case ast.Name(id="int"):
            result = "i64"
        case ast.Constant(value=None):
            result = "void"
        case _:
            raise TranslationError(f"line {function.lineno}: expected a result of type int or None")
    return result, [(argument.arg, _type_of(argument.annotation, state)) for argument in function.args.args]


_LLVM = {_INT: "i64", _ARRAY: "ptr", _STATE: "ptr", _BOOL: "i1"}

_Value = tuple[str, str]
"""An SSA name or a number, and its type."""


class _Function:
    """The translation of one function. Variables are stack slots: LLVM turns them into registers."""

    def __init__(
        self,
        function: ast.FunctionDef,
        fields: dict[str, tuple[int, str]],
        constants: dict[str, int],
        functions: dict[str, ast.FunctionDef],
        state: str,
    ):
        self._function = function
        self._fields = fields
        self._constants = constants
        self._functions = functions
        self._state = state
        self._lines: list[str] = []
        self._count = 0
        self._slots: dict[str, str] = {}
        self._values: dict[str, _Value] = {}
        self._loops: list[tuple[str, str]] = []
        self._open = True

    def text(self) -> str:
        result, parameters = _signature(self._function, self._state)
        assigned = {
            node.id
            for node in ast.walk(self._function)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        for name, type_ in parameters:
            if type_ == _INT and name in assigned:
                self._slots[name] = f"%{name}.slot"
                self._emit(f"store i64 %{name}, ptr %{name}.slot")
            else:
                self._values[name] = (f"%{name}", type_)
        self._block(self._function.body)
        if self._open:
            self._emit("ret void" if result == "void" else "unreachable")
        signature = ", ".join(f"{_LLVM[type_]} %{name}" for name, type_ in parameters)
        slots = [f"  {slot} = alloca i64" for slot in self._slots.values()]
        return "\n".join(
            [f"define {result} @{self._function.name}({signature}) {{", "entry:", *slots, *self._lines, "}"]
        )

    # Text, block by block

    def _emit(self, line: str) -> None:
        if self._open:
            self._lines.append(f"  {line}")

    def _new(self, line: str, type_: str = _INT) -> _Value:
        self._count += 1
        self._emit(f"%t{self._count} = {line}")
        return f"%t{self._count}", type_

    def _labels(self, *names: str) -> list[str]:
        self._count += 1
        return [f"{name}{self._count}" for name in names]

    def _begin(self, label: str) -> None:
        self._branch(label)
        self._lines.append(f"{label}:")
        self._open = True

    def _branch(self, label: str) -> None:
        self._emit(f"br label %{label}")
        self._open = False

    def _branch_if(self, condition: _Value, yes: str, no: str) -> None:
        self._emit(f"br i1 {condition[0]}, label %{yes}, label %{no}")
        self._open = False

    def _fail(self, node: ast.AST) -> TranslationError:
        line = getattr(node, "lineno", self._function.lineno)
        return TranslationError(f"line {line}: {ast.unparse(node)} is not translated")

    # Statements

    def _block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            if self._open:
                self._statement(statement)

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Expr(value=ast.Call() as call):
                self._call(call)
            case ast.Assign(targets=[target], value=value):
                self._assign(target, self._expression(value))
            case ast.AugAssign(target=target, op=op, value=value):
                read = ast.copy_location(ast.parse(ast.unparse(target), mode="eval").body, target)
                self._assign(target, self._expression(ast.copy_location(ast.BinOp(read, op, value), target)))
            case ast.If():
                self._if(statement)
            case ast.While(test=test, body=body, orelse=[]):
                head, inside, after = self._labels("while", "do", "done")
                self._begin(head)
                self._condition(test, inside, after)
                self._loop(inside, body, head, after)
            case ast.For(target=ast.Name(id=name), iter=ast.Call() as call, body=body, orelse=[]):
                self._for(name, call, body)
            case ast.Break():
                self._branch(self._loops[-1][1])
            case ast.Continue():
                self._branch(self._loops[-1][0])
            case ast.Return(value=None):
                self._emit("ret void")
                self._open = False
            case ast.Return(value=ast.expr() as value):
                self._emit(f"ret i64 {self._integer(value)}")
                self._open = False
            case _:
                raise self._fail(statement)

    def _assign(self, target: ast.expr, value: _Value) -> None:
        match target:
            case ast.Name(id=name) if value[1] == _ARRAY and name not in self._slots | self._values:
                self._values[name] = value
            case ast.Name(id=name) if value[1] == _INT and name not in self._values:
                self._store(name, value[0])
            case ast.Attribute() | ast.Subscript() if value[1] == _INT:
                self._emit(f"store i64 {value[0]}, ptr {self._address(target)}")
            case _:
                raise self._fail(target)

    def _store(self, name: str, value: str) -> None:
        slot = self._slots.setdefault(name, f"%{name}.slot")
        self._emit(f"store i64 {value}, ptr {slot}")

    def _if(self, statement: ast.If) -> None:
        yes, no, after = self._labels("then", "else", "after")
        self._condition(statement.test, yes, no)
        self._begin(yes)
        self._block(statement.body)
        yes_open = self._open
        self._branch(after)
        self._begin(no)
        self._block(statement.orelse)
        if yes_open or self._open:
            self._begin(after)

    def _for(self, name: str, call: ast.Call, body: Sequence[ast.stmt]) -> None:
        if not (isinstance(call.func, ast.Name) and call.func.id == "range" and len(call.args) in (1, 2)):
            raise self._fail(call)
        start = self._integer(call.args[0]) if len(call.args) == 2 else "0"
        end = self._integer(call.args[-1])
        # The counter is not the variable: Python goes on from the counter whatever the body assigns.
        counter = f"for.{name}.{self._count}"
        self._store(counter, start)
        head, inside, step, after = self._labels("for", "do", "step", "done")
        self._begin(head)
        now = self._new(f"load i64, ptr {self._slots[counter]}")
        more = self._new(f"icmp slt i64 {now[0]}, {end}", _BOOL)
        self._branch_if(more, inside, after)
        self._begin(inside)
        self._store(name, now[0])
        self._loops.append((step, after))
        self._block(body)
        self._loops.pop()
        self._begin(step)
        self._store(counter, self._new(f"add nsw i64 {now[0]}, 1")[0])
        self._branch(head)
        self._begin(after)

    def _loop(self, inside: str, body: Sequence[ast.stmt], head: str, after: str) -> None:
        self._begin(inside)
        self._loops.append((head, after))
        self._block(body)
        self._loops.pop()
        self._branch(head)
        self._begin(after)

    # Expressions

    def _condition(self, test: ast.expr, yes: str, no: str) -> None:
        """Go to one of two labels; `and` and `or` look at no more than they must."""
        match test:
            case ast.BoolOp(op=op, values=values):
                for value in values[:-1]:
                    (go_on,) = self._labels("also")
                    if isinstance(op, ast.And):
                        self._condition(value, go_on, no)
                    else:
                        self._condition(value, yes, go_on)
                    self._begin(go_on)
                self._condition(values[-1], yes, no)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self._condition(operand, no, yes)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
                a, b = self._integer(left), self._integer(right)
                self._branch_if(self._new(f"icmp {_COMPARISONS[type(op)]} i64 {a}, {b}", _BOOL), yes, no)
            case _:
                raise self._fail(test)

    def _integer(self, node: ast.expr) -> str:
        value, type_ = self._expression(node)
        if type_ != _INT:
            raise self._fail(node)
        return value

    def _expression(self, node: ast.expr) -> _Value:
        match node:
            case ast.Constant(value=int(value)) if not isinstance(value, bool):
                return str(value), _INT
            case ast.Name(id=name) if name in self._slots:
                return self._new(f"load i64, ptr {self._slots[name]}")
            case ast.Name(id=name) if name in self._values:
                return self._values[name]
            case ast.Name(id=name) if name in self._constants:
                return str(self._constants[name]), _INT
            case ast.Attribute(attr=name) if name in self._fields and self._fields[name][1] == _ARRAY:
                return self._new(f"load ptr, ptr {self._address(node)}, !invariant.load !0", _ARRAY)
            case ast.Attribute() | ast.Subscript():
                return self._new(f"load i64, ptr {self._address(node)}")
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._new(f"sub nsw i64 0, {self._integer(operand)}")
            case ast.BinOp(left=left, op=op, right=right):
                return self._arithmetic(node, op, self._integer(left), self._integer(right))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                name = f"if.{self._count}"
                yes, no, after = self._labels("then", "else", "after")
                self._condition(test, yes, no)
                self._begin(yes)
                self._store(name, self._integer(body))
                self._branch(after)
                self._begin(no)
                self._store(name, self._integer(orelse))
                self._begin(after)
                return self._new(f"load i64, ptr {self._slots[name]}")
            case ast.Call():
                return self._call(node)
            case _:
                raise self._fail(node)

    def _arithmetic(self, node: ast.expr, op: ast.operator, a: str, b: str) -> _Value:
        if type(op) in _ARITHMETIC:
            return self._new(f"{_ARITHMETIC[type(op)]} i64 {a}, {b}")
        if not isinstance(op, ast.FloorDiv | ast.Mod):
            raise self._fail(node)
        # Python rounds down, LLVM towards zero.
        remainder = self._new(f"srem i64 {a}, {b}")[0]
        negative = self._new(f"icmp slt i64 {remainder}, 0", _BOOL)[0]
        if isinstance(op, ast.Mod):
            lifted = self._new(f"add nsw i64 {remainder}, {b}")[0]
            return self._new(f"select i1 {negative}, i64 {lifted}, i64 {remainder}")
        quotient = self._new(f"sdiv i64 {a}, {b}")[0]
        borrow = self._new(f"sext i1 {negative} to i64")[0]
        return self._new(f"add nsw i64 {quotient}, {borrow}")

    def _address(self, node: ast.expr) -> str:
        match node:
            case ast.Attribute(value=ast.Name(id=base), attr=name) if name in self._fields:
                state = self._values[base][0]
                return self._new(f"getelementptr inbounds i64, ptr {state}, i64 {self._fields[name][0]}")[0]
            case ast.Subscript(value=array, slice=index):
                pointer, type_ = self._expression(array)
                if type_ == _ARRAY:
                    return self._new(
                        f"getelementptr inbounds i64, ptr {pointer}, i64 {self._integer(index)}"
                    )[0]
            case _:
                pass
        raise self._fail(node)

    def _call(self, call: ast.Call) -> _Value:
        if not isinstance(call.func, ast.Name) or call.keywords:
            raise self._fail(call)
        name = call.func.id
        values = [self._expression(argument) for argument in call.args]
        if name in ("min", "max") and [type_ for _, type_ in values] == [_INT, _INT]:
            return self._new(f"call i64 @llvm.s{name}.i64(i64 {values[0][0]}, i64 {values[1][0]})")
        if name not in self._functions:
            raise self._fail(call)
        result, parameters = _signature(self._functions[name], self._state)
        if [type_ for _, type_ in values] != [type_ for _, type_ in parameters]:
            raise self._fail(call)
        arguments = ", ".join(f"{_LLVM[type_]} {value}" for value, type_ in values)
        if result == "void":
            self._emit(f"call void @{name}({arguments})")
            return "", "void"
        return self._new(f"call i64 @{name}({arguments})")
