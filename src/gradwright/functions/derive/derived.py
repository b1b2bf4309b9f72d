"""What ``gw.derive`` gives: a backward as text, as a custom gradient, and as a class."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from gradwright.checking.report import CheckReport
from gradwright.functions.custom_gradient import CustomGradient, custom_gradient
from gradwright.functions.derive.compose import Parts
from gradwright.functions.derive.forms import (
    Signature,
    SizeGuard,
    comment,
    forward_guards,
    function_class,
    plain_backward,
    plain_forward,
    residual_names,
)
from gradwright.functions.derive.refuse import refusal
from gradwright.functions.derive.running import run_text
from gradwright.functions.derive.simplify import Rule
from gradwright.functions.derive.subject import Subject
from gradwright.functions.surrogate import surrogate


@dataclass
class Derived:
    """A derived backward. Printed, it is its source.

    ``saved``: what the backward is handed, by name. ``saved_bytes``: their distinct storage for the example inputs;
    ``autograd_bytes``: what autograd keeps for the same. ``rewritten``: the stable forms that the
    forward was given, with their reasons. ``surrogate``: why the gradient is on purpose not the derivative, "" if it is
    one. ``report``: the check that it passed.
    """

    subject: Subject
    parts: Parts
    said: list[str]
    saved: tuple[str, ...]
    saved_bytes: int
    autograd_bytes: int
    captured: dict[str, torch.Tensor]
    rewritten: tuple[Rule, ...] = ()
    surrogate: str = ""
    report: CheckReport = field(init=False)
    _sizes: tuple[SizeGuard, ...] = ()

    @property
    def forward(self) -> Callable[..., Any]:
        return self.subject.forward

    @property
    def signature(self) -> Signature:
        return self.subject.signature

    @property
    def sizes(self) -> tuple[SizeGuard, ...]:
        """Sizes at which the text raises."""
        return self._sizes

    @sizes.setter
    def sizes(self, sizes: tuple[SizeGuard, ...]) -> None:
        self._sizes = sizes
        for made in ("source", "custom_gradient", "function"):
            vars(self).pop(made, None)

    @property
    def keeps_forward(self) -> bool:
        """Is the forward the user's own, as it is?"""
        handed = residual_names(self.parts, self.signature)
        changed = self.rewritten or handed or forward_guards(self.parts, self.sizes) or self.parts.returns_an_input
        return self.subject.has_text and not changed

    @cached_property
    def source(self) -> str:
        """Forward and backward as two plain functions, and the call that joins them."""
        name = self.signature.name
        forward = self._own_forward() if self.keeps_forward else None
        if forward is None:
            forward = plain_forward(self.parts, self.signature, self.sizes)
        blocks = [
            "\n".join(["import torch", "", "import gradwright as gw"]),
            "\n".join([*comment(self.said)]) + "\n" + "\n".join(forward),
            "\n".join(plain_backward(self.parts, self.signature, self.sizes)),
            f"{name} = gw.custom_gradient({name}, {name}_backward)",
        ]
        return "\n\n\n".join(blocks) + "\n"

    def _own_forward(self) -> list[str] | None:
        try:
            text = textwrap.dedent(inspect.getsource(self.forward))
        except (OSError, TypeError):
            return None
        if not text.startswith("def "):
            return None  # a lambda, a method, a module: written out from the graph instead
        return text.rstrip().splitlines()

    @cached_property
    def custom_gradient(self) -> CustomGradient:
        """The forward with its derived backward, called like the forward."""
        name = self.signature.name
        lines = plain_backward(self.parts, self.signature, self.sizes)
        if not self.keeps_forward:
            lines = [*plain_forward(self.parts, self.signature, self.sizes), "", "", *lines]
        names = run_text("\n".join(lines) + "\n", self.captured)
        made = custom_gradient(self.forward if self.keeps_forward else names[name], names[f"{name}_backward"])
        return surrogate(reason=self.surrogate)(made) if self.surrogate else made

    @property
    def has_class(self) -> bool:
        """Can it be a class? An autograd.Function returns a tensor or a tuple of tensors."""
        return self.parts.is_flat

    @cached_property
    def function(self) -> type[torch.autograd.Function]:
        """The class of :meth:`source_of_function`, compiled: ``derived.function.apply(x)``."""
        found: type[torch.autograd.Function] = run_text(self.source_of_function(), self.captured)[
            self.signature.class_name
        ]
        return found

    def source_of_function(self) -> str:
        """The text of an ``autograd.Function`` that needs torch alone.

        Raises: UsageError, if the forward returns lists or dicts, which an autograd.Function can't.
        """
        if not self.has_class:
            raise refusal(
                f"{self.signature.name} can't be an autograd.Function.",
                why="an autograd.Function returns a tensor or a tuple of tensors",
                do="use d.custom_gradient, which keeps the structure, or return a tuple",
            )
        lines = ["import torch", "", "", *comment(self.said), *function_class(self.parts, self.signature, self.sizes)]
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        return self.source

    def __repr__(self) -> str:
        return f"<derived {self.signature.name}: saves {', '.join(self.saved) or 'nothing'}, {self.saved_bytes} bytes>"
