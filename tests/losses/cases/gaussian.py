"""The Gaussian negative log-likelihood."""

from functools import partial

from tests.losses.case import Case, drawn, normal, uniform
from torch.nn import functional as F

from gradwright.losses.distributions.gaussian_nll import gaussian_nll_loss


def _variance(*shape: int):
    return lambda generator, dtype: uniform(*shape)(generator, dtype) + 0.1


_EACH = drawn(normal(6, 7), normal(6, 7), _variance(6, 7))

CASES = [
    Case("gaussian nll", gaussian_nll_loss, F.gaussian_nll_loss, _EACH, wanted=3),
    Case("gaussian nll, full, a variance for each row, none", partial(gaussian_nll_loss, full=True, reduction="none"),
         partial(F.gaussian_nll_loss, full=True, reduction="none"),
         drawn(normal(6, 7), normal(6, 7), _variance(6, 1)), wanted=3),
    Case("gaussian nll, masked", lambda x, y, v: gaussian_nll_loss(x, y, v, mask=y > 0),
         lambda x, y, v: F.gaussian_nll_loss(x[y > 0], y[y > 0], v[y > 0]), _EACH),
]  # fmt: skip
