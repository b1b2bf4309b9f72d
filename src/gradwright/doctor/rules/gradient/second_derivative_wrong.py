"""What it finds
    A Function whose backward can be differentiated again and then gives a wrong second derivative, silently: finite
    differences of its backward say otherwise. A backward that refuses (`once_differentiable`, an exception) is honest.
    In a script that never asks for a graph of its gradients this is information.

Why it matters
    Gradient penalties, Hessians and implicit differentiation get terms that are missing, without a word. What the
    forward computed and kept on `ctx` has no graph, so its derivative counts as zero.

When it is fine
    When nobody ever differentiates twice; then say so with `@once_differentiable`.

The fix
    Save inputs and outputs with `ctx.save_for_backward` and compute intermediates in the backward again, in torch; or
    decorate the backward with `torch.autograd.function.once_differentiable`, which makes a second derivative an error.

References
    pytorch/pytorch#104040, #76185, #58509.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.flaws import told
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import Flaw, GradientCalls
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW106", "second-derivative-wrong", "error", needs=(Flaw, GradientCalls))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    asked = any(calls.create_graph for calls in facts.all(GradientCalls))
    yield from told(RULE, subject, facts, severity=None if asked else "info")
