"""Every private name of torch's stands in one room, can be missing, and then costs what needs it and nothing else."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import gradwright
from gradwright.errors import UnsupportedTorch
from gradwright.ground import torch_versions
from gradwright.ground.torch_versions import capability
from gradwright.ground.torch_versions.capability import Missing, lacking
from gradwright.ground.torch_versions.listing import describe, try_everything

PACKAGE = Path(gradwright.__file__).parent
ROOM = PACKAGE / "ground" / "torch_versions"
FILES = sorted(info.name for info in pkgutil.iter_modules([str(ROOM)]) if info.name != "capability")

# Of Python, IPython, pytest and trainers; and what stands for torch's own in a class of ours.
NOT_TORCHS = {
    *(
        "_current_frames",
        "_filename_map",
        "_get_module_details",
        "_getframe",
        "_initializing",
        "_is_gil_enabled",
        "_tw",
    ),
    *("_loss_shifts_labels", "_trainer"),
}
STAND_INS = {("checking/context.py", "_forward_cls"), ("checking/context.py", "_backward_cls")}
# Examples of private operations: one that is gone is not tried, and what is suspected of it stays suspected.
EXAMPLES = "derivatives/suspicions/examples.py"


@cache
def trees() -> dict[str, ast.AST]:
    return {str(p.relative_to(PACKAGE)): ast.parse(p.read_text(encoding="utf-8")) for p in PACKAGE.rglob("*.py")}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


_LOOK_UP = ("look_up", "look_up_class", "look_up_variable")


def looked_up(file: str) -> Iterator[str]:
    """The dotted names that a file of the room looks up."""
    for node in ast.walk(trees()[f"ground/torch_versions/{file}.py"]):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in _LOOK_UP:
            yield ast.literal_eval(node.args[0])


NAMES = [(file, path) for file in FILES for path in looked_up(file)]


def names_of_torch() -> set[str]:
    """The underscored names that the room reads: of dotted paths, of attributes."""
    found = {part for _, path in NAMES for part in path.split(".") if is_private(part)}
    for file in FILES:
        for node in ast.walk(trees()[f"ground/torch_versions/{file}.py"]):
            if isinstance(node, ast.Attribute) and is_private(node.attr) and not _is_own(node):
                found.add(node.attr)
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("attrgetter", "getattr", "hasattr"):
                constants = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
                found |= {part for text in constants for part in str(text).split(".") if is_private(part)}
    return found


def _is_own(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def defined_here() -> set[str]:
    """Names that the package gives to what is its own."""
    found: set[str] = set()
    for tree in trees().values():
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
    return found


def foreign_uses(file: str, tree: ast.AST, torchs: set[str], own: set[str]) -> list[str]:
    """Private names of others that a file outside of the room uses."""
    found = []
    for node in ast.walk(tree):
        name, by_text = "", False
        if isinstance(node, ast.Attribute) and not _is_own(node):
            name = node.attr
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr", "setattr"):
            texts = [arg.value for arg in node.args[1:2] if isinstance(arg, ast.Constant)]
            name, by_text = (str(texts[0]), True) if texts else ("", False)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                if is_private(alias.name) and (getattr(node, "module", None) or "").startswith("torch"):
                    found.append(f"{file}:{node.lineno} {alias.name}")
        if not is_private(name) or name in NOT_TORCHS or (file, name) in STAND_INS:
            continue
        if name in torchs or name not in own or name.startswith("_saved_"):
            found.append(f"{file}:{node.lineno} {name}{' by its text' if by_text else ''}")  # type: ignore[attr-defined]
    return found


def test_private_names_of_torch_stand_in_the_room_alone() -> None:
    torchs, own = names_of_torch() - {"_disable"}, defined_here()
    outside = {file: tree for file, tree in trees().items() if not file.startswith("ground/torch_versions/")}
    del outside[EXAMPLES]
    assert len(NAMES) > 80 and {"_version", "_input_metadata", "_forward_cls", "_parameters"} <= torchs
    assert [use for file, tree in outside.items() for use in foreign_uses(file, tree, torchs, own)] == []


@pytest.mark.parametrize(
    "line",
    [
        "count = tensor._version",
        "kept = node._saved_self",
        "kept = getattr(node, '_saved_other', None)",
        "torch._foreach_add_(a, b)",
        "from torch.nn.modules.batchnorm import _BatchNorm",
        "own = getattr(module, '_parameters')",
    ],
)
def test_a_private_name_elsewhere_is_found(line: str) -> None:
    assert len(foreign_uses("losses/planted.py", ast.parse(line), names_of_torch(), defined_here())) == 1


def test_this_torch_has_everything_and_each_part_of_it_was_tried() -> None:
    assert [one for one in try_everything() if not one.came_later] == []
    assert describe().endswith("(it has all that Gradwright uses)") == (lacking() == [])
    assert all(one._tried for one in capability._all)


# --- each name taken away --------------------------------------------------------------------------------------------


def describe_without(path: str, file: str) -> str:
    """What a fresh copy of a file of the room says where torch has no ``path``, and what using the name raises."""
    real = capability.resolve

    def resolve(asked: str) -> Any:
        if asked == path:
            raise AttributeError(path)
        return real(asked)

    capability.resolve, known = resolve, list(capability._all)  # type: ignore[assignment]  # another parameter name
    name = f"{torch_versions.__name__}.{file}"
    before = sys.modules.pop(name)
    try:
        copy = importlib.import_module(name)
        (lacks,) = [one for one in lacking() if one not in known]
        assert lacks.missing == [path]
        with pytest.raises(UnsupportedTorch, match=f"has no {path}, which is needed for {lacks.serves}"):
            lacks.require()
        for thing in vars(copy).values():
            if isinstance(thing, Missing):
                with pytest.raises(UnsupportedTorch, match=lacks.serves):
                    thing()
        return lacks.serves
    finally:
        capability.resolve = real
        capability._all[:] = known
        sys.modules[name] = before
        setattr(torch_versions, file, before)


@pytest.mark.parametrize("file", FILES)
def test_without_a_name_its_file_loads_and_what_needs_it_says_so(file: str) -> None:
    importlib.import_module(f"{torch_versions.__name__}.{file}")
    for path in looked_up(file):
        if hasattr(sys.modules["torch"], "mps") or not path.startswith("torch.mps"):
            assert describe_without(path, file)


def test_a_name_that_means_something_else_is_found_by_its_trial() -> None:
    """One planted fault for each kind of trial: a probe that can't fail tries nothing."""
    import torch

    from gradwright.ground.torch_versions import engine, levels, modes, modules, nodes, operators, profiler, tensors
    from gradwright.ground.torch_versions import trees as pytrees

    planted = [
        (levels, "are_functorch_transforms_active", lambda: True, levels.TRANSFORMS),
        (levels, "forward_level", lambda: -1, levels.FORWARD),
        (levels, "get_unwrapped", lambda tensor: tensor, levels.LEVELS),
        (modes, "disable_current_modes", torch.no_grad, modes.DISPATCH),
        (modes, "push_on_torch_function_stack", lambda mode: None, modes.FUNCTIONS),
        (modes, "DisableTorchFunction", torch.no_grad, modes.UNSEEN),
        (modes, "is_any_autocast_enabled", lambda: False, modes.STATES),
        (modes, "set_grad_enabled_below", torch.set_grad_enabled, modes.SWITCH),
        (engine, "run_engine", lambda *args, **kwargs: (torch.zeros(2),), engine.ENGINE),
        (engine, "current_graph_task_id", lambda: -1, engine.TASKS),
        (engine, "top_saved_tensors_default_hooks", lambda ignore: None, engine.HOOKS),
        (engine, "next_sequence_number", lambda: 0, engine.SEQUENCE),
        (nodes, "AccumulateGrad", int, nodes.NODES),
        (nodes, "went_through_hooks", lambda raw: False, nodes.PACKED),
        (tensors, "version_of", lambda tensor: 0, tensors.TENSORS),
        (tensors, "is_functional_tensor", lambda tensor: False, tensors.FUNCTIONAL),
        (modules, "BatchNorm", int, modules.KINDS),
        (profiler, "list_allocations", lambda work: [], profiler.ALLOCATIONS),
        (tensors, "fft_c2c", lambda *args: torch.zeros(1, 4, dtype=torch.complex128), tensors.PRIVATE),
        (tensors, "make_wrapper_subclass", lambda cls, size, **kwargs: torch.zeros(size), tensors.SUBCLASSES),
        (operators, "CustomOpDef", type("CustomOpDef", (), {"__call__": len}), operators.CUSTOM),
        (operators, "overload_name", lambda operator: "default", operators.OPERATORS),
        (pytrees, "tree_leaves", list, pytrees.TREES),
    ]
    for module, name, other, tried in planted:
        again = capability.Capability(tried.name, tried.serves, tried._probe)
        real = getattr(module, name)
        setattr(module, name, other)
        try:
            assert again.find_fault() is not None, f"{tried.name} does not notice another {name}"
        finally:
            setattr(module, name, real)
            capability._all.remove(again)
        assert tried.find_fault() is None or tried.came_later


