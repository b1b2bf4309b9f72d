"""A physics-informed network learns Burgers' equation, u_t + u u_x = nu u_xx, and is held against the exact solution.

nu = 0.01 / pi, u(x, 0) = -sin(pi x), u(-1, t) = u(1, t) = 0: the problem of Raissi, Perdikaris & Karniadakis 2019,
"Physics-informed neural networks", Journal of Computational Physics 378. A wave steepens until at x = 0 it falls from 1
to -1 within a hundredth. The network never sees the solution, only the equation: its residual at random points is to be
zero. The derivatives in it are asked for by their names (gw.penalties.partials).

    python examples/burgers/train.py [--steps 5000] [--seed 0] [--plot FILE.png] [--results FILE.json]
"""

import argparse
import importlib.util
import itertools
import json
import math
import os
import sys
import time

import torch
from torch import nn

import gradwright as gw

POINTS, ROUND = 2000, 500  # points of the residual; steps of L-BFGS until they are drawn anew
NU = 0.01 / math.pi


class Field(nn.Module):
    """u(x, t): -sin(pi x) at t = 0 and 0 at x = -1 and 1, whatever the weights; the equation is left to learn."""

    def __init__(self, width=20, depth=4):
        super().__init__()
        sizes = [2, *[width] * depth]
        layers = [layer for sides in itertools.pairwise(sizes) for layer in (nn.Linear(*sides), nn.Tanh())]
        self.body = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, xt):
        x, t = xt[:, :1], xt[:, 1:]
        return t * (1 - x**2) * self.body(torch.cat([x, 2 * t - 1], 1)) - (math.pi * x).sin()  # [N, 1]


def burgers(u, u_t, u_x, u_xx):
    return u_t + u * u_x - NU * u_xx


def residual(field, xt):
    """How far the field is from solving the equation, at each point (x, t): [N, 1]."""
    xt = xt.clone().requires_grad_()
    u = field(xt)
    d = gw.penalties.partials(u, wrt=xt, names="xt", of=("t", "x", "xx"))
    return burgers(u, d["t"], d["x"], d["xx"])


def anywhere(count):
    """Points (x, t) in [-1, 1] x [0, 1]."""
    return torch.rand(count, 2) * torch.tensor([2.0, 1.0]) - torch.tensor([1.0, 0.0])


def chosen(field):
    """One half anywhere, the other drawn from many in proportion to the residual: where the equation is not yet met."""
    many = anywhere(10 * POINTS)
    worst = torch.multinomial(residual(field, many).detach().abs().flatten(), POINTS // 2)
    return torch.cat([anywhere(POINTS - POINTS // 2), many[worst]])


def train(field, steps):
    """Adam for a start, then rounds of L-BFGS, each on points of its own.  Returns how often the loss was computed."""
    computed = 0
    points = anywhere(POINTS)

    def loss_and_gradient():
        nonlocal computed
        computed += 1
        optimizer.zero_grad()
        loss = residual(field, points).square().mean()
        loss.backward()
        return loss

    optimizer = torch.optim.Adam(field.parameters(), lr=3e-3)
    for _ in range(min(steps, ROUND)):
        loss = optimizer.step(loss_and_gradient)
    for done in range(0, steps, ROUND):
        points = chosen(field)
        optimizer = torch.optim.LBFGS(
            field.parameters(), max_iter=min(ROUND, steps - done), history_size=50, tolerance_grad=0,
            tolerance_change=0, line_search_fn="strong_wolfe",
        )  # fmt: skip
        optimizer.step(loss_and_gradient)
        loss = loss_and_gradient()
        print(f"step {min(done + ROUND, steps):5}   mean squared residual {loss.item():.1e}", flush=True)
    return computed


def held_against(field, exact, x, t):
    """The learnt field on the grid, float64, and {where: {column: value}}."""
    with torch.no_grad():
        learnt = field(torch.stack([x, t], -1).reshape(-1, 2).float()).double().reshape(x.shape)
    rows = {}
    for name, at in {"everywhere": slice(None), "t = 0.25": 25, "t = 0.50": 50, "t = 0.75": 75, "t = 1": 100}.items():
        error = learnt[at] - exact[at]
        rows[name] = {
            "relative_L2_error": f"{float(error.norm() / exact[at].norm()):.1e}",
            "largest_error": f"{float(error.abs().max()):.1e}",
        }
    return learnt, rows


def shown(title, rows):
    columns = list(next(iter(rows.values())))
    print(f"\n{title:40}" + "".join(f"{column.replace('_', ' '):>20}" for column in columns))
    for name, row in rows.items():
        print(f"  {name:38}" + "".join(f"{row[column]!s:>20}" for column in columns))


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is too few: give 1 or more")
    return number


def file_to_write(text):
    """Asked before the training, not behind it."""
    folder = os.path.join(os.path.dirname(text) or ".", "")
    if os.path.isdir(text) or not os.access(text if os.path.exists(text) else folder, os.W_OK):
        raise argparse.ArgumentTypeError(f"can't write to {text!r}: give a file, in a folder that can be written to")
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=positive, default=5000, help="of L-BFGS, after at most 500 of Adam (5000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--plot", type=file_to_write, metavar="FILE.png", help="learnt and exact at three times, and the error"
    )
    parser.add_argument("--results", type=file_to_write, metavar="FILE.json", help="the tables")
    options = parser.parse_args()
    missing = [name for name in ("numpy", *["matplotlib"] * bool(options.plot)) if not importlib.util.find_spec(name)]
    if missing:
        print(f"burgers/train.py needs {' and '.join(missing)}: pip install {' '.join(missing)}", file=sys.stderr)
        sys.exit(2)
    from exact import solution
    from step_cost import compared

    torch.manual_seed(options.seed)
    torch.set_num_threads(1)  # for so small a network more of them only get in each other's way
    field = Field()
    started = time.perf_counter()
    computed = train(field, options.steps)
    seconds = time.perf_counter() - started

    t, x = torch.meshgrid(torch.linspace(0, 1, 101).double(), torch.linspace(-1, 1, 257).double(), indexing="ij")
    exact = solution(x, t, NU)
    learnt, errors = held_against(field, exact, x, t)
    costs = compared(field, anywhere(POINTS), burgers)
    shown("against the exact solution", errors)
    shown(f"a step of {POINTS} points", costs)
    if options.plot:
        from drawn import draw

        draw(options.plot, x, t, learnt, exact)
    if options.results:
        tables = {"Burgers, against the exact solution": errors, "Burgers, a training step": costs}
        note = (
            f"Burgers: seed {options.seed}, {computed} times loss and gradient of {POINTS} points in {seconds:.0f} s; "
            "errors on 101 x 257 points. A training step is forward, loss and backward; MiB kept: what its graph holds "
            "for backward; times ours: CPU time of one thread, the median of the ratios within a turn."
        )
        with open(options.results, "w") as file:
            json.dump({"tables": tables, "notes": [note]}, file)


if __name__ == "__main__":
    main()
