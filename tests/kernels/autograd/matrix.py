"""Rows (what is reduced, masked, weighed) and cells (transforms) of the matrix; ``python matrix.py`` prints its table.

The formula has a branch that is NaN and whose slope is infinite where it is not taken; the reference hides that from
torch's autograd, which would hand it on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.utils.checkpoint import checkpoint

from gradwright.kernels.elementwise import elementwise

Function = Callable[[Tensor, Tensor], Tensor]
Cell = Callable[[Function, Tensor, Tensor], Any]

FORMULA = "q * where(e > 0.25, sqrt(e - 0.25), 0.5*e) + tanh(q * e)"
OPTIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "sum": {"reduction": "sum"},
    "mean": {"reduction": "mean"},
    "mean over dim": {"reduction": "mean", "dim": 1},
    "sum, keepdim": {"reduction": "sum", "dim": (0,), "keepdim": True},
    "mask": {"reduction": "mean"},
    "weight": {"reduction": "mean"},
    "weight and mask over dim": {"reduction": "mean", "dim": -1},
    "mask, none": {},
}
ROWS = list(OPTIONS)
SHAPE = (3, 4)


def point(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """e, with elements of both branches, and q, which is broadcast over its rows."""
    generator = torch.Generator().manual_seed(0)
    e = torch.randn(SHAPE, generator=generator, dtype=torch.float64)
    q = torch.rand(SHAPE[1:], generator=generator, dtype=torch.float64) + 0.5
    return e.to(dtype), q.to(dtype)


def extras(row: str, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    found = {}
    if "weight" in row:
        found["weight"] = torch.tensor([0.5, 2.0, 1.0, 0.25], dtype=dtype)
    if "mask" in row:
        found["mask"] = torch.tensor([[True, False, True, True], [False, True, True, False], [True, True, False, True]])
    return found


def ours(row: str) -> Function:
    f, more = elementwise(FORMULA, **OPTIONS[row]), extras(row)
    return lambda e, q: f(
        e=e, q=q, **{name: value.to(e.dtype) if name == "weight" else value for name, value in more.items()}
    )


def reference(row: str) -> Function:
    more, options = extras(row), OPTIONS[row]

    def function(e: Tensor, q: Tensor) -> Tensor:
        high = e > 0.25
        root = torch.where(high, e - 0.25, 1.0).sqrt()
        each = q * torch.where(high, root, 0.5 * e) + torch.tanh(q * e)
        weight, mask = more.get("weight"), more.get("mask")
        weight = weight if weight is None else weight.to(e.dtype)
        counts = torch.ones_like(each) if weight is None else weight.expand_as(each)
        each = each * counts
        if mask is not None:
            each, counts = torch.where(mask, each, 0.0), torch.where(mask, counts, 0.0)
        if "reduction" not in options:
            return each
        dim = options.get("dim", tuple(range(each.ndim)))
        total = each.sum(dim, keepdim=options.get("keepdim", False))
        return total / counts.sum(dim) if options["reduction"] == "mean" else total

    return function


def _weighed(value: Tensor) -> Tensor:
    """A scalar that depends on each element of the value differently."""
    return (value * torch.linspace(1.0, 2.0, max(value.numel(), 1), dtype=value.dtype).reshape(value.shape)).sum()


def _leaves(*tensors: Tensor) -> list[Tensor]:
    return [tensor.detach().clone().requires_grad_() for tensor in tensors]


def backward(f: Function, e: Tensor, q: Tensor) -> Any:
    leaves = _leaves(e, q)
    value = f(*leaves)
    return value, torch.autograd.grad(_weighed(value), leaves)


def one_input(f: Function, e: Tensor, q: Tensor) -> Any:
    leaf = q.detach().clone().requires_grad_()
    _weighed(f(e, leaf)).backward()
    return leaf.grad


def double_backward(f: Function, e: Tensor, q: Tensor) -> Any:
    leaves = _leaves(e, q)
    first = torch.autograd.grad(_weighed(f(*leaves)), leaves, create_graph=True)
    return torch.autograd.grad(sum(_weighed(g) for g in first), leaves)


def third_order(f: Function, e: Tensor, q: Tensor) -> Any:
    leaves = _leaves(e, q)
    found = torch.autograd.grad(_weighed(f(*leaves)), leaves, create_graph=True)
    found = torch.autograd.grad(sum(_weighed(g) for g in found), leaves, create_graph=True)
    return torch.autograd.grad(sum(_weighed(g) for g in found), leaves)


def _batch(tensor: Tensor) -> Tensor:
    return torch.stack([tensor, 0.5 * tensor, tensor.flip(-1)])


def backward_of_vmap(f: Function, e: Tensor, q: Tensor) -> Any:
    leaves = _leaves(_batch(e), q)
    return torch.autograd.grad(_weighed(vmap(f, (0, None))(*leaves)), leaves)


def forward_mode(f: Function, e: Tensor, q: Tensor) -> Any:
    with forward_ad.dual_level():
        dual = f(forward_ad.make_dual(e, e.cos()), forward_ad.make_dual(q, q.sin()))
        return tuple(forward_ad.unpack_dual(dual))


def backward_of_forward_mode(f: Function, e: Tensor, q: Tensor) -> Any:
    leaves = _leaves(e, q)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(f(forward_ad.make_dual(leaves[0], e.cos()), leaves[1])).tangent
        return torch.autograd.grad(_weighed(tangent), leaves)


def forward_mode_of_backward(f: Function, e: Tensor, q: Tensor) -> Any:
    leaf = e.detach().clone().requires_grad_()
    with forward_ad.dual_level():
        value = _weighed(f(forward_ad.make_dual(leaf, e.cos()), q))
        (found,) = torch.autograd.grad(value, leaf, create_graph=True)
        return forward_ad.unpack_dual(found).tangent


def batched_cotangents(f: Function, e: Tensor, q: Tensor) -> Any:
    leaves = _leaves(e, q)
    value = f(*leaves)
    return torch.autograd.grad(
        value, leaves, _batch(torch.ones_like(value)) if value.ndim else torch.ones(3).double(), is_grads_batched=True
    )


def compiled(f: Function, e: Tensor, q: Tensor) -> Any:
    torch._dynamo.reset()
    leaves = _leaves(e, q)
    value = torch.compile(f, fullgraph=True, backend="aot_eager")(*leaves)
    return value, torch.autograd.grad(_weighed(value), leaves)


def compiled_dynamic(f: Function, e: Tensor, q: Tensor) -> Any:
    torch._dynamo.reset()
    leaves = _leaves(e, q)
    value = torch.compile(f, fullgraph=True, backend="aot_eager", dynamic=True)(*leaves)
    return value, torch.autograd.grad(_weighed(value), leaves)


def compiled_transform(f: Function, e: Tensor, q: Tensor) -> Any:
    torch._dynamo.reset()
    return torch.compile(grad(lambda e: _weighed(f(e, q))), backend="aot_eager")(e)


class _Holder(torch.nn.Module):
    def __init__(self, f: Function, q: Tensor) -> None:
        super().__init__()
        self.f, self.q = f, torch.nn.Parameter(q)

    def forward(self, e: Tensor) -> Tensor:
        return self.f(e, self.q)


def in_a_module(f: Function, e: Tensor, q: Tensor) -> Any:
    module = _Holder(f, q)
    _weighed(module(e)).backward()
    per_sample = vmap(grad(lambda q, e: _weighed(functional_call(module, {"q": q}, (e,)))), (None, 0))(q, _batch(e))
    return module.q.grad, per_sample


def checkpointed(reentrant: bool) -> Cell:
    def cell(f: Function, e: Tensor, q: Tensor) -> Any:
        leaves = _leaves(e, q)
        value = checkpoint(lambda e, q: f(e * 1, q), *leaves, use_reentrant=reentrant)
        return value, torch.autograd.grad(_weighed(value), leaves) if not reentrant else _backward_on(value, leaves)

    return cell


def _backward_on(value: Tensor, leaves: list[Tensor]) -> list[Tensor | None]:
    _weighed(value).backward()
    return [leaf.grad for leaf in leaves]


def offloaded(f: Function, e: Tensor, q: Tensor) -> Any:
    with torch.autograd.graph.save_on_cpu():
        return backward(f, e, q)


def twice(f: Function, e: Tensor, q: Tensor) -> Any:
    leaves = _leaves(e, q)
    value = _weighed(f(*leaves))
    value.backward(retain_graph=True)
    value.backward()
    return [leaf.grad for leaf in leaves]


def accumulated(f: Function, e: Tensor, q: Tensor) -> Any:
    leaves = _leaves(e, q)
    for _ in range(5):
        (_weighed(f(*leaves)) / 4).backward()
    return [leaf.grad for leaf in leaves]


def same_twice(f: Function, e: Tensor, q: Tensor) -> Any:
    leaf = q.detach().clone().requires_grad_()
    return torch.autograd.grad(_weighed(f(leaf.expand(SHAPE), leaf)), leaf)


def without_graph(f: Function, e: Tensor, q: Tensor) -> Any:
    leaves = _leaves(e, q)
    with torch.no_grad():
        quiet = f(*leaves)
    with torch.inference_mode():
        inferred = f(*leaves)
    assert not quiet.requires_grad and inferred.is_inference()
    return quiet, inferred.clone()


def traced(f: Function, e: Tensor, q: Tensor) -> Any:
    return torch.jit.trace(f, (e, q), check_trace=False)(e.flip(0), q)


def exported(f: Function, e: Tensor, q: Tensor) -> Any:
    return torch.export.export(_Holder(f, q), (e,)).module()(e.flip(0))


def made_fx(f: Function, e: Tensor, q: Tensor) -> Any:
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(lambda e, q: backward(f, e, q))(e, q)(e.flip(0), q)


def strided(f: Function, e: Tensor, q: Tensor) -> Any:
    leaf = torch.empty(4, 6, dtype=e.dtype).t()[::2].copy_(e).detach().requires_grad_()
    value = f(leaf, q)
    return value, torch.autograd.grad(_weighed(value), leaf)


CELLS: dict[str, Cell] = {
    "backward": backward,
    "backward, one input": one_input,
    "backward twice": twice,
    "upstream 1/4, accumulated": accumulated,
    "one tensor in two places": same_twice,
    "strided": strided,
    "double backward": double_backward,
    "third order": third_order,
    "is_grads_batched": batched_cotangents,
    "no_grad, inference_mode": without_graph,
    "vmap": lambda f, e, q: vmap(f)(_batch(e), _batch(q)),
    "vmap, other axes": lambda f, e, q: vmap(f, (1, None), 0)(_batch(e).movedim(0, 1), q),
    "vmap of vmap": lambda f, e, q: vmap(vmap(f, (None, 0)), (0, None))(_batch(e), _batch(q)),
    "backward of vmap": backward_of_vmap,
    "grad": lambda f, e, q: grad(lambda e, q: _weighed(f(e, q)), (0, 1))(e, q),
    "vjp": lambda f, e, q: (lambda value, back: back(value.sin()))(*vjp(f, e, q)),
    "jvp": lambda f, e, q: jvp(f, (e, q), (e.cos(), q.sin())),
    "jvp, one input": lambda f, e, q: jvp(lambda e: f(e, q), (e,), (e.cos(),)),
    "jacrev": lambda f, e, q: jacrev(f, (0, 1))(e, q),
    "jacfwd": lambda f, e, q: jacfwd(f, (0, 1))(e, q),
    "hessian": lambda f, e, q: hessian(lambda e, q: _weighed(f(e, q)), (0, 1))(e, q),
    "jacfwd of jacfwd": lambda f, e, q: jacfwd(jacfwd(f, 1), 0)(e, q),
    "jacrev of jacrev": lambda f, e, q: jacrev(jacrev(f, 0), 1)(e, q),
    "jacrev of jacfwd": lambda f, e, q: jacrev(jacfwd(f))(e, q),
    "jacfwd of jacfwd of jacfwd": lambda f, e, q: jacfwd(jacfwd(jacfwd(f, 1), 1), 1)(e, q),
    "jvp of grad": lambda f, e, q: jvp(grad(lambda e: _weighed(f(e, q))), (e,), (e.cos(),)),
    "grad of jvp": lambda f, e, q: grad(lambda e: _weighed(jvp(lambda q: f(e, q), (q,), (q.sin(),))[1]))(e),
    "vmap of grad": lambda f, e, q: vmap(grad(lambda e, q: _weighed(f(e, q)), (0, 1)), (0, None))(_batch(e), q),
    "grad of vmap": lambda f, e, q: grad(lambda q: _weighed(vmap(f, (0, None))(_batch(e), q)))(q),
    "vmap of jvp": lambda f, e, q: vmap(lambda e: jvp(lambda q: f(e, q), (q,), (q.sin(),)))(_batch(e)),
    "vmap of hessian": lambda f, e, q: vmap(hessian(lambda e: _weighed(f(e, q))))(_batch(e)),
    "forward_ad": forward_mode,
    "backward of forward_ad": backward_of_forward_mode,
    "forward_ad of backward": forward_mode_of_backward,
    "torch.compile": compiled,
    "torch.compile, dynamic shapes": compiled_dynamic,
    "torch.compile of grad": compiled_transform,
    "torch.export": exported,
    "torch.jit.trace": traced,
    "make_fx": made_fx,
    "nn.Module, functional_call": in_a_module,
    "checkpoint": checkpointed(False),
    "checkpoint, reentrant": checkpointed(True),
    "saved_tensors_hooks": offloaded,
}


def same(found: Any, known: Any, dtype: torch.dtype) -> bool:
    """Equal in structure and, up to rounding, in numbers (NaN where NaN is known)."""
    if isinstance(known, Tensor):
        if not isinstance(found, Tensor) or found.shape != known.shape or found.dtype != known.dtype:
            return False
        near = 200 * torch.finfo(dtype).eps
        return torch.allclose(found.double(), known.double(), near, near, equal_nan=True)
    if isinstance(known, (tuple, list)):
        return len(found) == len(known) and all(same(a, b, dtype) for a, b in zip(found, known, strict=True))
    return known is None and found is None


def verdict(row: str, cell: str, function: Function | None = None) -> str:
    """ "right", "wrong", or "raises" with the first line of the error."""
    e, q = point()
    known = CELLS[cell](reference(row), e, q)
    try:
        found = CELLS[cell](function or ours(row), e, q)
    except Exception as error:
        return f"raises {type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    return "right" if same(found, known, torch.float64) else "wrong"


def table() -> str:
    head = f"| | {' | '.join(ROWS)} |\n|{'---|' * (len(ROWS) + 1)}\n"
    lines = [f"| {cell} | {' | '.join(verdict(row, cell).split()[0] for row in ROWS)} |" for cell in CELLS]
    return head + "\n".join(lines)


if __name__ == "__main__":
    print(table())
