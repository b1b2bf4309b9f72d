"""``gw.derive``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from gradwright.ground.torch_versions.capability import require

if TYPE_CHECKING:
    from gradwright.checking.report import Level
    from gradwright.functions.derive.derived import Derived


def derive(
    forward: Callable[..., Any],
    *example_inputs: Any,
    residuals: Literal["auto", "inputs"] = "auto",
    level: Level = "standard",
    **options: Any,
) -> Derived:
    """Write the backward of ``forward`` for you, as readable torch source, checked before you see it.

    ``forward``: a function of tensors, a module (its parameters become inputs), or one of torch's own functions.
    ``example_inputs``, ``options``: what it is called with; tensors that require a gradient get one, every
    floating-point tensor if none does. Sizes of the examples are symbols in the text, except sizes of 1; a size at
    which the text would be wrong raises. Other arguments (numbers, strings) are written into the text, which raises for
    other values. ``residuals``: "auto" saves as few bytes as autograd's time allows, and never more than autograd;
    "inputs" saves inputs alone and computes the rest again, so that second derivatives work. ``level``: of the
    ``gw.check`` that the result has to pass.

    Returns: a ``Derived``: ``print(it)`` shows the source, ``it.custom_gradient`` and ``it.function`` run it.
    Shapes, dtypes, devices: the text follows its inputs. Cost: a trace, milliseconds to seconds, and the check.
    Raises: UsageError, with the line, for a forward that can't be traced (a branch on a value, NumPy, ``item``);
    GradientError, with the finding, if what was written does not pass.
    Source: autograd's own formulas, traced by ``torch.fx``; the choice of residuals is a minimum cut (see ``cut``).

    >>> import torch
    >>> def cubed(x):
    ...     return x * x * x
    >>> derived = derive(cubed, torch.ones(3, dtype=torch.float64))
    >>> derived.saved, derived.saved_bytes, derived.report.ok
    (('x',), 24, True)
    >>> x = torch.tensor([2.0], requires_grad=True)
    >>> derived.custom_gradient(x).backward()
    >>> x.grad
    tensor([12.])
    """
    # loaded here: torch.fx and its symbolic shapes take seconds to import
    from gradwright.functions.derive.derived import Derived
    from gradwright.functions.derive.explained import explanation
    from gradwright.functions.derive.judging import judged
    from gradwright.functions.derive.subject import pose
    from gradwright.functions.derive.writing import written
    from gradwright.ground.torch_versions.fakes import FAKES
    from gradwright.ground.torch_versions.operators import OPERATORS
    from gradwright.ground.torch_versions.tracing import TRACING

    require(FAKES, OPERATORS, TRACING)
    subject = pose(forward, example_inputs, options)
    writing = written(subject, residuals == "inputs")
    derived = Derived(
        subject,
        writing.parts,
        explanation(subject, writing),
        tuple(writing.parts.saved),
        writing.choice.bytes,
        writing.autograd_bytes,
        writing.traced.captured,
        writing.rules,
        writing.traced.surrogate,
    )
    return judged(derived, subject, writing.traced, level)
