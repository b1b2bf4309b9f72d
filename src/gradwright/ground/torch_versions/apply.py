"""``Function.apply`` going forward, and what autograd calls going back: how each is called, and how it is replaced."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import Function
from torch.autograd.function import BackwardCFunction

from gradwright.ground.torch_versions.capability import Capability, look_up
from gradwright.ground.torch_versions.nodes import Twice

#: (torch's own call for this class, the class, args, kwargs) -> the result.
Forward = Callable[[Callable[..., Any], Any, tuple[Any, ...], dict[str, Any]], Any]
#: (torch's own call for this node, the node, cotangents) -> the gradients.
Backward = Callable[[Callable[..., Any], Any, tuple[Any, ...]], Any]


def _probe() -> str | None:
    seen: list[str] = []

    def forward(original: Any, cls: Any, args: Any, kwargs: Any) -> Any:
        seen.append(f"forward of {cls.__name__}")
        return original(*args, **kwargs)

    def backward(original: Any, node: Any, cotangents: Any) -> Any:
        seen.append(f"backward of {type(node).__name__}")
        return original(node, *cotangents)

    entry = Function.__dict__["apply"]
    restore = replace_apply(forward, backward)
    try:
        x = torch.ones((), dtype=torch.float64, device="cpu").requires_grad_()
        (gradient,) = torch.autograd.grad(Twice.apply(x), x)  # type: ignore[no-untyped-call]  # torch has no types here
    finally:
        restore()
    right = float(gradient) == 2.0 and Function.__dict__["apply"] is entry
    expected = ["forward of Twice", "backward of TwiceBackward"]
    return None if right and seen == expected else f"a call was seen as {seen}"


#: Watching custom Functions.
APPLY = Capability("Function.apply and BackwardCFunction.apply", "watching custom Functions", _probe)

#: What autograd calls of a node, one or several of them; the second name is there from torch 2.12 on.
_WAYS_BACK = ("apply", "apply_boxed")


def replace_apply(forward: Forward, backward: Backward) -> Callable[[], None]:
    """From now on every forward and backward of a custom Function goes through these two; returns what ends it.

    ``Function.apply`` lies in its class as a class method, which is written in Python up to torch 2.13 and in C from
    2.14 on; ``__get__`` binds either to a class. Dynamo knows a bound ``MyFunction.apply`` by the stand-in's name.
    Raises: UnsupportedTorch, where nothing is there that autograd could call of a node: unseen backwards would be
    taken for backwards that were never called.
    """
    ways_back = [name for name in _WAYS_BACK if name in BackwardCFunction.__dict__]
    if not ways_back or "apply" not in Function.__dict__:
        APPLY.missing = ["Function.apply"] if ways_back else [f"BackwardCFunction.{name}" for name in _WAYS_BACK]
        APPLY.require()
    original_apply: Any = Function.__dict__["apply"]

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return forward(original_apply.__get__(None, cls), cls, args, kwargs)

    apply.__name__, apply.__qualname__, apply.__doc__ = "apply", "Function.apply", original_apply.__doc__
    Function.apply = classmethod(apply)  # type: ignore[method-assign, assignment]  # that is what watching means
    restored = [functools.partial(setattr, Function, "apply", original_apply)]
    for name in ways_back:
        original = BackwardCFunction.__dict__[name]
        setattr(BackwardCFunction, name, _around(original, backward))
        restored.append(functools.partial(setattr, BackwardCFunction, name, original))

    def restore() -> None:
        while restored:
            restored.pop()()

    return restore


def _around(original: Callable[..., Any], backward: Backward) -> Callable[..., Any]:
    def apply(node: Any, *cotangents: Any) -> Any:
        return backward(original, node, cotangents)

    apply.__name__, apply.__doc__ = original.__name__, original.__doc__
    return apply


_TORCHS_APPLY = Function.__dict__["apply"]
_base: Any = look_up("torch._C._FunctionBase", APPLY)


def quick_apply(function: Any) -> Callable[..., Any]:
    """``function.apply`` without what torch does around it in Python (binding arguments, unwrapping dead levels), a
    third of the cost of a small call; nothing that replaced ``Function.apply`` sees it. The plain one, where this torch
    has no other."""
    entry = vars(_base).get("apply") if isinstance(_base, type) else None
    quick: Callable[..., Any] = function.apply if entry is None else entry.__get__(None, function)
    return quick


def is_apply_replaced() -> bool:
    """Whether somebody, such as the doctor, has put a stand-in in place of ``Function.apply``."""
    return Function.__dict__["apply"] is not _TORCHS_APPLY