def test_trying_leaves_the_caller_as_it_was() -> None:
    import torch

    seen = []

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    state = torch.get_rng_state()
    with Mode(), torch.inference_mode(), torch.autocast("cpu"):
        for one in list(capability._all):
            again = capability.Capability(one.name, one.serves, one._probe)
            assert again.find_fault() is None or one.came_later, one.name
            capability._all.remove(again)
    assert not [func for func in seen if "autocast" not in str(func) and "inference" not in str(func)]
    assert torch.equal(torch.get_rng_state(), state)


def test_fakes_are_entered_first_by_the_thread_that_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What torch 2.10 and 2.11 set up at the first one, without a GPU, dies with its thread: the next one crashes."""
    from gradwright.ground.torch_versions.fakes import FakeTensorMode

    entered: list[int] = []
    enter = FakeTensorMode.__enter__

    def note(mode: Any) -> Any:
        entered.append(threading.get_ident())
        return enter(mode)

    monkeypatch.setattr(FakeTensorMode, "__enter__", note)
    with_fakes = set()
    try_everything()
    for one in list(capability._all):
        entered.clear()
        again = capability.Capability(one.name, one.serves, one._probe, settle=one._settle)
        again.find_fault()
        capability._all.remove(again)
        if entered:
            assert entered[0] == threading.get_ident(), one.name
            assert len(set(entered)) == 2  # and then by the one that tries
            with_fakes.add(one.name)
    assert with_fakes == {"torch._subclasses.FakeTensorMode", "torch.fx.experimental"}


def test_memory_is_measured_without_the_old_profiler_too(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from gradwright.ground.memory import memory_of
    from gradwright.ground.torch_versions import profiler

    def work() -> torch.Tensor:
        return (torch.zeros(1000) + torch.zeros(1000)).exp()

    before = memory_of(work, torch.device("cpu"))
    monkeypatch.setattr(profiler, "_before_kineto", None)
    assert memory_of(work, torch.device("cpu")) == before


def test_it_is_tried_where_no_thread_can_be_started_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: object) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(capability, "_all", [*capability._all])
    monkeypatch.setattr(threading.Thread, "start", refuse)
    tried: list[int] = []
    assert capability.Capability("an example", "a test", lambda: tried.append(1)).find_fault() is None  # type: ignore[func-returns-value]
    assert tried == [1]


WATCHED = """
import pathlib, sys, tempfile, torch
from gradwright.doctor.observe.clock import Clock
from gradwright.doctor.observe.watch import Watch
from gradwright.doctor.session.journal import Journal

