"""Physics-informed networks of Raissi, Perdikaris & Karniadakis 2019, with the losses of their code.

``nested``: a call of autograd.grad with ones and create_graph for each derivative by its name, on separate coordinate
tensors, as the authors' code and its PyTorch versions do it. ``shared``: by hand, the fewest backwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from gradwright.penalties import partials
from steps.task import Task, tanh_network


def d(u: Tensor, x: Tensor) -> Tensor:
    return torch.autograd.grad(u, x, grad_outputs=torch.ones_like(u), retain_graph=True, create_graph=True)[0]


def burgers(points: int, device: torch.device) -> Task:
    """u_t + u u_x - (0.01 / pi) u_xx = 0; 2 -> 8 x 20 tanh -> 1, N collocation points, 100 of data."""
    torch.manual_seed(0)
    nu = 0.01 / math.pi
    inside = torch.rand(points, 2, device=device) * torch.tensor([2.0, 1.0], device=device) - torch.tensor(
        [1.0, 0.0], device=device
    )
    edge = torch.rand(100, 2, device=device)
    value = -(math.pi * edge[:, :1]).sin()

    def loss(model: nn.Module, residual: Tensor) -> Tensor:
        return (model(edge) - value).square().mean() + residual.square().mean()

    def nested(model: nn.Module) -> Tensor:
        x, t = inside[:, :1].clone().requires_grad_(), inside[:, 1:].clone().requires_grad_()
        u = model(torch.cat([x, t], 1))
        u_t, u_x = d(u, t), d(u, x)
        return loss(model, u_t + u * u_x - nu * d(u_x, x))

    def shared(model: nn.Module) -> Tensor:
        xt = inside.clone().requires_grad_()
        u = model(xt)
        first = d(u, xt)
        u_x, u_t = first[:, :1], first[:, 1:]
        return loss(model, u_t + u * u_x - nu * d(u_x, xt)[:, :1])

    def functional(model: nn.Module) -> Tensor:
        along_x, along_t = torch.tensor([[1.0, 0.0], [0.0, 1.0]], device=device)[:, None].expand(2, *inside.shape)

        def by_x(xt: Tensor) -> Tensor:
            return torch.func.jvp(model, (xt,), (along_x,))[1]

        u, u_t = torch.func.jvp(model, (inside,), (along_t,))  # type: ignore[misc]  # annotated as with has_aux
        u_x, u_xx = torch.func.jvp(by_x, (inside,), (along_x,))  # type: ignore[misc]
        return loss(model, u_t + u * u_x - nu * u_xx)

    def ours(model: nn.Module) -> Tensor:
        xt = inside.clone().requires_grad_()
        u = model(xt)
        of = partials(u, wrt=xt, names="xt", of=("x", "t", "xx"))
        return loss(model, of["t"] + u * of["x"] - nu * of["xx"])

    def ours_apart(model: nn.Module) -> Tensor:
        x, t = inside[:, :1].clone().requires_grad_(), inside[:, 1:].clone().requires_grad_()
        u = model(torch.cat([x, t], 1))
        of = partials(u, wrt=(x, t), names="xt", of=("x", "t", "xx"))
        return loss(model, of["t"] + u * of["x"] - nu * of["xx"])

    model = tanh_network(2, *[20] * 8, 1).to(device)
    ways: dict[str, Callable[[nn.Module], Tensor]] = {
        "nested": nested,
        "shared by hand": shared,
        "torch.func, jvp of jvp": functional,
        "ours": ours,
        "ours, x and t apart": ours_apart,
    }
    return Task(f"Burgers PINN, N={points}", model, ways, ("ours", "ours, x and t apart"))


def diffusion(points: int, device: torch.device) -> Task:
    """u_t - (u_xx + u_yy + u_zz) / 100 = 0; 4 -> 8 x 20 tanh -> 1: a Laplacian in three of four coordinates."""
    torch.manual_seed(0)
    inside = torch.rand(points, 4, device=device)

    def nested(model: nn.Module) -> Tensor:
        x, y, z, t = (inside[:, k : k + 1].clone().requires_grad_() for k in range(4))
        u = model(torch.cat([x, y, z, t], 1))
        second = [d(d(u, place), place) for place in (x, y, z)]
        return (d(u, t) - 0.01 * (second[0] + second[1] + second[2])).square().mean()

    def shared(model: nn.Module) -> Tensor:
        xyzt = inside.clone().requires_grad_()
        first = d(model(xyzt), xyzt)
        second = [d(first[:, k], xyzt)[:, k] for k in range(3)]
        return (first[:, 3] - 0.01 * (second[0] + second[1] + second[2])).square().mean()

    def ours(model: nn.Module) -> Tensor:
        xyzt = inside.clone().requires_grad_()
        of = partials(model(xyzt), wrt=xyzt, names="xyzt", of=("t", "xx+yy+zz"))
        return (of["t"] - 0.01 * of["xx+yy+zz"]).square().mean()

    model = tanh_network(4, *[20] * 8, 1).to(device)
    ways: dict[str, Callable[[nn.Module], Tensor]] = {"nested": nested, "shared by hand": shared, "ours": ours}
    return Task(f"diffusion PINN, N={points}", model, ways, ("ours",))


def navier_stokes(points: int, device: torch.device) -> Task:
    """The cylinder wake: (x, y, t) -> 8 x 20 tanh -> stream function and pressure, derivatives up to the third."""
    torch.manual_seed(0)
    inside, speed = torch.rand(points, 3, device=device), torch.rand(points, 2, device=device)
    one, two = 1.0, 0.01

    def loss(u: Tensor, v: Tensor, f: Tensor, g: Tensor) -> Tensor:
        fit = (u - speed[:, :1]).square().sum() + (v - speed[:, 1:]).square().sum()
        return (fit + f.square().sum() + g.square().sum()) / points

    def nested(model: nn.Module) -> Tensor:
        x, y, t = (inside[:, k : k + 1].clone().requires_grad_() for k in range(3))
        out = model(torch.cat([x, y, t], 1))
        psi, p = out[:, :1], out[:, 1:]
        u, v = d(psi, y), -d(psi, x)
        u_t, u_x, u_y = d(u, t), d(u, x), d(u, y)
        u_xx, u_yy = d(u_x, x), d(u_y, y)
        v_t, v_x, v_y = d(v, t), d(v, x), d(v, y)
        v_xx, v_yy = d(v_x, x), d(v_y, y)
        p_x, p_y = d(p, x), d(p, y)
        f = u_t + one * (u * u_x + v * u_y) + p_x - two * (u_xx + u_yy)
        g = v_t + one * (u * v_x + v * v_y) + p_y - two * (v_xx + v_yy)
        return loss(u, v, f, g)

    def ours(model: nn.Module) -> Tensor:
        xyt = inside.clone().requires_grad_()
        out = model(xyt)
        of = ("x", "y", "xx", "xy", "yy", "xt", "yt", "xxx", "xxy", "xyy", "yyy")
        s = partials(out[:, :1], wrt=xyt, names="xyt", of=of)
        p = partials(out[:, 1:], wrt=xyt, names="xyt", of=("x", "y"))
        u, v = s["y"], -s["x"]
        f = s["yt"] + one * (u * s["xy"] + v * s["yy"]) + p["x"] - two * (s["xxy"] + s["yyy"])
        g = -s["xt"] + one * (-u * s["xx"] - v * s["xy"]) + p["y"] + two * (s["xxx"] + s["xyy"])
        return loss(u, v, f, g)

    model = tanh_network(3, *[20] * 8, 2).to(device)
    return Task(f"Navier-Stokes PINN, N={points}", model, {"nested": nested, "ours": ours}, ("ours",))
