"""One class or function of a changed file comes to life in a copy of its module's namespace; nothing else runs."""

from __future__ import annotations

import ast
import inspect
import sys
import types
from collections.abc import Callable, Collection, Mapping
from typing import Any

from gradwright.doctor.prove import faults
from gradwright.doctor.session.proposal import Proposal
from gradwright.ground.torch_versions.modes import TorchDispatchMode

BOM = "\ufeff"
_MAKER = "__gradwright_make__"


class NotCompilableError(Exception):
    """The code can't be made; the message says why."""


def parsed(text: str) -> ast.Module:
    return ast.parse(text.removeprefix(BOM))


def room_of(proposal: Proposal, namespace: Mapping[str, object]) -> dict[str, Any]:
    """A copy of the namespace with what the proposal adds to the module. Raises: NotCompilableError."""
    room = {**namespace, faults.NAME: faults}
    if proposal.added:
        try:
            exec(compile(proposal.added, proposal.path, "exec", dont_inherit=True), room)
        except Exception as error:
            raise NotCompilableError(
                f"what it adds to the module does not run: {type(error).__name__}: {error}"
            ) from error
    return room


class _Uncompiled:
    """What a candidate calls Numba, where its kernels run as the Python that they are: small inputs need no more."""

    def njit(self, *args: Any, **_: Any) -> Any:
        return args[0] if args else lambda function: function

    jit = njit

    def __getattr__(self, name: str) -> Any:
        return range if name == "prange" else getattr(sys.modules["numba"], name)


class _Watched(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's __init_subclass__
    """While torch's operations are watched, a formula runs as these, and compiles nothing."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # as in memory: the wrapper that skips it imports torch._dynamo

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def _as_operations(formula: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with _Watched():  # type: ignore[no-untyped-call]  # the same
            return formula(*args, **kwargs)

    return call


def formulas_in(room: Mapping[str, object], proposal: Proposal) -> list[str]:
    """The names of the ``gw.elementwise`` formulas that a proposal adds to the module."""
    elementwise = sys.modules.get("gradwright.kernels.elementwise")
    bound = [one.targets[0] for one in ast.parse(proposal.added).body if isinstance(one, ast.Assign)]
    names = [target.id for target in bound if isinstance(target, ast.Name)]
    return [name for name in names if elementwise and isinstance(room.get(name), elementwise.Elementwise)]


def uncompiled(room: Mapping[str, object], formulas: Collection[str] = ()) -> dict[str, Any]:
    """A copy of a namespace in which neither ``numba`` nor ``formulas`` compile: a twin each would cost seconds."""
    numba = sys.modules.get("numba")
    plain: dict[str, Any] = {
        name: _Uncompiled() if value is numba and numba is not None else value for name, value in room.items()
    }
    return plain | {name: _as_operations(plain[name]) for name in formulas}


def kernels_of(tree: ast.Module, proposal: Proposal) -> list[ast.stmt]:
    """The functions that a proposal adds to the module, where they stand in the new text."""
    added = {node.name for node in ast.parse(proposal.added).body if isinstance(node, ast.FunctionDef)}
    return [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in added]


def with_kernels(kernels: list[ast.stmt], path: str, room: Mapping[str, object]) -> dict[str, Any]:
    """A copy of a namespace with these functions executed in it. Raises: NotCompilableError."""
    mine = dict(room)
    _execute(kernels, path, mine, "what it adds to the module does not run")
    return mine


def no_tensors(room: Mapping[str, object]) -> set[str]:
    """Names of modules, classes and functions."""
    kinds = (types.ModuleType, type, types.FunctionType, types.BuiltinFunctionType)
    return {name for name, value in room.items() if isinstance(value, kinds)}


def class_node(tree: ast.Module, name: str, lines: tuple[int, int]) -> ast.ClassDef:
    """The definition of class ``name`` around ``lines``. Raises: NotCompilableError if there is none."""
    first, last = lines
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef) or node.name != name:
            continue
        if node.lineno <= first and last <= (node.end_lineno or last):
            return node
    raise NotCompilableError(f"no class {name} around lines {first} to {last}" if name else "the change is in no class")


def function_node(tree: ast.Module, name: str, lines: tuple[int, int]) -> ast.FunctionDef:
    """The definition of function ``name`` within ``lines``. Raises: NotCompilableError if there is none."""
    first, last = lines
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or node.name != name:
            continue
        if node.lineno <= last and first <= (node.end_lineno or first):
            return node
    raise NotCompilableError(f"no function {name} around lines {first} to {last}")


def make_class(
    tree: ast.Module, definition: ast.ClassDef, path: str, original: type, room: Mapping[str, object]
) -> Any:
    """Execute the class statement, decorators and all, where names mean what they mean to ``original``.

    Names that the original's methods close over keep their values. Raises: NotCompilableError.
    """
    mine = {**room, **closed_over(original)}
    _execute([*_future(tree), definition], path, mine, "the class can't be made alone")
    made = mine[definition.name]
    if not callable(getattr(made, "apply", None)):
        raise NotCompilableError(f"{definition.name} is no Function once made")
    return made


def make_function(
    tree: ast.Module, definition: ast.FunctionDef, path: str, original: types.FunctionType, room: Mapping[str, object]
) -> Any:
    """Execute a function's ``def`` where names mean what they mean to ``original``, also those it closes over.

    Marks of a method (``@staticmethod`` and the like) are left out; other decorators are executed.
    Raises: NotCompilableError.
    """
    marks = ("staticmethod", "classmethod", "property", "abstractmethod", "override")
    kept = [one for one in definition.decorator_list if not (isinstance(one, ast.Name) and one.id in marks)]
    plain = ast.FunctionDef(**{**dict(ast.iter_fields(definition)), "decorator_list": kept})
    values = _cells(original)
    arguments = ast.arguments([], [ast.arg(name) for name in values], None, [], [], None, [])
    body: list[ast.stmt] = [plain, ast.Return(ast.Name(definition.name, ast.Load()))]
    maker = ast.FunctionDef(_MAKER, arguments, body, [], lineno=definition.lineno, col_offset=0)
    if "type_params" in ast.FunctionDef._fields:
        maker.type_params = []  # type: ignore[attr-defined]  # Python 3.12 and later
    mine: dict[str, Any] = dict(room)
    _execute([*_future(tree), ast.copy_location(maker, definition)], path, mine, "the function can't be made alone")
    try:
        return mine[_MAKER](*values.values())
    except Exception as error:
        raise NotCompilableError(f"the function can't be made alone: {type(error).__name__}: {error}") from error


def _future(tree: ast.Module) -> list[ast.stmt]:
    return [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]


def _execute(body: list[ast.stmt], path: str, room: dict[str, Any], failing: str) -> None:
    module = ast.fix_missing_locations(ast.Module(body=body, type_ignores=[]))
    try:
        exec(compile(module, path, "exec", dont_inherit=True), room)
    except Exception as error:
        raise NotCompilableError(f"{failing}: {type(error).__name__}: {error}") from error


def closed_over(original: type) -> dict[str, object]:
    """The variables of enclosing functions that the methods of a class use."""
    found: dict[str, object] = {}
    for member in vars(original).values():
        function = inspect.unwrap(getattr(member, "__func__", member)) if callable(member) or _wraps(member) else None
        if isinstance(function, types.FunctionType):
            found |= {name: value for name, value in _cells(function).items() if name != "__class__"}
    return found


def _cells(function: types.FunctionType) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    return found


def _wraps(member: object) -> bool:
    return isinstance(member, staticmethod | classmethod)
