"""The picture: learnt and exact at three times, and the error everywhere."""

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt


def draw(path, x, t, learnt, exact):
    x, t, learnt, exact = (values.numpy() for values in (x, t, learnt, exact))
    figure, axes = plt.subplots(1, 4, figsize=(13, 3), width_ratios=[1, 1, 1, 1.5], layout="constrained")
    for axis, at in zip(axes, (25, 50, 75)):
        axis.plot(x[at], exact[at], color="tab:blue", label="exact")
        axis.plot(x[at], learnt[at], "--", color="tab:orange", label="learnt")
        axis.set(title=f"t = {t[at, 0]:.2f}", xlabel="x", ylim=(-1.15, 1.15))
    axes[0].set_ylabel("u")
    axes[0].legend(frameon=False)
    error = axes[3].pcolormesh(t, x, np.log10(np.abs(learnt - exact).clip(1e-6)), cmap="magma", rasterized=True)
    axes[3].set(title="log10 |learnt - exact|", xlabel="t", ylabel="x")
    figure.colorbar(error)
    figure.savefig(path, dpi=80)
