"""Facts become findings. One rule per file, found by looking into the folders; no torch, and no rule imports a rule."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import itertools
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import Fact
from gradwright.doctor.session.model import Finding, Subject


@dataclass(frozen=True)
class LoadedRule:
    """A rule with its page and its judge."""

    rule: Rule
    page: str
    judge: Callable[[Subject, Facts], Iterator[Finding]]
    module: str


@functools.cache
def all_rules() -> tuple[LoadedRule, ...]:
    """Every rule, by code. Cost: imports the rule files once; none of them imports torch."""
    loaded = []
    for info in pkgutil.walk_packages(__path__, prefix=__name__ + "."):
        if info.ispkg:
            continue
        module = importlib.import_module(info.name)
        if isinstance(getattr(module, "RULE", None), Rule):
            judge = _silent if module.RULE.told_by else module.judge
            loaded.append(LoadedRule(module.RULE, module.__doc__ or "", judge, info.name))
    return tuple(sorted(loaded, key=lambda rule: rule.rule.code))


def _silent(subject: Subject, facts: Facts) -> Iterator[Finding]:
    yield from ()


def judge(
    subjects: Iterable[Subject],
    facts: Iterable[Fact],
    on_failure: Callable[[Rule, Subject, Exception], None] | None = None,
) -> list[Finding]:
    """Every finding of every rule, the root cause before what follows from it.

    ``on_failure``: is told of a rule that raises, which must not cost the others their findings; without it, it raises.
    """
    known = tuple(facts)
    findings: list[Finding] = []
    for subject, rule in itertools.product(subjects, all_rules()):
        try:
            findings += rule.judge(subject, Facts(known, subject))
        except Exception as error:
            if on_failure is None:
                raise
            on_failure(rule.rule, subject, error)
    return _causes_first(_last_resorts_last(findings))


def _last_resorts_last(findings: list[Finding]) -> list[Finding]:
    """Without the findings of a last resort whose evidence another rule explains."""
    last = {rule.rule.code for rule in all_rules() if rule.rule.last_resort}
    explained = {fact for finding in findings if finding.code not in last for fact in finding.evidence}
    return [finding for finding in findings if finding.code not in last or not explained.intersection(finding.evidence)]


def _causes_first(findings: list[Finding]) -> list[Finding]:
    causes = {rule.rule.code: rule.rule.causes for rule in all_rules()}
    present = {finding.code for finding in findings}
    roots: list[Finding] = []
    consequences: list[Finding] = []
    broken: set[str] = set()  # causes of errors, which are no mere warnings then
    for finding in findings:
        behind = [code for code in causes[finding.code] if code in present]
        if behind:
            note = f"this follows from {' and '.join(behind)}: mend that first"
            consequences.append(dataclasses.replace(finding, hints=(note, *finding.hints)))
            broken |= set(behind) if finding.severity == "error" else set()
        else:
            roots.append(finding)

    def depth(code: str) -> int:
        return 1 + max((depth(behind) for behind in causes[code] if behind in present), default=0)

    roots = [
        dataclasses.replace(root, severity="error") if root.code in broken and root.severity == "warning" else root
        for root in roots
    ]
    return roots + sorted(consequences, key=lambda finding: depth(finding.code))
