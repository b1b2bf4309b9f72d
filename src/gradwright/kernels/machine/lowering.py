"""A kernel's source becomes an LLVM module with one function. Imported only where a kernel is in no cache.

NOTE [The language]: a kernel is written in a small part of Python, so that people can read it and Python can parse it.
A module sets constants and defines ``kernel(parameters)``: assignments to names, ``for`` over a
``range`` with a step above 0, ``while``, ``if``, ``break``, ``continue``, ``return``; arithmetic and comparisons of
numbers, ``and``, ``or`` (of which both sides are computed), ``not``; calls of what ``arithmetic``, ``instructions`` and
``approximations`` have. A name has one type, that of what is first assigned to it, and no value before. The text is
parsed, never run.
"""

from __future__ import annotations

import ast
import functools
import math
from typing import Final

from llvmlite import ir  # type: ignore[import-untyped]

from gradwright.kernels.machine.approximations import APPROXIMATIONS
from gradwright.kernels.machine.arithmetic import (
    FUNCTIONS,
    NotInKernels,
    both,
    compared,
    computed,
    converted,
    either,
    inverted,
    negative,
    truth,
)
from gradwright.kernels.machine.emission import F64, I1, I64, Instruction, Lane
from gradwright.kernels.machine.instructions import INSTRUCTIONS
from gradwright.kernels.machine.processor import ENTRY, object_code, parsed

_KNOWN: Final[dict[str, Instruction]] = {**INSTRUCTIONS, **APPROXIMATIONS}
_NOT_FINITE: Final = {"inf": math.inf, "nan": math.nan}


def lowered(source: str) -> bytes:
    """The object code of ``kernel(parameters)`` in a text, under the name ``ENTRY``.

    Cost: 15 ms, and some 80 ms for LLVM. Raises: NotInKernels, SyntaxError.
    """
    return object_code(parsed(llvm_text(source)))


def llvm_text(source: str) -> str:
    """The kernel in LLVM's language, as it stands, not optimised. Raises: NotInKernels, SyntaxError."""
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [I64]), ENTRY)
    function.attributes.add("nounwind")
    _Kernel(function).define(ast.parse(source))
    return str(function.module)


