"""What a loop writes into: where that is made, what it is filled with, whether nobody sees it before the loop."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.frames import Frame
from gradwright.doctor.rewrite.loops.sizes import FILLED, LIKE, SIZED
from gradwright.ground.syntax import dotted, end_position, position

_ZEROS = {"zeros_like": 0, "zeros": 0, "new_zeros": 0, "ones_like": 1, "ones": 1, "new_ones": 1}
_DRAWN = ("rand", "randn", "rand_like", "randn_like")  # whoever drops them shifts the random numbers after them
_ABOUT = ("shape", "size", "dtype", "device", "numel", "ndim", "dim")


@dataclass(frozen=True)
class Made:
    """``name`` is made by ``statement`` in the loop's own block; nobody reads it between there and the loop.

    ``fill``: the number it is filled with, None if another; ``like``: the tensor whose dtype it takes.
    ``number``: it is that Python number itself. ``makes_list``: it is an empty list; ``makes_dict``: an empty dict.
    ``times``: it is a list of so many of the number. ``beside``: what else the statement makes.
    """

    name: str
    statement: ast.stmt
    fill: int | float | None = None
    like: str = ""
    number: bool = False
    makes_list: bool = False
    empty: bool = False
    makes_dict: bool = False
    times: ast.expr | None = None
    beside: tuple[str, ...] = ()


def find_made(frame: Frame, loop: ast.stmt, name: str) -> Made | None:
    """None if it comes from elsewhere, or something else may see it before the loop is over."""
    statement = _last_binding(frame, loop, name)
    if statement is None:
        return _made_beside(frame, loop, name)
    if statement.lineno != statement.end_lineno or _shares_line(frame, statement):
        return None
    value = statement.value
    if value is None or _read_between(frame, statement, loop, name):
        return None
    if isinstance(value, ast.Constant) and isinstance(value.value, bool):
        return Made(name, statement, value.value, number=True)
    number = nodes.number(value)
    if number is not None:
        literal = nodes.integer(value)
        return Made(name, statement, number if literal is None else literal, number=True)
    if infinity(value):
        return Made(name, statement, infinity(value), number=True)
    if _is_empty(value, ast.List):
        return Made(name, statement, makes_list=True)
    if _is_empty(value, ast.Dict):
        return Made(name, statement, makes_dict=True)
    if (repeated := _repeated(value)) is not None:
        fill, times = repeated
        steady = all(same_until(frame, statement, loop, one) for one in nodes.names_in(times))
        return Made(name, statement, fill, times=times) if steady else None
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        return _buffer(frame, statement, loop, name, value, value.func)
    if isinstance(value, ast.Call) and frame.module_of(value.func).startswith("torch."):
        full = frame.module_of(value.func)
        func = ast.Attribute(ast.Name("torch", ast.Load()), full.removeprefix("torch."), ast.Load())
        return _buffer(frame, statement, loop, name, value, func)
    return None


def _is_empty(value: ast.expr, kind: type[ast.List | ast.Dict]) -> bool:
    """``[]``, ``list()``; ``{}``, ``dict()``."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and not value.args and not value.keywords:
        return value.func.id == kind.__name__.lower()
    return isinstance(value, kind) and not (value.elts if isinstance(value, ast.List) else value.keys)


def _repeated(value: ast.expr) -> tuple[int | float, ast.expr] | None:
    """``(0, n)`` for ``[0] * n``, ``[0 for _ in range(n)]``."""
    if isinstance(value, ast.ListComp) and len(value.generators) == 1:
        (rounds,) = value.generators
        ranged = rounds.iter
        plain = isinstance(ranged, ast.Call) and isinstance(ranged.func, ast.Name) and ranged.func.id == "range"
        if not plain or not isinstance(ranged, ast.Call) or len(ranged.args) != 1 or rounds.ifs:
            return None
        one, times = value.elt, ranged.args[0]
    elif isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        listed, times = value.left, value.right
        if not isinstance(listed, ast.List):
            listed, times = times, listed
        if not isinstance(listed, ast.List) or len(listed.elts) != 1:
            return None
        one = listed.elts[0]
    else:
        return None
    whole, number = nodes.integer(one), nodes.number(one)
    return None if number is None else (number if whole is None else whole, times)


def _made_beside(frame: Frame, loop: ast.stmt, name: str) -> Made | None:
    """``good, bad = [], []``."""
    binding = frame.reaching(name, loop)
    if binding is None or binding.item is None or not isinstance(binding.statement, ast.Assign):
        return None
    statement, targets = binding.statement, binding.statement.targets
    if not isinstance(binding.value, ast.Tuple) or len(targets) != 1 or statement not in frame.block_of(loop):
        return None
    names = (
        tuple(one.id for one in targets[0].elts if isinstance(one, ast.Name))
        if isinstance(targets[0], ast.Tuple)
        else ()
    )
    apart = len(set(names)) == len(binding.value.elts) and statement.lineno == statement.end_lineno
    empty = all(_is_empty(one, ast.List) for one in binding.value.elts)
    if not apart or not empty or _shares_line(frame, statement) or _read_between(frame, statement, loop, name):
        return None
    return Made(name, statement, makes_list=True, beside=names)


