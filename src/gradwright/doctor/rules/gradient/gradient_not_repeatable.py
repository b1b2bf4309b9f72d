"""What it finds
    A backward that gives another gradient, or an exception, when it is called twice on one graph (`retain_graph=True`),
    when the whole call is repeated, when another call of the Function comes in between, or when the random state has
    moved between forward and backward.

Why it matters
    Two losses on one graph, gradient checkpointing, accumulation and data-parallel training all do one of these. A mask
    that is drawn again in the backward is another mask than the forward's.

When it is fine
    A stochastic gradient estimator that says so: `@gw.surrogate(reason=...)`.

The fix
    Keep what the backward needs on `ctx`, unchanged; save the mask, or the generator's state and restore it; leave
    freeing to autograd.

References
    openai/guided-diffusion#167, allenai/OLMo-core#828 (recomputation without the random state).
"""

from collections.abc import Iterator

from gradwright.doctor.rules.flaws import told
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import Flaw, GradientVerdict
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW107", "gradient-not-repeatable", "error", needs=(Flaw, GradientVerdict))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    if any(verdict.cause == "state kept between calls" for verdict in facts.of(GradientVerdict)):
        return  # the run itself met it: GW101 says so
    yield from told(RULE, subject, facts)
