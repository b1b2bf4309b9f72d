"""The contract of a custom gradient: what its functions ask for, read from their signatures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gradwright.functions.custom_gradient.arguments import Parameters
from gradwright.functions.custom_gradient.messages import complaint, did_you_mean, listed, name_of, place_of, told
from gradwright.functions.custom_gradient.reading import handed_over, never_received, written_on

OUTPUT = "output"
_NAMED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class Rule:
    """A backward, a vjp or a jvp. ``role`` is its name in messages; after the cotangent (a jvp: the tangents) it is
    handed the values named ``wants`` by position, those named ``keywords`` by keyword."""

    function: Callable[..., Any]
    name: str
    where: str
    role: str
    wants: tuple[str, ...]
    keywords: tuple[str, ...]

    @classmethod
    def read(cls, function: Callable[..., Any], role: str, first: str = "cotangent") -> Rule:
        """Raises: UsageError, if it is no function, has no parameter for ``first``, or takes ``*args``."""
        if not callable(function):
            raise complaint(f"the {role} is a {type(function).__name__}", do="hand over a function")
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            raise complaint(
                f"the {role} {name_of(function)} has no signature to read",
                why="its signature says what is saved",
                do=f"wrap it: def backward({_first_name(first)}, x): return {name_of(function)}(...)",
            ) from None
        if not parameters or parameters[0].kind not in _NAMED:
            raise complaint(
                f"the {role} has no parameter for the {first}",
                where=place_of(function),
                do=f"make it the first one: def {name_of(function)}({_first_name(first)}, ...)",
            )
        for parameter in parameters[1:]:
            if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
                star = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else "**"
                raise complaint(
                    f"the {role} takes {star}{parameter.name}, which names nothing",
                    where=place_of(function),
                    why="its signature says what is saved",
                    do="name what it needs: inputs of the forward, `output`, residuals",
                )
        rest = parameters[1:]
        return cls(
            function,
            name_of(function),
            place_of(function),
            role,
            tuple(parameter.name for parameter in rest if parameter.kind in _NAMED),
            tuple(parameter.name for parameter in rest if parameter.kind is inspect.Parameter.KEYWORD_ONLY),
        )

    @property
    def names(self) -> tuple[str, ...]:
        return self.wants + self.keywords

    def run(self, first: Any, values: Mapping[str, Any]) -> Any:
        return self.function(
            first, *[values[name] for name in self.wants], **{name: values[name] for name in self.keywords}
        )


def _first_name(first: str) -> str:
    return "grad_output" if first == "cotangent" else first


@dataclass(frozen=True)
class Inputs:
    """The forward, its signature, what its text says: the inputs ``written`` on in place, the names of the
    ``residuals``, ``None`` where those are known at the first call only."""

    forward: Callable[..., Any]
    name: str
    where: str
    signature: inspect.Signature
    parameters: Parameters
    written: frozenset[str]
    residuals: frozenset[str] | None

    @classmethod
    def read(cls, forward: Callable[..., Any]) -> Inputs:
        """Raises: UsageError, if there is no signature, no input, an input called ``output``, or a residual called like
        an input or ``output``."""
        if not callable(forward) or isinstance(forward, type):
            raise complaint(
                f"the forward is {f'the class {forward.__name__}' if isinstance(forward, type) else told(forward)}",
                do="hand over a function of tensors: gw.custom_gradient(forward, backward)",
            )
        try:
            signature = inspect.signature(forward)
        except (TypeError, ValueError):
            raise complaint(
                f"{name_of(forward)} has no signature to read",
                why="the backward asks for inputs by name",
                do=f"wrap it: def forward(x): return {name_of(forward)}(x)",
            ) from None
        where, handed = place_of(forward), handed_over(forward)
        if not signature.parameters:
            raise complaint("the forward has no input", where=where, do="make what it is differentiated by an input")
        if next(iter(signature.parameters)) == "self":
            raise complaint(
                f"{name_of(forward)} is a method",
                where=where,
                why="tensors that `self` holds are no inputs: they would silently get no gradient",
                do="write a function of tensors, and call it from the method: self.weight becomes an argument",
            )
        if OUTPUT in signature.parameters:
            raise complaint(
                "an input of the forward is called `output`",
                where=where,
                why="in a backward's signature `output` means what the forward returned",
                do="give that input another name",
            )
        for name in sorted(handed or ()):
            if name == OUTPUT or name in signature.parameters:
                raise complaint(
                    f"the residual `{name}` has the name of {'the output' if name == OUTPUT else 'an input'}",
                    where=where,
                    why=f"a backward that names `{name}` would get one of two",
                    do="give the residual another name",
                )
        return cls(forward, name_of(forward), where, signature, Parameters(signature), written_on(forward), handed)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.signature.parameters)

    def require_known(self, rule: Rule) -> None:
        """Raises: UsageError, if the rule asks for what is no input, not ``output`` and no residual."""
        known = (*self.names, OUTPUT, *sorted(self.residuals or ()))
        for name in rule.names:
            if name in known or self.residuals is None:
                continue
            handed = f"; it hands over {listed(sorted(self.residuals))}" if self.residuals else ""
            raise complaint(
                f"the {rule.role} asks for `{name}`{did_you_mean(name, known)}",
                where=rule.where,
                why=f"the inputs of {self.name} are {listed(self.names)}{handed}",
                do=f"name an input or `output`, or hand it over: return ..., gw.residuals({name}={name}) "
                f"in {self.name}",
            )

    def require_received(self, rule: Rule) -> None:
        """Raises: UsageError, if the rule's text uses an input, an output or a residual that it is not handed, or a
        builtin in the place of a tensor."""
        known = frozenset((*self.names, OUTPUT, *(self.residuals or ())))
        for name, found, line in never_received(rule.function, known):
            first, *_ = inspect.signature(rule.function).parameters
            raise complaint(
                f"the {rule.role} uses `{name}`, which it is not handed: it finds {found}",
                where=f"{rule.where}, line {line}",
                why=f"{self.name} has an input of that name" if name in self.names else "",
                do=f"receive it: def {rule.name}({', '.join((first, *rule.names, name))})"
                if name in known
                else f"give `{name}` a meaning, or another name",
            )
