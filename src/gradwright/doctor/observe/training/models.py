"""The models in sight: what they call a parameter, and where the layer that owns it is made."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass

from torch import Tensor, nn

from gradwright.doctor.observe.errors.spots import own_nodes, parsed, place_of
from gradwright.doctor.observe.training.holders import Held, in_sight
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.places import is_user_file, relative
from gradwright.ground.syntax import dotted
from gradwright.ground.torch_versions.modules import own_modules


@dataclass(frozen=True)
class Named:
    """A parameter as its model calls it, and where the text makes the layer (``None`` where that can't be told)."""

    name: str
    location: Location | None


def named(wanted: list[Tensor]) -> dict[int, Named]:
    """By the ids of the parameters: of the model in sight that has the most of them, then of the next one."""
    models: dict[int, tuple[nn.Module, list[Held]]] = {}
    for held in in_sight():
        if issubclass(type(held.value), nn.Module):
            models.setdefault(id(held.value), (held.value, []))[1].append(held)
    ids = {id(one) for one in wanted}
    owned = []
    for model, variables in models.values():
        parameters = {id(one): name for name, one in nn.Module.named_parameters(model)}
        owned.append((len(ids & set(parameters)), -len(parameters), model, variables, parameters))
    found: dict[int, Named] = {}
    for _, _, model, variables, parameters in sorted(owned, key=lambda item: item[:2], reverse=True):
        for one in ids & set(parameters) - set(found):
            found[one] = Named(parameters[one], _made_at(model, variables, parameters[one]))
    return found


def _made_at(model: nn.Module, variables: list[Held], name: str) -> Location | None:
    """The statement that sets the attribute of the innermost module whose class is the user's, or a variable."""
    best: tuple[nn.Module, str] | None = None
    module: nn.Module | None = model
    for attribute in name.split("."):
        if module is None:
            break
        if _is_users(type(module)):
            best = module, attribute
        module = own_modules(module).get(attribute)
    if best is not None and (found := _in_class(type(best[0]), best[1])) is not None:
        return found
    return next((place for held in variables if (place := _of_variable(held)) is not None), None)


def _is_users(cls: type) -> bool:
    file = _file_of(cls)
    return file is not None and is_user_file(file)


def _file_of(cls: type) -> str | None:
    try:
        return inspect.getsourcefile(cls)
    except (TypeError, OSError):
        return None


def _in_class(cls: type, attribute: str) -> Location | None:
    """``self.layers = ...`` in the class's text; the class's first line where no such statement stands there."""
    file = _file_of(cls)
    tree = parsed(file) if file is not None else None
    if file is None or tree is None:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
            for inner in ast.walk(node):
                targets = inner.targets if isinstance(inner, ast.Assign) else ()
                flat = [item for target in targets for item in getattr(target, "elts", None) or [target]]
                if any(dotted(item) == f"self.{attribute}" for item in flat):
                    return place_of(inner, file, relative(file))
            return Location(relative(file), node.lineno, place_of(node, file, relative(file)).column)
    return None


def _of_variable(held: Held) -> Location | None:
    """``model = ...`` in the function whose variable it is, or of the script."""
    file = held.frame.f_code.co_filename
    tree = parsed(file)
    if tree is None:
        return None
    names = {held.name, "self." + held.name.partition(".")[2]}
    line = held.frame.f_code.co_firstlineno
    inside = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    scopes: list[ast.AST] = [node for node in inside if line <= node.lineno and node.name == held.frame.f_code.co_name]
    for scope in [*scopes[:1], tree] if "." not in held.name else [tree]:
        nodes = ast.walk(scope) if "." in held.name else own_nodes(scope)
        for node in nodes:
            targets = node.targets if isinstance(node, ast.Assign) else ()
            if any(dotted(target) in names for target in targets):
                return place_of(node, file, relative(file))
    return None
