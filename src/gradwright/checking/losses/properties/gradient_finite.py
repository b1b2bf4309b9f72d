"""Is the gradient finite wherever the value is? A root at 0, a logarithm behind a clamp or a ``where`` give NaN.

Where the value is finite and the gradient is not, the loss looks well until the next step makes every parameter NaN
(kornia#918, optax#1267: focal losses with gamma below 1; pt#68425: ``where`` with a NaN on its other side).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from gradwright.checking.losses.case import Case
from gradwright.checking.losses.extremes import Point, extremes
from gradwright.checking.losses.properties.base import Answer, Property
from gradwright.checking.losses.shape import told
from gradwright.checking.trial import NotJudgeable


def run(case: Case) -> Iterator[Answer]:
    points = [Point("an ordinary prediction", case.sample, "", 1.0)]
    points += extremes(
        case.recognised.kind, case.sample, of_error=case.recognised.of_error, positive=case.recognised.positive
    )
    for dtype in dict.fromkeys((torch.float32, case.loss.dtype)):
        for point in points:
            try:
                value, gradient = case.loss.slope(point.sample, dtype)
            except NotJudgeable:
                continue
            except (RuntimeError, ValueError, TypeError, AssertionError, LookupError, ArithmeticError):
                continue  # refused: that is an answer too
            if not abs(value) < 1e30 or bool(torch.isfinite(gradient).all()):
                continue
            flat = gradient.reshape(-1)
            at = int((~torch.isfinite(flat)).nonzero()[0])
            yield PROPERTY.finding(
                case,
                "GW503",
                cause="not finite",
                message=f"has a gradient of {float(flat[at])} for {point.words}, where its value is {told(value)}",
                why=f"seen in {str(dtype).removeprefix('torch.')}, element {at} of the prediction: the value is finite "
                "on its way forward, and on the way back a factor is infinite (a root or a logarithm at 0, or the "
                "unused branch of a where or of a mask)",
                do="keep the argument away from where its derivative is infinite (add a small number, or clamp, before "
                "the root or the logarithm, in each branch of a where)",
                severity="info" if case.loss.shipped else "error",
                at=(point.sample,),
                dtype=dtype,
                value=value,
                gradient=str(float(flat[at])) if not math.isfinite(float(flat[at])) else float(flat[at]),
                element=at,
            )
            return


PROPERTY = Property(3, "gradient finite where the value is", "quick", {"GW503": "loss-gradient-not-finite"}, run)
