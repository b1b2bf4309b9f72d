"""A linear model of data with outliers: least squares against the Huber loss, watched in TensorBoard.

One in five of the targets is off by about fifteen standard deviations of the noise, all to one side. Least squares
follows each as far as it is off; of the Huber loss (Huber 1964) each pulls with delta at most. Delta comes from the
data: 1.345 times the noise, as the median of what least squares leaves tells it. Both train from zero on the same
data, two pieces an update. Loss, norm of the gradient and distance from the truth go to TensorBoard's event files:

    python examples/robust_regression/train.py --runs runs
    tensorboard --logdir runs

Without --runs they go to a temporary folder. The plot is drawn from what was written, read back.

    python examples/robust_regression/train.py [--seeds 5] [--runs FOLDER] [--plot FILE.png] [--results FILE.json]
"""

import argparse
import importlib.util
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

import gradwright as gw

SAMPLES, SIZE, PIECE, EVERY = 1000, 10, 500, 4
KINDS = {"no outliers": (0.0, 0.0), "outliers in y": (0.2, 0.0), "outliers in x and y": (0.2, 5.0)}
CURVES = {"error/parameters": "distance from the truth", "loss/loss": "loss", "gradient/norm": "norm of the gradient"}
COLOURS = {"least squares": "tab:orange", "Huber": "tab:blue"}

huber_formula = gw.elementwise("where(abs(p - y) > d, d * (abs(p - y) - d / 2), (p - y)**2 / 2)")


def measurements(seed, share, shift):
    """x [N, SIZE], y [N, 1], the truth [SIZE + 1], and which rows are outliers [N]: off in y, and by shift in x."""
    generator = torch.Generator().manual_seed(seed)
    truth = torch.randn(SIZE + 1, generator=generator)
    x = torch.randn(SAMPLES, SIZE, generator=generator)
    y = x @ truth[:-1] + truth[-1] + torch.randn(SAMPLES, generator=generator)
    outlier = torch.rand(SAMPLES, generator=generator) < share
    y = y + outlier * (15 + 3 * torch.randn(SAMPLES, generator=generator))
    return x + shift * outlier.unsqueeze(1), y.unsqueeze(1), truth, outlier


def parameters(model):
    """Slopes and intercept, [SIZE + 1]."""
    return torch.cat([model.weight.detach().flatten(), model.bias.detach()])


class Distance(gw.training.Monitor):
    """Draws how far the parameters are from the truth."""

    def __init__(self, model, truth):
        self.model, self.truth = model, truth

    def curves(self):
        return {"error/parameters": (parameters(self.model) - self.truth).norm().item()}


def train(x, y, truth, loss, updates, folder):
    """A linear model, by Adam; its curves go into ``folder``."""
    model = nn.Linear(SIZE, 1)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    curves = gw.training.Curves(folder, of=[Distance(model, truth)], every=EVERY)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    acc = gw.training.GradientAccumulator(
        model, optimizer, micro_batch_size=PIECE, normalize="samples", monitors=[curves]
    )
    for _ in range(updates):
        for window in acc.windows([(x, y)]):
            for inputs, target in window:
                acc.backward(loss(model(inputs), target), reduction="mean")
            acc.step()
    curves.close()
    return model


def noise(residual):
    """The standard deviation of what is no outlier: 1.4826 times the median distance from the median."""
    return 1.4826 * (residual - residual.median()).abs().median().item()


def solved(x, y):
    """Least squares without training, [SIZE + 1]."""
    return torch.linalg.lstsq(torch.cat([x, torch.ones(len(x), 1)], 1), y).solution.flatten()


