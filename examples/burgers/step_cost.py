"""What a training step costs with the derivatives taken three ways: operations, bytes kept for backward, time."""

import statistics
import time

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import gradwright as gw


def nested(field, xt):
    """A call of autograd.grad for each derivative, on x and t apart: as it is usually written."""
    x, t = xt[:, :1].clone().requires_grad_(), xt[:, 1:].clone().requires_grad_()
    u = field(torch.cat([x, t], 1))

    def d(y, z):
        return torch.autograd.grad(y, z, torch.ones_like(y), create_graph=True)[0]

    u_t, u_x = d(u, t), d(u, x)
    return u, u_t, u_x, d(u_x, x)


def shared(field, xt):
    """The fewest backwards, by hand: u_x and u_t come from one."""
    xt = xt.clone().requires_grad_()
    u = field(xt)
    first = torch.autograd.grad(u, xt, torch.ones_like(u), create_graph=True)[0]
    u_x, u_t = first[:, :1], first[:, 1:]
    return u, u_t, u_x, torch.autograd.grad(u_x, xt, torch.ones_like(u_x), create_graph=True)[0][:, :1]


def named(field, xt):
    xt = xt.clone().requires_grad_()
    u = field(xt)
    d = gw.penalties.partials(u, wrt=xt, names="xt", of=("t", "x", "xx"))
    return u, d["t"], d["x"], d["xx"]


WAYS = {"nested autograd.grad": nested, "fewest backwards, by hand": shared, "gw.penalties.partials": named}
OURS = "gw.penalties.partials"


class Operations(TorchDispatchMode):
    """Counts what reaches torch's kernels."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += 1
        return func(*args, **(kwargs or {}))


def counted(step):
    """(operations, bytes that the graph keeps for backward), the same in every run."""
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with Operations() as operations, torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        step()
    return operations.count, sum(kept.values())


def compared(field, points, residual_of, turns=20):
    """{way: {column: value}}: steps (forward, loss, backward) in turn, in CPU time; ratios within a turn."""
    weights = list(field.parameters())

    def step(way):
        return torch.autograd.grad(residual_of(*WAYS[way](field, points)).square().mean(), weights)

    wanted = torch.cat([gradient.flatten() for gradient in step("nested autograd.grad")])
    took = {way: [] for way in WAYS}
    for _ in range(turns):
        for way in WAYS:
            started = time.process_time()
            step(way)
            took[way].append(time.process_time() - started)
    rows = {}
    for way in WAYS:
        found = torch.cat([gradient.flatten() for gradient in step(way)])
        operations, kept = counted(lambda way=way: step(way))
        rows[way] = {
            "operations": operations,
            "MiB_kept": round(kept / 2**20, 2),
            "times_ours": round(statistics.median(a / b for a, b in zip(took[way], took[OURS])), 2),
            "gradient_differs": f"{float((found - wanted).norm() / wanted.norm()):.0e}",
        }
    return rows
