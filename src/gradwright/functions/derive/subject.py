"""The forward that is derived: its name, its parameters, which of them are tensors, and how it is called with these."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from gradwright.functions.derive.forms import Signature
from gradwright.functions.derive.refuse import refusal

LITERALS = (int, float, bool, str, type(None), torch.dtype)


@dataclass
class Subject:
    """``call(*tensors)`` runs the forward with the example's other arguments fixed. ``examples``: the tensors."""

    forward: Callable[..., Any]
    signature: Signature
    examples: tuple[torch.Tensor, ...]
    call: Callable[..., Any]
    label: str
    arguments: tuple[Any, ...]
    plain: Callable[..., Any]  # the forward, with a signature that names its inputs
    stable: Callable[..., Any] | None = None  # ``call`` in its numerically stable form, if it was given one
    has_text: bool = True  # is the forward a function whose own text may be shown, with a signature to be read?

    @property
    def reference(self) -> Callable[..., Any]:
        """What autograd is run through, to judge by."""
        return self.stable or self.call


def pose(forward: Any, inputs: Sequence[Any], options: dict[str, Any]) -> Subject:
    """Raises: UsageError, for what is not callable, has no tensor input, or takes what can't be written down."""
    if isinstance(forward, type) and issubclass(forward, torch.autograd.Function):
        raise refusal(
            f"derive needs a forward; {forward.__name__} is an autograd.Function, whose gradient is its author's.",
            why="its forward may read a ctx, and runs without a graph",
            do="write its forward as a plain function and derive that",
        )
    if not callable(forward):
        raise refusal(
            f"derive needs a function of tensors, not {type(forward).__name__}.",
            why="it is run once, on tensors without data",
            do="give a function, or a module",
        )
    if isinstance(forward, torch.nn.Module):
        return _module(forward, inputs, options)
    bound = _bound(forward, inputs, options)
    subject = _posed(forward, _name(forward), bound, lambda values: forward(*values.args, **values.kwargs))
    subject.has_text = inspect.isfunction(forward)
    return subject


def _bound(forward: Any, inputs: Sequence[Any], options: dict[str, Any]) -> inspect.BoundArguments:
    try:
        signature = inspect.signature(forward)
    except (TypeError, ValueError):  # a builtin: its positions get names
        names = [f"x{place}" if len(inputs) > 1 else "x" for place in range(len(inputs))]
        positional = inspect.Parameter.POSITIONAL_ONLY
        signature = inspect.Signature([inspect.Parameter(name, positional) for name in names])
    try:
        bound = signature.bind(*inputs, **options)
    except TypeError as error:
        raise refusal(
            f"the example inputs don't fit {_name(forward)}{signature}: {error}",
            why="derive runs the forward once with them",
            do="give one example for each input without a default",
        ) from None
    bound.apply_defaults()
    return bound


def _module(module: torch.nn.Module, inputs: Sequence[Any], options: dict[str, Any]) -> Subject:
    """The module as a function of its inputs and its parameters."""
    bound = _bound(module.forward, inputs, options)
    parameters = {name.replace(".", "_"): name for name, _ in module.named_parameters()}
    if clash := set(parameters) & set(bound.arguments):
        raise refusal(
            f"{type(module).__name__} has a parameter and an input called {', '.join(sorted(clash))}.",
            why="both become inputs of the derived function, by name",
            do="rename one of them",
        )
    own = bound.signature
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if any(parameter.kind in variadic for parameter in own.parameters.values()):
        raise _variadic(type(module).__name__)
    plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
    merged = inspect.Signature([inspect.Parameter(name, plain) for name in [*own.parameters, *parameters]])
    values = {**bound.arguments, **{new: module.get_parameter(old) for new, old in parameters.items()}}
    whole = inspect.BoundArguments(merged, values)

    def call(given: inspect.BoundArguments) -> Any:
        swapped = {old: given.arguments[new] for new, old in parameters.items()}
        rest = inspect.BoundArguments(own, {name: given.arguments[name] for name in own.parameters})
        return torch.func.functional_call(module, swapped, rest.args, rest.kwargs)

    def forward(*args: Any, **kwargs: Any) -> Any:
        return call(merged.bind(*args, **kwargs))

    forward.__signature__ = merged  # type: ignore[attr-defined]
    forward.__name__ = _snake(type(module).__name__)
    forward.__module__ = type(module).__module__
    subject = _posed(forward, _snake(type(module).__name__), whole, call)
    subject.has_text = False
    if not any(isinstance(value, torch.Tensor) and value.requires_grad for value in bound.arguments.values()):
        own_inputs = set(bound.arguments)
        asking = [asked or (name in own_inputs and possible) for name, asked, possible in zip(
            subject.signature.tensors, subject.signature.wanted, subject.signature.possible, strict=True)]  # fmt: skip
        subject.signature = replace(subject.signature, wanted=tuple(asking))
    return subject