class _Kernel:
    """A function that is being written."""

    def __init__(self, function: ir.Function) -> None:
        entry = function.append_basic_block("entry")
        self.builder = ir.IRBuilder(entry)
        start = function.append_basic_block("start")
        self.builder.branch(start)
        self.builder.position_at_end(start)
        self.parameters = Lane(self.builder, function.args[0])
        self.places: dict[str, ir.Value] = {}
        self.loops: list[tuple[ir.Block, ir.Block]] = []  # where ``continue`` and ``break`` go

    def define(self, module: ast.Module) -> None:
        for statement in module.body:
            match statement:
                case ast.FunctionDef(name="kernel", args=ast.arguments(args=[ast.arg(arg=name)]), body=body):
                    self.assign(name, self.parameters)
                    self.write(body)
                case _:
                    self.write([statement])
        if not any(isinstance(statement, ast.FunctionDef) for statement in module.body):
            raise NotInKernels("there is no kernel")
        if not self.builder.block.is_terminated:
            self.builder.ret_void()

    def write(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if self.builder.block.is_terminated:
                return  # nothing comes here
            try:
                self.statement(statement)
            except NotInKernels as reason:
                if reason.__cause__ is not None:
                    raise
                raise NotInKernels(f"line {statement.lineno}: {reason}: {ast.unparse(statement)}") from reason

    def statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.assign(name, self.value(value))
            case ast.AugAssign(target=ast.Name(id=name), op=sign, value=value):
                self.assign(name, computed(sign, self.value(ast.Name(name)), self.value(value)))
            case ast.Expr(value=ast.Call() as call):
                self.call(call)
            case ast.If(test=test, body=body, orelse=otherwise):
                self.choice(test, body, otherwise)
            case ast.While(test=test, body=body, orelse=[]):
                self.loop(test, body)
            case ast.For(
                target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range")) as call, body=body, orelse=[]
            ):
                self.counted(name, call.args, body)
            case ast.Break() | ast.Continue() if self.loops:
                self.builder.branch(self.loops[-1][isinstance(statement, ast.Break)])
            case ast.Return(value=None):
                self.builder.ret_void()
            case ast.Pass():
                pass
            case _:
                raise NotInKernels("kernels do not have this statement")

    def assign(self, name: str, value: Lane) -> None:
        if name not in self.places:
            with self.builder.goto_entry_block():
                self.places[name] = self.builder.alloca(value.type, name=name)
        if (place := self.places[name]).allocated_type != value.type:
            raise NotInKernels(
                f"{name} is of type {place.allocated_type}, and what is assigned to it of type {value.type}"
            )
        self.builder.store(value.value, place)

    def choice(self, test: ast.expr, body: list[ast.stmt], otherwise: list[ast.stmt]) -> None:
        then, other, after = (self.builder.append_basic_block(name) for name in ("then", "else", "after"))
        self.builder.cbranch(truth(self.value(test)).value, then, other)
        for block, statements in ((then, body), (other, otherwise)):
            self.builder.position_at_end(block)
            self.write(statements)
            self.go_on(after)
        self.builder.position_at_end(after)

    def loop(self, test: ast.expr, body: list[ast.stmt]) -> None:
        look, again, after = (self.builder.append_basic_block(name) for name in ("look", "again", "after"))
        self.go_on(look)
        self.builder.position_at_end(look)
        self.builder.cbranch(truth(self.value(test)).value, again, after)
        self.builder.position_at_end(again)
        self.loops.append((look, after))
        self.write(body)
        self.loops.pop()
        self.go_on(look)
        self.builder.position_at_end(after)

    def counted(self, name: str, bounds: list[ast.expr], body: list[ast.stmt]) -> None:
        """``for name in range(*bounds)``; the count is its own, whatever the body assigns to the name."""
        given = [converted(self.value(bound), I64) for bound in bounds]
        first, stop = (given[0], given[1]) if len(given) > 1 else (Lane(self.builder, ir.Constant(I64, 0)), given[0])
        step = given[2] if len(given) > 2 else stop.of(1)
        with self.builder.goto_entry_block():
            place = self.builder.alloca(I64)
        self.builder.store(first.value, place)
        look, again, onward, after = (
            self.builder.append_basic_block(name) for name in ("look", "again", "onward", "after")
        )
        self.builder.branch(look)
        self.builder.position_at_end(look)
        count = Lane(self.builder, self.builder.load(place))
        self.builder.cbranch((count < stop).value, again, after)
        self.builder.position_at_end(again)
        self.assign(name, count)
        self.loops.append((onward, after))
        self.write(body)
        self.loops.pop()
        self.go_on(onward)
        self.builder.position_at_end(onward)
        self.builder.store(self.builder.add(self.builder.load(place), step.value, flags=("nsw",)), place)
        self.builder.branch(look)
        self.builder.position_at_end(after)

    def go_on(self, block: ir.Block) -> None:
        if not self.builder.block.is_terminated:
            self.builder.branch(block)

    def value(self, expression: ast.expr) -> Lane:
        match expression:
            case ast.Constant(value=bool() | int() | float() as number):
                kind = I1 if isinstance(number, bool) else I64 if isinstance(number, int) else F64
                return Lane(self.builder, ir.Constant(kind, number))
            case ast.Name(id=name) if name in self.places:
                return Lane(self.builder, self.builder.load(self.places[name]))
            case ast.Name(id=name) if name in _NOT_FINITE:
                return Lane(self.builder, ir.Constant(F64, _NOT_FINITE[name]))
            case ast.Name(id=name):
                raise NotInKernels(f"nothing was assigned to {name}")
            case ast.BinOp(left=left, op=sign, right=right):
                return computed(sign, self.value(left), self.value(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return negative(self.value(operand))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return inverted(self.value(operand))
            case ast.Compare(left=left, ops=[sign], comparators=[right]):
                return compared(sign, self.value(left), self.value(right))
            case ast.BoolOp(op=sign, values=values):
                joined = both if isinstance(sign, ast.And) else either
                return functools.reduce(joined, [self.value(each) for each in values])
            case ast.Call():
                result = self.call(expression)
                if result is not None:
                    return result
        raise NotInKernels(f"{ast.unparse(expression)} has no value in a kernel")

    def call(self, call: ast.Call) -> Lane | None:
        name, given = ast.unparse(call.func), [self.value(each) for each in call.args]
        if call.keywords or not (name in _KNOWN or (name, len(given)) in FUNCTIONS):
            raise NotInKernels(f"there is no {name} of {len(given)} values")
        if name not in _KNOWN:
            return FUNCTIONS[name, len(given)](*given)
        instruction = _KNOWN[name]
        if not instruction.accepts([each.type for each in given]):
            raise NotInKernels(f"{name} takes no values of types {', '.join(str(each.type) for each in given)}")
        result = instruction.emit(self.builder, *[each.value for each in given])
        return None if result is None else Lane(self.builder, result)
