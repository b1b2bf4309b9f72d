"""The walk over a Python function: its parameters, what its names mean, and the functions that it calls."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Mapping
from functools import partial
from numbers import Real
from types import CodeType, FunctionType, ModuleType

from gradwright.errors import UsageError
from gradwright.kernels.formula.expression import constant, number
from gradwright.kernels.formula.functions import FUNCTIONS, Function
from gradwright.kernels.formula.known import known_as
from gradwright.kernels.formula.refused import refused_node, unknown_function
from gradwright.kernels.formula.scopes import Lookups, Unbound
from gradwright.kernels.formula.sources import Source, source_of
from gradwright.kernels.formula.statements import Missing, StatementWalk
from gradwright.kernels.formula.values import Value
from gradwright.kernels.formula.walk import Part, Steps


class FunctionWalk(StatementWalk):
    """Over ``function``, called by the functions ``callers`` (outermost first)."""

    def __init__(
        self,
        source: Source,
        function: FunctionType,
        lookups: Lookups,
        steps: Steps,
        callers: tuple[CodeType, ...] = (),
    ) -> None:
        super().__init__(source.written, steps, {})
        self.node = source.node
        self.function = function
        self.lookups = lookups
        self.callers = callers
        arguments = self.node.args
        for star in (arguments.vararg, arguments.kwarg):
            if star is not None:
                why = "how many inputs a formula has is for its definition to say"
                raise self.refusal(star, "it takes any number of arguments", why=why, do="name each input")
        self.by_place = [*arguments.posonlyargs, *arguments.args]
        self.parameters = [*self.by_place, *arguments.kwonlyargs]
        lookups.find(function, ())

    def defaults(self) -> dict[str, float]:
        """Raises UsageError for one that is no number."""
        found = {}
        for parameter, default in self._defaults().items():
            node = next(node for node in self.parameters if node.arg == parameter)
            found[parameter] = float(self._number_of(default, node, f"the default of `{parameter}`"))
        return found

    def result_for(self, values: Mapping[str, Value]) -> Part:
        """What the function returns, given its parameters' values."""
        self.local = dict(values)
        if isinstance(self.node, ast.Lambda):
            return (yield self.value(self.node.body))
        return (yield self.result(self.node.body))

    def result_for_inputs(self) -> Part:
        return self.result_for({parameter.arg: number(parameter.arg) for parameter in self.parameters})

    def name(self, node: ast.Name) -> Value:
        if self._is_local(node.id):
            value = self.local.get(node.id)
            if value is None:
                why = "nothing is assigned to it on the way here"
                raise self.refusal(node, f"`{node.id}` has no value yet", why=why, do="assign it before")
            if isinstance(value, Missing):
                why = f"the `if` in line {value.line} assigns it on one of its ways only"
                raise self.refusal(node, f"`{node.id}` may have no value", why=why, do="assign it on both, or before")
            return value
        return self._value_of(self._object(node), node)

    def attribute(self, node: ast.Attribute) -> Value:
        return self._value_of(self._object(node), node)

    def callee(self, node: ast.expr) -> Function | Callable[[ast.Call], Part]:
        called = self._object(node)
        ours = known_as(called)
        if ours is not None:
            return FUNCTIONS[ours]
        if isinstance(called, FunctionType):
            return partial(self._inlined, called)
        assert isinstance(node, (ast.Name, ast.Attribute))  # others have no object
        raise unknown_function(self.written, node, node.id if isinstance(node, ast.Name) else node.attr)

    def _inlined(self, function: FunctionType, node: ast.Call) -> Part:
        callers = (*self.callers, self.function.__code__)
        if function.__code__ in callers:
            why = "a formula has an end that does not depend on its numbers"
            raise self.refusal(node, f"`{function.__name__}` calls itself", why=why, do="write its steps out")
        walk = FunctionWalk(source_of(function), function, self.lookups, self.steps, callers)
        values: dict[str, Value] = {}
        for parameter, argument in self._arguments(walk, node).items():
            values[parameter] = yield self.value(argument)
        for parameter, default in walk._defaults().items():
            if parameter not in values:
                values[parameter] = self._value_of(default, node, f"the default of `{parameter}`")
        missing = [parameter.arg for parameter in walk.parameters if parameter.arg not in values]
        if missing:
            what = f"`{function.__name__}` gets no value for `{missing[0]}`"
            raise self.refusal(node, what, why="it has no default", do="give it")
        return (yield walk.result_for(values))

    def _arguments(self, walk: FunctionWalk, node: ast.Call) -> dict[str, ast.expr]:
        """The arguments of a call of another Python function, by its parameters' names."""
        name = walk.function.__name__
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                raise refused_node(self.written, argument)
        if len(node.args) > len(walk.by_place):
            why = f"it has {len(walk.by_place)} parameters that are given by place"
            raise self.refusal(node, f"`{name}` gets {len(node.args)} arguments", why=why, do="leave some out")
        found = {parameter.arg: given for parameter, given in zip(walk.by_place, node.args, strict=False)}
        by_name = [parameter.arg for parameter in walk.parameters[len(walk.node.args.posonlyargs) :]]
        for keyword in node.keywords:
            if keyword.arg not in by_name or keyword.arg in found:
                twice = keyword.arg in found
                what = f"`{name}` {'gets two values for' if twice else 'has no parameter'} `{keyword.arg or '**'}`"
                why = f"its parameters are {', '.join(parameter.arg for parameter in walk.parameters)}"
                raise self.refusal(keyword, what, why=why, do="give it each of them once")
            found[keyword.arg] = keyword.value
        return found

    def _defaults(self) -> dict[str, object]:
        by_place = self.function.__defaults__ or ()
        names = [parameter.arg for parameter in self.by_place]
        found = dict(zip(names[len(names) - len(by_place) :], by_place, strict=True))
        return found | (self.function.__kwdefaults__ or {})

    def _is_local(self, name: str) -> bool:
        code = self.function.__code__
        return name in code.co_varnames or name in code.co_cellvars

    def _object(self, node: ast.expr) -> object:
        """What a dotted name is bound to, outside of the function."""
        path: list[str] = []
        base = node
        while isinstance(base, ast.Attribute):
            path.append(base.attr)
            base = base.value
        if not isinstance(base, ast.Name):
            raise refused_node(self.written, base if path else node)
        path = [base.id, *reversed(path)]
        if self._is_local(base.id):
            thing = f"a method, `{path[-1]}`," if len(path) > 1 else f"`{base.id}`"
            why = f"`{base.id}` is a number here"
            raise self.refusal(
                node, f"{thing} can't be called or looked into", why=why, do="call a function: torch.exp(x)"
            )
        try:
            return self.lookups.find(self.function, tuple(path))
        except Unbound:
            raise self._unbound(node, path) from None

    def _unbound(self, node: ast.expr, path: list[str]) -> UsageError:
        name = ".".join(path)
        if len(path) > 1:
            why = "only what modules hold is looked up; what other objects hold may change, and getting it may run code"
            do = f"put it into a name first: {path[-1]} = {name}"
            return self.refusal(node, f"`{name}` can't be looked up", why=why, do=do)
        names = [*self.local, *self.function.__globals__, *self.function.__code__.co_freevars]
        near = difflib.get_close_matches(name, names, n=2)
        do = f"did you mean {' or '.join(near)}?" if near else "make it a parameter, or give it a value before"
        if name in FUNCTIONS:
            do = f"import it (from torch import {name}), or give the formula as a text"
        return self.refusal(node, f"there is no `{name}`", why="neither the function nor its module defines it", do=do)

    def _value_of(self, thing: object, node: ast.expr, called: str = "") -> Value:
        value = self._number_of(thing, node, called)
        return value if isinstance(value, bool) else constant(value)

    def _number_of(self, thing: object, node: ast.expr | ast.arg, called: str = "") -> float | bool:
        called = called or f"`{self.written.segment(node)}`" if isinstance(node, ast.expr) else called
        if isinstance(thing, bool):
            return thing
        if isinstance(thing, Real):
            try:
                return float(thing)
            except OverflowError:
                why = "float64 ends at 1.8e308"
                raise self.refusal(
                    node, f"{called} is too large", why=why, do="use inf, if infinity is meant"
                ) from None
        kind = "a module" if isinstance(thing, ModuleType) else f"an object of type {type(thing).__name__}"
        do = "use a number"
        if type(thing).__name__ in ("Tensor", "Parameter", "ndarray"):
            do = "make it an input, or use its .item()"
        elif callable(thing):
            kind, do = "a function", "call it"
        raise self.refusal(node, f"{called} is {kind}", why="a formula is of numbers", do=do)
