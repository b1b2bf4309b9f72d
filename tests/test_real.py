"""What is said of published libraries, beside what was found by hand: tests/real/notes.md. Run by `make test-peers`;
`GRADWRIGHT_GOLDENS=rewrite make test-peers` rewrites the goldens.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from gradwright.doctor.session.facts import GradientVerdict
from gradwright.doctor.session.model import Report

pytestmark = pytest.mark.peers

REAL = Path(__file__).parent / "real"

RIGHT, UNKNOWN, SURROGATE = {"right"}, {"unknown"}, {"surrogate"}
NEARLY = {"right", "unknown"}  # right to a solver's tolerance, or beside numbers of any size: never "wrong"
NO_GRADIENT: set[str] = set()  # never called where a gradient could flow

# By script and Function, the words that are true of each of its inputs: of "*" if not by name.
TRUTHS: dict[str, dict[str, dict[str, set[str]]]] = {
    "entmax_attention": {
        "SparsemaxFunction": {"*": RIGHT},
        "SparsemaxLossFunction": {"*": RIGHT},
        "Entmax15Function": {"*": RIGHT},
        "EntmaxBisectFunction": {"*": RIGHT},
        "NormmaxBisectFunction": {"*": RIGHT},
        "BudgetBisectFunction": {"*": RIGHT},
    },
    "entmax_one_query": {"BudgetBisectFunction": {"*": {"wrong"}}},
    "kornia_essential": {"_NullSpaceBasis": {"*": UNKNOWN}},
    "kornia_focal": {"_TargetLogSoftmax": {"*": RIGHT}},
    "snntorch_leaky_operator": {"LeakySpikeOperator": {"*": UNKNOWN}},  # its backward raises
    "snntorch_spikes": {
        "FastSigmoid": {"*": SURROGATE},
        "ATan": {"*": SURROGATE},
        "SpikeTime.FirstSpike": {"*": SURROGATE | UNKNOWN},
    },
    "torchdiffeq_adjoint": {
        "OdeintAdjointMethod": {"*": NEARLY},
        "_UncheckedAssign": {"*": NO_GRADIENT},
        "_StitchGradient": {"*": NO_GRADIENT},
    },
    "torchdiffeq_event": {
        "_UncheckedAssign": {"value": NEARLY, "scratch": {"wrong", "unknown"}},
        "_StitchGradient": {"*": SURROGATE},
        "ImplicitFnGradientRerouting": {"*": SURROGATE | UNKNOWN},
    },
    "torchsde_adjoint": {"_SdeintAdjointMethod": {"*": NEARLY}},
}

# What a trial has no time for on a slow machine is unknown for that reason.
SLOW = {"torchsde_adjoint"}

# Memory that nobody wrote (torch.empty): what can be told beside it depends on what was left there.
UNWRITTEN = {("_UncheckedAssign", "scratch"), ("_UncheckedAssign", "value")}

# Errors and warnings, those about memory that nobody wrote aside.
FAULTS = {
    "entmax_one_query": [("GW101", "BudgetBisectFunction")],
    "snntorch_leaky_operator": [("GW201", "LeakySpikeOperator")],
    "snntorch_spikes": [("GW301", "SpikeTime.FirstSpike")],
}


def test_every_script_has_its_truths() -> None:
    scripts = {path.stem for path in REAL.glob("*.py")} - {"finite_differences"}
    assert scripts == set(TRUTHS)


@pytest.mark.parametrize("script", TRUTHS)
def test_what_is_said_of_a_library_is_true_and_looks_like_its_golden(
    script: str, gradwright: Callable, golden: Callable, tmp_path: Path
) -> None:
    called = gradwright("diagnose", str(REAL / f"{script}.py"), cwd=tmp_path)
    report = called.session
    assert report is not None and called.code in (0, 1), called.stderr
    functions = {subject.name: subject.id for subject in report.subjects if subject.kind == "function"}
    assert set(functions) == set(TRUTHS[script])
    for name, inputs in TRUTHS[script].items():
        verdicts = list(report.of(GradientVerdict, functions[name]))
        assert bool(verdicts) == any(inputs.values()), name
        for verdict in verdicts:
            true = inputs.get(verdict.input_name, inputs.get("*", set()))
            assert verdict.verdict in true, f"{name}, {verdict.input_name}: {verdict}"
    assert _faults(report, functions) == FAULTS.get(script, [])
    golden(_told(report, functions, script in SLOW), REAL / "goldens" / f"{script}.txt")


def _faults(report: Report, functions: dict[str, str]) -> list[tuple[str, str]]:
    """Code and Function of every error and warning, without what is said of unwritten memory."""
    verdicts = {fact.id: fact for fact in report.facts if isinstance(fact, GradientVerdict)}
    names = {subject: name for name, subject in functions.items()}
    unwritten = {fact.id for fact in verdicts.values() if (names.get(fact.subject), fact.input_name) in UNWRITTEN}
    return sorted(
        (finding.code, names.get(finding.subject, finding.subject))
        for finding in report.findings
        if finding.severity != "info" and not unwritten & set(finding.evidence)
    )


def _told(report: Report, functions: dict[str, str], slow: bool) -> str:
    """By Function and input the verdicts of all specimens: no number that another machine would round otherwise, and
    where it is ``slow``, not why a verdict is unknown."""
    lines = []
    for name, subject in functions.items():
        told: dict[str, set[str]] = {}
        for verdict in report.of(GradientVerdict, subject):
            word = verdict.verdict + (f" ({verdict.cause})" if verdict.cause else "")
            reason = "" if slow and verdict.verdict == "unknown" else verdict.reason
            told.setdefault(verdict.input_name, set()).add(word + (f": {reason}" if reason else ""))
        lines += [
            f"{name}, {given}: {'; '.join(sorted(words))}"
            for given, words in told.items()
            if (name, given) not in UNWRITTEN
        ]
        if not told:
            why = (item.why for item in report.not_examined if item.what == f"the gradient of {name}")
            lines.append(f"{name}: not examined: {next(why, '')}")
    return "\n".join(lines) + "\n"