before = set(sys.modules)
with Journal(pathlib.Path(tempfile.mkdtemp()) / "journal") as journal, Watch(journal, Clock()):
    pass
print([name for name in sorted(set(sys.modules) - before) if name.startswith(("torch", "sympy"))])
"""


def test_what_the_doctor_tries_at_the_start_of_every_script_loads_nothing_more_of_torch() -> None:
    """The first optimizer of a process loads Dynamo (2 s), the first tangent torch's decompositions (0.4 s)."""
    done = subprocess.run([sys.executable, "-c", WATCHED], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# --- each capability taken away --------------------------------------------------------------------------------------


def names_by_capability() -> list[tuple[capability.Capability, list[tuple[Any, str, str]]]]:
    """Each capability with what is looked up for it: (the thing, its dotted name, by which function)."""
    found: dict[int, tuple[capability.Capability, list[tuple[Any, str, str]]]] = {}
    for file in FILES:
        module = importlib.import_module(f"{torch_versions.__name__}.{file}")
        for one in vars(module).values():
            if isinstance(one, capability.Capability):
                found.setdefault(id(one), (one, []))
        for node in ast.walk(trees()[f"ground/torch_versions/{file}.py"]):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in _LOOK_UP:
                path, asker = ast.literal_eval(node.args[0]), vars(module)[node.args[1].id]  # type: ignore[attr-defined]
                found[id(asker)][1].append((capability.resolve(path), path, node.func.id))  # type: ignore[attr-defined]
    return list(found.values())
