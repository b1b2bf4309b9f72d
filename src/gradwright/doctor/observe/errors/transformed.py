"""Whose derivative was missing: the Function that met a transform, or the operator that has no autograd formula."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from gradwright.doctor.observe.errors.scene import Clues, Scene
from gradwright.doctor.observe.errors.spots import walk
from gradwright.doctor.source.places import definition
from gradwright.ground.torch_versions.nodes import forward_class
from gradwright.ground.torch_versions.operators import OPDEFS, OpOverload, backward_of_custom, body_of_custom


def find_transformed(
    scene: Scene, clues: Clues, is_user_file: Callable[[str], bool], relative: Callable[[str], str]
) -> None:
    """Torch's own frames hold the class whose ``apply`` was called, and the operator behind a class of torch's."""
    operator: Any = None
    called: Any = None
    functions: list[type] = []
    for entry in walk(scene.trace):
        frame = entry.tb_frame
        module = frame.f_globals.get("__name__")
        if module == "torch._ops" and isinstance(frame.f_locals.get("self"), OpOverload):
            called = frame.f_locals["self"]
        if module == "torch._library.autograd":
            operator = frame.f_locals.get("op", operator or called)  # torch 2.11 names it in the caller's frame only
        cls = frame.f_locals.get("cls") if frame.f_code.co_name == "apply" else None
        if isinstance(cls, type) and issubclass(cls, torch.autograd.Function):
            functions.append(cls)
        if module == "torch.autograd.function" and frame.f_code.co_name == "jvp":
            functions.append(forward_class(type(frame.f_locals.get("ctx"))) or torch.autograd.Function)
    users = [cls for cls in functions if not cls.__module__.startswith("torch.")]
    if operator is not None:
        _about_operator(operator, clues, is_user_file, relative)
    elif users:
        clues.add("function", users[-1].__qualname__.replace("<locals>.", ""))


def _about_operator(
    operator: Any, clues: Clues, is_user_file: Callable[[str], bool], relative: Callable[[str], str]
) -> None:
    """Its name as the user gave it, and the function that ``torch.library.custom_op`` made it of."""
    name = str(getattr(operator, "_name", operator)).removesuffix(".default")
    clues.add("operator", name)

    made = OPDEFS.get(name)
    body: Any = body_of_custom(made)
    clues.add("formula", "yes" if backward_of_custom(made) is not None else "")
    code = getattr(body, "__code__", None)
    if code is not None and is_user_file(code.co_filename):
        clues.add("defined_as", body.__name__)
        clues.cause = replace(definition(body), path=relative(code.co_filename))