def first_value(frame: Frame, loop: ast.stmt, name: str) -> ast.expr | None:
    """What ``name`` is set to in the loop's own block before it."""
    statement = _last_binding(frame, loop, name)
    if statement is not None:
        return statement.value
    binding = frame.reaching(name, loop)
    if binding is None or binding.item is None or not isinstance(binding.value, ast.Tuple):
        return None
    return binding.value.elts[binding.item]


def infinity(node: ast.expr) -> float | None:
    """``float("-inf")``, ``-math.inf``, ``-torch.inf``, ``-float("inf")``."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = infinity(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Attribute) and node.attr == "inf" and isinstance(node.value, ast.Name):
        return float("inf")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "float" and node.args:
        text = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
        if isinstance(text, str) and text.strip().lower().lstrip("+-") in ("inf", "infinity"):
            return float(text)
    return None


def _buffer(
    frame: Frame, statement: ast.stmt, loop: ast.stmt, name: str, call: ast.Call, func: ast.Attribute
) -> Made | None:
    kind = func.attr
    if kind in ("tensor", "scalar_tensor") and call.args and nodes.number(call.args[0]) is not None:
        return Made(name, statement)
    if kind not in LIKE | SIZED | FILLED | {"clone"} or kind in _DRAWN:
        return None
    fill: int | float | None = _ZEROS.get(kind)
    if kind in FILLED | {"full_like"} and len(call.args) == 2:
        fill = nodes.integer(call.args[1]) if nodes.integer(call.args[1]) is not None else nodes.number(call.args[1])
    like = ""
    if kind in LIKE and call.args:
        like = dotted(call.args[0])
    elif kind == "clone" or kind.startswith("new_"):
        like = dotted(func.value)
    if call.keywords:
        like = _dtype_taken(call)
    if like and not same_until(frame, statement, loop, like):
        like = ""
    return Made(name, statement, fill, like, empty=kind.startswith(("empty", "new_empty")))


def _dtype_taken(call: ast.Call) -> str:
    """``x`` for ``zeros(n, m, dtype=x.dtype, device=x.device)``."""
    taken: dict[str, str] = {}
    for keyword in call.keywords:
        if not isinstance(keyword.value, ast.Attribute) or keyword.value.attr != keyword.arg:
            return ""
        taken[keyword.arg] = dotted(keyword.value.value)
    right = "dtype" in taken and set(taken) <= {"dtype", "device"} and len(set(taken.values())) == 1
    return taken["dtype"] if right else ""


def same_until(frame: Frame, statement: ast.stmt, loop: ast.stmt, name: str) -> bool:
    """Whether nobody binds ``name`` between the statement and the end of the loop."""
    last = end_position(loop)
    return not any(
        other.statement is not None and position(statement) < position(other.statement) < last
        for other in frame.bindings.get(name.split(".")[0], [])
    )


def _last_binding(frame: Frame, loop: ast.stmt, name: str) -> ast.Assign | ast.AnnAssign | None:
    block = frame.block_of(loop)
    for statement in reversed(block[: next(i for i, one in enumerate(block) if one is loop)]):
        binds = any(
            isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load) for n in ast.walk(statement)
        )
        if not binds:
            continue
        if (
            isinstance(statement, ast.Assign)
            and len(statement.targets) == 1
            and isinstance(statement.targets[0], ast.Name)
        ):
            return statement
        return statement if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) else None
    return None


def _shares_line(frame: Frame, statement: ast.stmt) -> bool:
    return any(one is not statement and one.lineno == statement.lineno for one in frame.block_of(statement))


def _read_between(frame: Frame, statement: ast.stmt, loop: ast.stmt, name: str) -> bool:
    """Whether it is used between the two, other than asked for its shape; or captured by a function."""
    for use in frame.reads.get(name, []):
        inside_function = any(
            isinstance(one, ast.FunctionDef | ast.Lambda) for one in frame.ancestors(use) if one is not frame.function
        )
        if inside_function:
            return True
        if end_position(statement) <= position(use) < position(loop) and not _asks(frame, use):
            return True
    return False


def _asks(frame: Frame, use: ast.Name) -> bool:
    parent = next(frame.ancestors(use), None)
    return isinstance(parent, ast.Attribute) and parent.attr in _ABOUT


def used_between(frame: Frame, statement: ast.stmt, loop: ast.stmt, name: str) -> bool:
    """Whether it is used at all between the two, so that the statement has to stay."""
    return any(end_position(statement) <= position(use) < position(loop) for use in frame.reads.get(name, []))


def dtype_root(frame: Frame, name: str, at: ast.stmt, depth: int = 0) -> str:
    """The tensor that ``name`` has its dtype from, as far as the text shows."""
    binding = frame.reaching(name, at) if "." not in name else None
    value = binding.value if binding is not None and binding.item is None else None
    if depth > 8 or binding is None or binding.statement is None or not isinstance(value, ast.Call):
        return name
    func = value.func
    if not isinstance(func, ast.Attribute) or any(keyword.arg == "dtype" for keyword in value.keywords):
        return name
    source: Sequence[ast.expr] = value.args[:1] if func.attr in LIKE else [func.value]
    if func.attr in LIKE | {"clone", "detach", "contiguous", "new_zeros", "new_empty", "new_ones"} and source:
        inner = dotted(source[0])
        return dtype_root(frame, inner, binding.statement, depth + 1) if inner else name
    return name
