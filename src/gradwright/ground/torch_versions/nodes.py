"""What a node of a recorded graph says of itself: what it saved, what its outputs were, which class it belongs to."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks

from gradwright.errors import UnsupportedTorch
from gradwright.ground.torch_versions.capability import Capability, look_up, look_up_class

_NO_DEFAULT = object()


def _probe() -> str | None:
    x = torch.ones(3, 2, dtype=torch.float64, device="cpu").requires_grad_()
    product, total, sine = x.mm(x.t()), x.sum(1), x.sin()
    kept = read_saved(product.grad_fn, "mat2").shape == (2, 3) and read_saved(total.grad_fn, "dim") is not None
    kept = kept and has_saved(sine.grad_fn, "self") and not has_saved(sine.grad_fn, "no_such_name")
    (of_output,) = output_metadata(product.grad_fn)
    described = tuple(of_output.shape) == (3, 3) and of_output.dtype == torch.float64 and of_output.device.type == "cpu"
    twice: Any = Twice.apply(x)  # type: ignore[no-untyped-call]  # torch has no types here
    made = twice.grad_fn  # which up to torch 2.9 dies with its output
    owned = forward_class(made) is Twice and forward_class(sine.grad_fn) is None
    of_leaf = isinstance(made.next_functions[0][0], AccumulateGrad) and issubclass(type(made), backward_class(Twice))
    return None if kept and described and owned and of_leaf else f"its nodes say {kept, described, owned, of_leaf}"


class Twice(torch.autograd.Function):
    """Something to try."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, cotangent: Any) -> Any:
        return 2 * cotangent


#: Reading the nodes of a graph.
NODES = Capability("the nodes of a graph (node._saved_self, node._input_metadata)", "reading recorded graphs", _probe)

#: The node at a leaf, which adds to ``.grad``.
AccumulateGrad: Any = look_up_class("torch._C._functions.AccumulateGrad", NODES)
#: A function of torch's that makes a cotangent undefined on its way back.
UndefinedGrad: Any = look_up("torch._C._functions.UndefinedGrad", NODES)


class UnreadableNode(UnsupportedTorch):
    """A node that saves something under another name than the torch that its rule was written for.

    ``kind``: the node's class, as "MulBackward0".
    """

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"torch {torch.__version__} saves no {name!r} in {kind}, which is needed to read this graph")
        self.kind = kind


def read_saved(node: Any, name: str, default: Any = _NO_DEFAULT) -> Any:
    """What a node saved under ``name``, as torch's derivatives.yaml calls it: a tensor, a number, a list of them.

    Raises: UnreadableNode, where this torch saves nothing of that name and there is no ``default``; RuntimeError,
    where the graph was freed, or a saved tensor changed in place.
    """
    found = getattr(node, f"_saved_{name}", default)
    if found is _NO_DEFAULT:
        raise UnreadableNode(type(node).__name__, name)
    return found


def has_saved(node: Any, name: str) -> bool:
    """Whether a node has something saved under ``name``."""
    return hasattr(type(node), f"_saved_{name}")


def _probe_packed() -> str | None:
    x = torch.ones(2, dtype=torch.float64, device="cpu").requires_grad_()
    with saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor):
        through_hooks: Any = x.sin()
    as_it_is: Any = x.sin()
    said = [went_through_hooks(each.grad_fn._raw_saved_self) for each in (through_hooks, as_it_is)]
    return None if said == [True, False] else f"it says {said}"


def went_through_hooks(raw: Any) -> bool:
    return raw.unpack_hook is not None


#: Telling which saved tensors went through hooks, without calling them. Before, ``note_hooks`` is to be called.
PACKED = Capability(
    "SavedTensor.unpack_hook",
    "knowing what a loss is divided by where a script saves tensors through hooks",
    _probe_packed,
    since=(2, 10),
)
_were_hooks_met = False


def note_hooks(*, met: bool) -> None:
    """Whether somebody's ``saved_tensors_hooks`` were entered: from then on any saved tensor may have gone through."""
    global _were_hooks_met
    _were_hooks_met = met


def is_packed(node: Any, name: str) -> bool:
    """Whether what is saved under ``name`` went, or may have gone, through ``saved_tensors_hooks``: reading it would
    call them."""
    raw = getattr(node, f"_raw_saved_{name}", None)
    if raw is None or (PACKED.came_later and not _were_hooks_met):
        return False
    return not PACKED.is_there or went_through_hooks(raw)


def saved_names(node: Any) -> list[str]:
    """All names under which a node has something saved."""
    return [name.removeprefix("_saved_") for name in dir(node) if name.startswith("_saved_")]


def output_metadata(node: Any) -> Any:
    """Shape, dtype and device of each output of the operation that a node differentiates, which are those of the
    cotangents that it takes; None for one that is not differentiable."""
    return node._input_metadata


def has_output_metadata(node: Any) -> bool:
    return hasattr(node, "_input_metadata")


def forward_class(node: Any) -> Any:
    """The user's ``autograd.Function`` that a node, or the ctx of its backward, belongs to; None for torch's own."""
    return getattr(node, "_forward_cls", None)


def backward_class(function: type[torch.autograd.Function]) -> Any:
    """The class of the nodes that a Function records."""
    return function._backward_cls