def _variadic(name: str) -> Exception:
    return refusal(
        f"{name} takes any number of arguments (*args or **kwargs).",
        why="the backward names what it saves",
        do="wrap it in a function that names its inputs: def forward(x, w): ...",
    )


def _posed(forward: Any, name: str, bound: inspect.BoundArguments, call: Callable[..., Any]) -> Subject:
    tensors: dict[str, torch.Tensor] = {}
    fixed: dict[str, str] = {}
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = []
    for key, value in bound.arguments.items():
        if bound.signature.parameters[key].kind in variadic:
            if not value:
                continue
            raise _variadic(name)
        parameters.append(key)
        if isinstance(value, torch.Tensor):
            tensors[key] = value
        elif isinstance(value, LITERALS) or _is_literal(value):
            fixed[key] = repr(value)
        else:
            raise refusal(
                f"the input {key} of {name} is a {type(value).__name__}.",
                why="what the backward depends on is written into its text: tensors by name, numbers by value",
                do="give tensors one by one, and other values as numbers, strings or tuples of them; or bind it with "
                "functools.partial",
            )
    if not tensors:
        raise refusal(
            f"{name} got no tensor.", why="a gradient is one of a tensor", do="give an example tensor for each input"
        )
    possible = [tensor.is_floating_point() or tensor.is_complex() for tensor in tensors.values()]
    asked = [tensor.requires_grad for tensor in tensors.values()]
    wanted = asked if any(asked) else possible
    signature = Signature(name, tuple(parameters), fixed, tuple(tensors), tuple(wanted), tuple(possible))

    def of_tensors(*values: torch.Tensor) -> Any:
        whole = inspect.BoundArguments(bound.signature, dict(bound.arguments))
        whole.arguments.update(zip(tensors, values, strict=True))
        return call(whole)

    of_tensors.__wrapped__ = forward  # type: ignore[attr-defined]
    examples = tuple(tensor.detach() for tensor in tensors.values())
    arguments = tuple(bound.arguments[key] for key in parameters)

    def plain(*values: Any) -> Any:
        whole = inspect.BoundArguments(bound.signature, dict(bound.arguments))
        whole.arguments.update(zip(parameters, values, strict=True))
        return call(whole)

    named = [inspect.Parameter(key, inspect.Parameter.POSITIONAL_OR_KEYWORD) for key in parameters]
    plain.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    plain.__name__ = name
    return Subject(forward, signature, examples, of_tensors, name, arguments, plain)


def _is_literal(value: Any) -> bool:
    return type(value) in (tuple, list) and all(isinstance(item, LITERALS) or _is_literal(item) for item in value)


def _name(forward: Any) -> str:
    while hasattr(forward, "func") and not hasattr(forward, "__name__"):
        forward = forward.func
    found = getattr(forward, "__name__", type(forward).__name__)
    return found if found.isidentifier() and not keyword.iskeyword(found) else "forward"


def _snake(name: str) -> str:
    letters = [f"_{letter.lower()}" if letter.isupper() and place else letter.lower()
               for place, letter in enumerate(name)]  # fmt: skip
    return "".join(letters)
