"""A fix of a loop is a formula where that is clearly faster at the sizes of the run, and plain torch otherwise."""

import textwrap
from dataclasses import replace

import pytest
import torch
from tests.doctor.rewrite.loops.rewriting import PATH, namespace, rewritten, site_of, source_of

from gradwright.doctor.prove import Proved, prove_region
from gradwright.doctor.prove.timing import Timing
from gradwright.doctor.session.model import Candidate, Fix, Proof, Source, Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.entered import LoopUse
from gradwright.doctor.treatment import one_pass
from gradwright.doctor.treatment.one_pass import in_one_pass
from gradwright.doctor.treatment.trials import Trials, Tried
from gradwright.ground import clock
from gradwright.kernels.machine import compiling

TEXT = source_of(
    """
    total = 0.0
    for i in range(len(x)):
        total = total + torch.tanh(x[i] * x[i]) * x[i] + 0.5 * torch.sigmoid(x[i])
    return total
    """,
    "x",
)
PROOF = Proof("verified", ("float32 [8]",), 0.0, 1e-6, 20, 1.0, 0.001)
needs_kernels = pytest.mark.skipif(compiling.available() is not None, reason="formulas have no kernels here")


def entered(count):
    site = site_of(TEXT)
    subject = Subject(id="loop", kind="loop", name="f", location=Location(PATH, site.line, 1))
    x = torch.linspace(-3, 3, count).requires_grad_()
    return LoopUse(subject, site, PATH, entries=1, seconds=0.5, live_ins=[{"x": x}], globals=namespace(TEXT))


def source():
    return Source(path=PATH, sha256="", text=TEXT)


def first():
    plain = rewritten(TEXT, [torch.linspace(-3, 3, 6)])
    return Tried((Candidate(plain.rewrite, plain.diff),), Fix(plain.diff, PROOF), plain)


@pytest.fixture
def took(monkeypatch):
    """Called with the seconds of a contest, by ratio, and whether the formula holds; what is chosen then."""

    def chosen(ratio, held=True, count=20_000):
        timing = Timing(3e-4, 3e-4 / ratio, "float32 [20000]") if ratio else None
        monkeypatch.setattr(one_pass, "_contest", lambda *_: timing)
        proved = Proved(replace(PROOF, after_seconds=1e-4)) if held else "float32 [8]: it is another"
        trials = Trials(clock.now() + 100)
        return in_one_pass(first(), entered(count), source(), trials, lambda *_: proved)

    return chosen


@needs_kernels
def test_a_formula_that_is_clearly_faster_and_holds_is_taken_and_both_times_are_told(took):
    done = took(2.5)
    assert "elementwise(" in done.fix.diff and done.proposal.added
    assert done.fix.proof.on[-1] == "0.00012 s in one pass, 0.0003 s as torch's own operations (float32 [20000])"
    assert "one pass is faster: 0.00012 s" in done.candidates[0].counterexample
    assert done.candidates[1].counterexample is None


@needs_kernels
@pytest.mark.parametrize(
    ("ratio", "held", "why"),
    [(1.1, True, "it is not clearly faster: 0.000273 s"), (2.5, False, "it is another")],
)
def test_else_plain_torch_stays_and_the_reason_is_kept(took, ratio, held, why):
    done = took(ratio, held)
    assert done.fix == first().fix and why in done.candidates[-1].counterexample


@pytest.mark.parametrize("why", ["few elements", "it can't be timed", "an unsafe fix", "no fix", "no kernels"])
def test_nothing_more_is_tried_where_nothing_can_be_won(took, monkeypatch, why):
    if why == "no kernels":
        monkeypatch.setattr(compiling, "available", lambda: "not here")
    if why in ("an unsafe fix", "no fix"):
        fix = replace(first().fix, unsafe="somewhere") if why == "an unsafe fix" else None
        mine = replace(first(), fix=fix)
        monkeypatch.setattr(one_pass, "_formula", lambda *_: pytest.fail("it was written"))
        trials = Trials(clock.now() + 100)
        assert in_one_pass(mine, entered(20_000), source(), trials, lambda *_: "") is mine
        return
    done = took(None if why == "it can't be timed" else 2.5, count=200 if why == "few elements" else 20_000)
    assert done == first()


@needs_kernels
def test_both_forms_are_timed_on_what_the_loop_was_entered_with_and_the_formula_is_proved():
    use, tried = entered(100_000), first()
    formula = one_pass._formula(source(), tried.proposal)
    assert formula is not None
    timing = one_pass._contest(tried.proposal, formula, use, source())
    assert timing.on == "float32 [100000]" and min(timing.before, timing.after, timing.ratio) > 0

    def proof(one):
        return prove_region(one, use, TEXT, deadline=clock.now() + 60.0)

    found = proof(formula)
    assert isinstance(found, Proved) and not found.unsafe and found.proof.mutants_rejected >= 5
    wrong = [text.replace("0.5 *", "0.6 *") for text in (formula.new_text, formula.added)]
    assert isinstance(proof(replace(formula, new_text=wrong[0], added=wrong[1])), str)
    broken = textwrap.dedent(formula.new_text).replace("_f_formula(x)", "_f_formula(x, y)")
    assert one_pass._contest(tried.proposal, replace(formula, new_text=broken), use, source()) is None
