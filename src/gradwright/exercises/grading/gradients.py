"""Is the gradient right? By ``gw.check``, which names the cause; then against the reference, on every drawn input."""

from __future__ import annotations

from gradwright.checking.report import CheckReport
from gradwright.exercises.grading.compared import difference
from gradwright.exercises.grading.learner import quiet
from gradwright.exercises.grading.tried import Tried, cotangent, vjp
from gradwright.exercises.outcome import NotYet

_LIMITS = 8.0  # gw.check calls the answer some hundred times, and has a time limit of its own


def ask_gradient(tried: Tried) -> str:
    """Raises: NotYet, with the finding of ``gw.check``, or the entry that differs."""
    _can_be_asked(tried)
    report = _checked(tried)
    worst, count = 0.0, 0
    for case in tried.cases():
        args, exact = case.args(), case.exact()
        leaves = case.leaves_of(args, tried.grading.arguments)
        if not leaves:
            continue
        got = tried.gradient(tried.call(case, args), leaves, case)
        reference = tried.grading.surrogate or tried.grading.reference
        truth = tried.grading.outcome(reference, exact)
        exact_leaves = case.leaves_of(exact, tried.grading.arguments)
        expected = vjp(truth, list(exact_leaves.values()), cotangent(tried.seed, truth))
        for (name, one), should in zip(got.items(), expected, strict=True):
            error, words = difference(one, should, case.tolerance)
            if words:
                raise NotYet(
                    f"the gradient of {tried.name} with respect to {name} is not right on {case.label}: {words}",
                    where=tried.where,
                    do="derive it on paper for one entry; the cotangent that arrives is not 1",
                )
            worst = max(worst, error)
        count += 1
    said = f"{count} inputs, worst difference {worst:.1g}"
    return said if report is None else f"gw.check: {len(report.done)} checks; {said}{_also(report)}"


def _can_be_asked(tried: Tried) -> None:
    """One backward: whether there is one, whether it ends, whether it raises."""
    case = tried.cases()[0]
    args = case.args()
    leaves, result = case.leaves_of(args, tried.grading.arguments), tried.call(case, args)
    if not result.requires_grad:
        raise NotYet(
            f"the result of {tried.name} has no graph: no gradient can be had of it",
            where=tried.where,
            do="is there a detach(), .data, .item(), .numpy() or no_grad() on the way?",
        )
    tried.gradient(result, leaves, case)


def _checked(tried: Tried) -> CheckReport | None:
    check = tried.grading.check
    if check is None:
        return None
    with tried.limits.during(f"gw.check({tried.name})", _LIMITS), quiet():
        report = check(tried.defined, tried.draws())
    for finding in report.findings:
        if finding.severity == "error":
            raise NotYet(
                finding.message,
                where=str(finding.location or tried.where).replace(str(tried.file.resolve()), tried.file.name),
                why=finding.why,
                do=finding.do,
                cause=finding.cause,
                code=f"{finding.code} {finding.name}",
            )
    return report


def _also(report: CheckReport) -> str:
    codes = dict.fromkeys(finding.code for finding in report.findings if finding.severity == "warning")
    return f"; it warns of {', '.join(codes)}" if codes else ""
