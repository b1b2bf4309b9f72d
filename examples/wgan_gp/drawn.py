"""The picture: real digits, generated ones, and the critic's distance between them while it learnt."""

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt


def grid(images, rows=8, columns=12):
    """[N, 64] -> one image of rows x columns digits, with a pixel between them."""
    framed = np.pad(images[: rows * columns].numpy().reshape(rows, columns, 8, 8), [(0, 0)] * 2 + [(0, 1)] * 2)
    return framed.transpose(0, 2, 1, 3).reshape(rows * 9, columns * 9)[:-1, :-1]


def draw(path, real, made, curve):
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.4), layout="constrained")
    for axis, title, images in zip(axes, ("real, unseen", "generated"), (real, made)):
        axis.imshow(grid(images), cmap="gray_r", vmin=-1, vmax=1, interpolation="nearest")
        axis.set(title=title, xticks=[], yticks=[])
    step, seen, unseen = zip(*curve)
    axes[2].plot(step, seen, label="to digits it learns from")
    axes[2].plot(step, unseen, label="to unseen ones")
    axes[2].set(title="the critic's distance", xlabel="step of the generator", ylim=(0, None))
    axes[2].legend(frameon=False)
    figure.savefig(path, dpi=80)
