"""``gw.explain_nonfinite``."""

from __future__ import annotations

from gradwright.checking.nonfinite.watch import NonfiniteWatch


def explain_nonfinite(*, echo: bool = True) -> NonfiniteWatch:
    """Inside this context, the first operation that is finite in and not finite out is found, forward or backward.

    It is told (on standard error, unless ``echo=False``) as soon as its NaN or inf has reached a loss that ``backward``
    is called on, or the gradient of a leaf: which operation at which line and column, which entry, what its operand
    and the gradient that arrived were there, and why. ``.first`` then holds it as data, ``.report`` as text. An inf
    that is masked out on the way, or that a gradient scaler skips, is nobody's fault and not told. After that, or where
    there is nothing, the context stays silent.

    It looks at what every operation returns and at every gradient between two nodes (``torch.autograd``'s anomaly mode
    looks for NaN only, in the backward only, and blames what follows an inf). No result changes, nothing is raised. Not
    seen: other threads, what ``torch.compile`` compiled, what runs under a dispatch mode or a transform of
    ``torch.func``; of a function of torch's that takes several steps, the call is told, and the cause where it shows.

    Cost: a sum of every result and gradient, read by the host (on an accelerator: a wait for each), and some
    microseconds per operation; less than anomaly mode for an MLP, a CNN and a transformer
    (``benchmarks/what_does_explaining_nonfinite_cost.py``). It is a look, and not for every day.

    >>> import torch
    >>> x = torch.zeros(3, requires_grad=True)
    >>> with explain_nonfinite(echo=False) as watch:
    ...     s = (x**2).sum()
    ...     torch.sqrt(s).backward()
    >>> watch.first.operation, watch.first.phase, watch.first.value
    ('sqrt (SqrtBackward0)', 'backward', 'inf')
    >>> print(watch.first.why)
    The slope of sqrt, 1 / (2 sqrt(x)), is infinite at 0
    """
    return NonfiniteWatch(echo=echo)