def learnt(seed, kind, updates, runs):
    """The parameters by each way, the truth, and how far the formula is from the loss, in value and gradient."""
    x, y, truth, outlier = measurements(seed, *KINDS[kind])
    folder = runs / kind.replace(" ", "_") / f"seed_{seed}"
    squares = train(x, y, truth, lambda p, y: 0.5 * nn.functional.mse_loss(p, y), updates, folder / "least squares")
    delta = 1.345 * noise((y - squares(x)).detach())
    huber = gw.losses.HuberLoss(delta=delta)
    robust = train(x, y, truth, huber, updates, folder / "Huber")

    left, right = (robust(x).detach().requires_grad_() for _ in range(2))
    loss, own = huber(left, y), huber_formula(right, y, delta).mean()
    loss.backward()
    own.backward()
    apart = max(abs(loss.item() - own.item()), (left.grad - right.grad).abs().max().item())

    from sklearn.linear_model import HuberRegressor

    peer = HuberRegressor(epsilon=1.345, alpha=0.0, max_iter=1000).fit(x.numpy(), y.flatten().numpy())
    peers = torch.cat([torch.tensor(peer.coef_), torch.tensor([peer.intercept_])]).float()
    ways = {
        "least squares": parameters(squares),
        "least squares, solved": solved(x, y),
        "Huber": parameters(robust),
        "scikit-learn's HuberRegressor": peers,
        "least squares, outliers left out": solved(x[~outlier], y[~outlier]),
    }
    return ways, truth, apart


def read(folder):
    """The curves of a run from its event files: steps and values by tag."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return {tag: zip(*((one.step, one.value) for one in events.Scalars(tag)), strict=True) for tag in CURVES}


def plot(runs, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(CURVES), figsize=(10, 3.2))
    for folder in sorted((runs / "outliers_in_y").glob("seed_*/*")):
        curves = read(folder)
        for axis, tag in zip(axes, CURVES, strict=True):
            axis.plot(*curves[tag], color=COLOURS[folder.name], alpha=0.7)
    for axis, (tag, name) in zip(axes, CURVES.items(), strict=True):
        axis.set(title=name, xlabel=f"update ({tag})", yscale="log")
    axes[0].legend([pyplot.Line2D([], [], color=one) for one in COLOURS.values()], COLOURS)
    figure.tight_layout()
    figure.savefig(path, dpi=80)


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=positive, default=5)
    parser.add_argument("--updates", type=positive, default=300)
    parser.add_argument("--runs", type=Path, metavar="FOLDER", help="where the event files are kept")
    parser.add_argument("--plot", type=file_to_write, metavar="FILE.png")
    parser.add_argument("--results", type=file_to_write, metavar="FILE.json")
    args = parser.parse_args()
    needed = {"sklearn": "scikit-learn", "tensorboard": "tensorboard"} | (
        {"matplotlib": "matplotlib"} if args.plot else {}
    )
    missing = [package for module, package in needed.items() if importlib.util.find_spec(module) is None]
    if missing:
        names = " and ".join(missing)
        print(f"robust_regression/train.py needs {names}: pip install {' '.join(missing)}", file=sys.stderr)
        sys.exit(2)
    torch.set_num_threads(1)  # for so small a model more of them only get in each other's way

    with tempfile.TemporaryDirectory() as temporary:
        runs = args.runs or Path(temporary)
        table, apart = {}, 0.0
        for kind in KINDS:
            errors = {}
            for seed in range(args.seeds):
                ways, truth, difference = learnt(seed, kind, args.updates, runs)
                apart = max(apart, difference)
                for way, found in ways.items():
                    errors.setdefault(way, []).append((found - truth).norm().item())
            for way, each in errors.items():
                told = f"{statistics.median(each):.2f} ({min(each):.2f} to {max(each):.2f})"
                table.setdefault(way, {})[kind] = told
        if args.plot:
            plot(runs, args.plot)

    print(f"distance of the {SIZE + 1} parameters from the truth: median (least to most) of {args.seeds} data sets\n")
    print(" " * 34 + "".join(f"{kind:23}" for kind in KINDS))
    for way, row in table.items():
        print(f"{way:34}" + "".join(f"{told:23}" for told in row.values()))
    print(f"\nthe formula by gw.elementwise differs from losses.HuberLoss by at most {apart:.0e}")
    print(f"event files: {args.runs or 'in a temporary folder, gone now; --runs FOLDER keeps them'}")
    if args.results:
        notes = [f"Robust regression: distance of {SIZE + 1} parameters, {args.seeds} data sets of {SAMPLES} samples."]
        told = {"tables": {"Robust regression: distance from the truth": table}, "notes": notes}
        Path(args.results).write_text(json.dumps(told))


if __name__ == "__main__":
    main()
