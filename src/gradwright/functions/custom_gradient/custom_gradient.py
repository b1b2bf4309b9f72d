"""A gradient out of two plain functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch.compiler import is_dynamo_compiling

from gradwright.functions.custom_gradient.call import UNKNOWN, Call
from gradwright.functions.custom_gradient.closed import watched_once
from gradwright.functions.custom_gradient.compiled import compiled_function, each_once
from gradwright.functions.custom_gradient.contract import Inputs, Rule
from gradwright.functions.custom_gradient.eager import Apply, called, eager_apply
from gradwright.functions.custom_gradient.messages import complaint, did_you_mean, listed, place_of
from gradwright.functions.custom_gradient.mutated import require_untouched
from gradwright.functions.custom_gradient.pickled import leads_to, rebuilt
from gradwright.functions.custom_gradient.portable import portable_function, run
from gradwright.functions.custom_gradient.rules import Definition
from gradwright.functions.custom_gradient.trees import TENSOR
from gradwright.ground.declared import surrogate_reason
from gradwright.ground.torch_versions.capability import require
from gradwright.ground.torch_versions.dynamo import break_graph, uncompiled
from gradwright.ground.torch_versions.engine import TASKS, current_graph_task_id
from gradwright.ground.torch_versions.levels import (
    FORWARD,
    TRANSFORMS,
    are_functorch_transforms_active,
    forward_level,
    unwrap_if_dead,
)
from gradwright.ground.torch_versions.modes import STATES, UNSEEN
from gradwright.ground.torch_versions.tensors import TENSORS
from gradwright.ground.torch_versions.trees import TREES

F = TypeVar("F", bound=Callable[..., Any])


class CustomGradient:
    """A function with a gradient of its own; made by ``custom_gradient``, called like its forward.

    It has the forward's name, docstring and signature.
    """

    __name__: str
    __qualname__: str

    def __init__(self, forward: Callable[..., Any], backward: Callable[..., Any] | None = None) -> None:
        require(TRANSFORMS, FORWARD, STATES, UNSEEN, TASKS, TENSORS, TREES)
        self._definition = Definition(Inputs.read(forward), reason=surrogate_reason(forward))
        self._portable: Any = None
        self._compiled: Any = None
        self._eager: dict[tuple[type, ...], Apply] = {}
        self._watched: set[tuple[Any, ...]] = set()  # of what kinds of call a first one was
        functools.update_wrapper(self, forward)
        if backward is not None:
            self.backward(backward)

    @property
    def forward(self) -> Callable[..., Any]:
        return self._definition.inputs.forward

    def backward(self, function: F) -> F:
        """Give the backward, as a decorator: ``backward(cotangent, x, ...)``. Returns the function as it is."""
        rule = self._read(function, "backward")
        if self._definition.vjps:
            raise self._both(function)
        self._close(replace(self._definition, backward=rule))
        return function

    def vjp(self, name: str) -> Callable[[F], F]:
        """Give the gradient of one input, as a decorator: it is called only when that input needs a gradient."""
        known = self._definition.inputs.names
        if name not in known:
            raise complaint(
                f"vjp({name!r}) names no input{did_you_mean(name, known)}",
                where=self._definition.inputs.where,
                why=f"the inputs of {self._definition.name} are {listed(known)}",
                do="name one of them",
            )
        default = self._definition.inputs.signature.parameters[name].default
        if isinstance(default, (bool, int, float, str)):
            raise complaint(
                f"vjp({name!r}) is for an input that is never a tensor: its default is {default!r}",
                where=self._definition.inputs.where,
                do=f"leave it out, or make {name} a tensor without a default",
            )

        def take(function: F) -> F:
            rule = self._read(function, f"vjp({name!r})")
            if self._definition.backward is not None:
                raise self._both(function)
            if name in self._definition.vjps:
                raise complaint(f"two vjps for {name}", where=place_of(function), do="keep one of them")
            self._close(replace(self._definition, vjps={**self._definition.vjps, name: rule}))
            return function

        return take

    def jvp(self, function: F) -> F:
        """Give the forward-mode rule, as a decorator: ``jvp(tangents, x, ...)``. Returns the function as it is."""
        self._close(replace(self._definition, jvp=self._read(function, "jvp", "tangents")))
        return function

    def _read(self, function: Callable[..., Any], role: str, first: str = "cotangent") -> Rule:
        rule = Rule.read(function, role, first)
        self._definition.inputs.require_known(rule)
        self._definition.inputs.require_received(rule)
        return rule

    def _both(self, function: Callable[..., Any]) -> Exception:
        return complaint(
            f"{self._definition.name} is given both a backward and vjps",
            where=place_of(function),
            do="give one backward for all inputs, or a vjp for each",
        )

    def _close(self, definition: Definition) -> None:
        self._definition = definition
        self._eager = {}
        self._watched = set()
        self._portable = portable_function(definition)
        self._compiled = compiled_function(definition)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if is_dynamo_compiling():
            return self._traced(args, kwargs)
        if not kwargs and not are_functorch_transforms_active() and forward_level() < 0:
            types = (type(args[0]),) if len(args) == 1 else tuple(map(type, args))
            apply = self._eager.get(types)
            if apply is not None:
                if current_graph_task_id() >= 0:  # see NOTE [dead wrappers]
                    args = tuple(unwrap_if_dead(value) if isinstance(value, torch.Tensor) else value for value in args)
                result = apply(*args)
                if type(result) is tuple:
                    output = result[-1].output
                    return result[0] if output is TENSOR else output.fill(result)
                return result
        return self._opened(args, kwargs)

    def _complete(self) -> Definition:
        definition = self._definition
        if not definition.complete:
            raise complaint(
                f"{definition.name} has no backward yet",
                where=self._definition.inputs.where,
                do=f"give it one: @{definition.name}.backward above def _(grad_output, ...)",
            )
        return definition

    @uncompiled
    def _opened(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The general case: trees, keywords, torch.func, forward mode."""
        modes = (are_functorch_transforms_active(), forward_level())
        kind = (*modes, *map(type, args), *kwargs, *map(type, kwargs.values()))
        if kind not in self._watched:
            return self._first(kind, args, kwargs)
        return run(self._complete(), self._portable, args, kwargs)[0]

    @uncompiled
    def _first(self, kind: tuple[Any, ...], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The first call with such arguments, watched: see closed.py."""
        definition, strangers = watched_once(self._complete())
        types = tuple(map(type, args))
        general = bool(kwargs) or are_functorch_transforms_active() or forward_level() >= 0
        apply = None if general else eager_apply(definition, types, UNKNOWN)
        if apply is None:
            result, output = run(definition, portable_function(definition), args, kwargs)
        else:
            result, output = called(apply, args)
        if not strangers:
            self._watched.add(kind)
            if not kwargs and (apply := eager_apply(self._complete(), types, output)) is not None:
                self._eager[types] = apply
        return result

    def _traced(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Under Dynamo."""
        if are_functorch_transforms_active():
            # NOTE [compile of torch.func]: there Dynamo differentiates the forward and forgets the backward (pytorch
            # #193279). Outside of the graph it is right.
            break_graph("a custom_gradient under torch.func: Dynamo would drop its backward")
        call, leaves = Call.opened(self._complete(), args, kwargs)
        require_untouched(call)
        leaves = each_once(leaves)
        with torch.no_grad():  # outside of the Function, in which Dynamo of torch 2.9 takes no change to the Call
            pool = call.run(leaves)
        outputs = self._compiled.apply(call, *each_once(pool))
        return call.output.fill(outputs)

    @property
    def __gradwright_surrogate__(self) -> str | None:
        """Set by ``gw.surrogate``: the Functions behind it carry the reason too, for whoever meets them in a graph."""
        return self._definition.reason

    @__gradwright_surrogate__.setter
    def __gradwright_surrogate__(self, reason: str | None) -> None:
        self._close(replace(self._definition, reason=reason))

    @property
    def __gradwright_backward__(self) -> Callable[..., Any]:
        """Where the gradient is written, for gw.check: the backward, or the first vjp."""
        return next((rule.function for rule in self._definition.rules), self.forward)

    def __repr__(self) -> str:
        definition = self._definition
        given = "no backward yet"
        if definition.backward is not None:
            given = f"backward({', '.join(definition.backward.names)})"
        elif definition.vjps:
            given = f"vjps of {listed(definition.vjps)}"
        return f"<custom_gradient {definition.name}{definition.inputs.signature}, {given}>"

    def __reduce__(self) -> Any:
        """By qualified name where that leads back here, else by the names of its functions."""
        if leads_to(self):
            return self.__qualname__
        definition = self._definition
        rules = [(rule.role, rule.function) for rule in (*definition.rules, definition.jvp) if rule is not None]
        return rebuilt, (CustomGradient, self.forward, rules, surrogate_reason(self))

    def __copy__(self) -> CustomGradient:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> CustomGradient:
        return self  # like a function


def custom_gradient(forward: Callable[..., Any], backward: Callable[..., Any] | None = None) -> CustomGradient:
    """A function of tensors with the gradient that you give it.

    ``forward`` is a plain function; ``backward(cotangent, ...)`` is another, and its signature says what is kept for
    it, and nothing else is: inputs of the forward by their names, ``output`` for what it returned, and residuals that
    it hands over with ``return out, gw.residuals(mask=mask)``. Inputs and outputs may be tensors, or lists, tuples and
    dicts of them; anything else passes through.

    The cotangent comes in the structure of the output, zeros where an output was not used, ``None`` where one can't
    have a gradient (integers). Returned is one gradient for each input that can have one, in the order of the
    signature, in the structure of that input; ``None`` where it is zero, ``NotImplemented`` where none is implemented.
    Inputs that can't have one may be left out, or be given ``None``. A dict by input name will do as well. Shapes and
    dtypes: those of the inputs; under autocast dtypes are cast to them, and the backward runs under the autocast of its
    forward.

    As a decorator::

        @gw.custom_gradient
        def scaled(x, w, scale=1.0): ...

        @scaled.backward                   # or, per input and only when it needs one: @scaled.vjp("x")
        def _(grad_output, x, w, scale): return grad_output * w * scale, grad_output * x * scale

    Forward mode is derived, by transposing the backward; ``@f.jvp`` gives it by hand: ``jvp(tangents, x, ...)`` gets
    the tangent of the only input that can have one, or a tuple of them, each in the structure of its input, zeros
    where there is none, and returns tangents in the structure of the output. Second derivatives go through the
    backward: right for what it computes by torch operations from inputs and the output. Of a floating-point residual
    the derivative is had by running the forward again, if all inputs are named too; else it is refused.

    A tensor that the forward uses without taking it as an input would get no gradient. It is looked for at the first
    call for some types of arguments, where grad mode is on (not under torch.compile, and not behind NumPy).

    Cost: about that of a ``torch.autograd.Function`` written by hand; with residuals or several outputs up to 1.2 times
    that (benchmarks/what_does_a_custom_gradient_cost.py). The first call for some types of arguments takes longer.
    Raises: UsageError, at definition, where names, arity or the use of builtins can't be right; at the call, where the
    forward writes on an input, or uses a tensor that requires a gradient and is no input; in the backward, where
    number, shape or dtype of the gradients are wrong. NotImplementedError, which is a UsageError too, where an input
    needs a gradient and has ``NotImplemented`` in its place, or no vjp where others have one.

    >>> import torch
    >>> square = custom_gradient(lambda x: x * x, lambda grad_output, x: 2 * x * grad_output)
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> square(x).backward()
    >>> x.grad
    tensor(6.)
    """
    return CustomGradient(forward, backward)
