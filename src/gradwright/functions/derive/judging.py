"""Is what was written right? At other sizes, as a class, and by ``gw.check``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from gradwright.checking.check import check
from gradwright.checking.report import CheckReport, Level, NotChecked, in_order
from gradwright.errors import GradientError
from gradwright.functions.derive.derived import Derived
from gradwright.functions.derive.elsewhere import Variant, outcome, same_values, second_outcome, variants
from gradwright.functions.derive.forms import SizeGuard
from gradwright.functions.derive.subject import Subject
from gradwright.functions.derive.trace import Trace
from gradwright.ground.torch_versions import trees as pytree

VALUE, SECOND_ORDER, TRANSFORM = "GW101", "GW106", "GW214"
# NOTE [unbatched outputs]: torch's generated vmap rule (2.13) adds up the cotangent of an output that is not batched
# once too often, for any autograd.Function of several outputs: vmap(F.apply, in_dims=(0, None)) with
# forward(x, v) = (v.clone(), x * v) gives the gradient of v 4 + x.sum(0) for a batch of 2.
UNBATCHED = "in_dims=(0, None)"
TORCHS_FAULT = "torch's vmap rule does so to any autograd.Function with an output that isn't batched"


def judged(derived: Derived, subject: Subject, traced: Trace, level: Level) -> Derived:
    """The same, with the guards that it needs and the report that it passed.

    Raises: GradientError, with the finding, where it is not right.
    """
    if derived.rewritten and not same_values(subject):
        raise GradientError(
            f"derive rewrote {subject.label} to something else, by {', '.join(rule.name for rule in derived.rewritten)}"
        )
    derived.sizes = _guards(subject, traced, derived)
    _class_checked(subject, derived)
    derived.report = _checked(subject, traced, derived, level)
    if not derived.report.ok:
        raise GradientError(f"derive wrote a backward for {subject.label} that did not pass:\n{derived.report}")
    return derived


def _guards(subject: Subject, traced: Trace, derived: Derived) -> tuple[SizeGuard, ...]:
    """Sizes that the text has to refuse, found by trying."""
    guards: dict[SizeGuard, None] = {}
    known = set()
    for variant in variants(traced.graph):
        if variant.guard is not None and variant.guard in known:
            continue
        found = outcome(subject, derived.custom_gradient, variant)
        if variant.guard is None and found == "wrong":
            raise GradientError(
                f"derive wrote a backward for {subject.label} that is wrong at other sizes: "
                f"{', '.join(map(str, variant.shapes))}.\n{derived.source}"
            )
        if variant.guard is not None and (found == "wrong" or (found == "raises" and variant.unrolled)):
            known.add(variant.guard)
            guards[replace(variant.guard, early=found == "raises")] = None
    return tuple(guards)


def _class_checked(subject: Subject, derived: Derived) -> None:
    """The class is another text of the same: it is tried beside autograd, at the example's sizes."""
    here = Variant(tuple(tuple(tensor.shape) for tensor in subject.examples))
    if derived.has_class and outcome(subject, derived.function.apply, here) in ("wrong", "raises"):
        raise GradientError(
            f"derive wrote a class for {subject.label} that is not right:\n{derived.source_of_function()}"
        )


def _checked(subject: Subject, traced: Trace, derived: Derived, level: Level) -> CheckReport:
    """``gw.check``; where the gradient is on purpose no derivative, autograd's own is what it is held to.

    What autograd through the plain forward is found guilty of as well (NaN at a boundary) is told, as the forward's.
    """
    if not traced.surrogate:
        report = check(derived.custom_gradient, *subject.arguments, level=level)
        return report if report.ok else _without_inherited(subject, report, level, len(traced.graph.outputs) > 1)
    expect = _autograds_gradient(subject)
    report = check(derived.custom_gradient, *subject.arguments, level=level, expect=expect)
    if second_outcome(subject, derived.custom_gradient) == "wrong":
        return report
    kept = tuple(finding for finding in report.findings if finding.code != SECOND_ORDER)
    line = NotChecked("second order, by differences", f"{traced.surrogate}; held to autograd's instead")
    return replace(report, findings=kept, not_checked=(*report.not_checked, line))


def _without_inherited(subject: Subject, report: CheckReport, level: Level, several: bool) -> CheckReport:
    """The report, with the findings that the forward has under plain autograd turned into notes."""
    plain = check(subject.plain, *subject.arguments, level=level)
    known = {(finding.code, finding.input) for finding in plain.findings if finding.code != VALUE}
    told = []
    for finding in report.findings:
        if (finding.code, finding.input) in known:
            finding = replace(finding, severity="info", why=f"{finding.why}; so it is under plain autograd")
        elif finding.code == TRANSFORM and UNBATCHED in finding.message and several:
            finding = replace(finding, severity="info", why=f"{finding.why}; {TORCHS_FAULT}")
        told.append(finding)
    return replace(report, findings=in_order(told))


def _autograds_gradient(subject: Subject) -> Callable[..., Any]:
    """What a forward that detaches is held to: autograd's gradient, on purpose no derivative."""
    own = subject.signature

    def expected(grad_output: Any, *arguments: Any) -> tuple[torch.Tensor | None, ...]:
        given = dict(zip(own.parameters, arguments, strict=True))
        asked = [name for name, wanted in zip(own.tensors, own.wanted, strict=True) if wanted]
        leaves = {name: given[name].detach().requires_grad_(name in asked) for name in own.tensors}
        with torch.enable_grad():
            outputs = pytree.tree_leaves(subject.call(*leaves.values()))
        pairs = [(output, cotangent) for output, cotangent in zip(outputs, pytree.tree_leaves(grad_output), strict=True)
                 if output.requires_grad]  # fmt: skip
        found = torch.autograd.grad([pair[0] for pair in pairs], [leaves[name] for name in asked],
                                    [pair[1] for pair in pairs], allow_unused=True)  # fmt: skip
        by_name = dict(zip(asked, found, strict=True))
        return tuple(by_name.get(name) for name in own.parameters)

    return expected
