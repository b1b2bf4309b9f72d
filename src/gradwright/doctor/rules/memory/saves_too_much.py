"""What it finds
    A Function that saves twice the bytes it needs, or more: what it computed on the way, by elementwise operations of
    inputs that are saved, or could be in its place. At least 64 KiB a call, measured on a real call.

Why it matters
    What is saved stays in memory from the forward to the backward, for every layer of the net at once. To compute it
    again is a pass over memory. Mish saved its input, the softplus and the tanh: 2.9 times what the input takes.

When it is fine
    Where memory is no concern: what is saved is not computed twice. This is information, not a fault. Outputs that are
    saved are not reported: they live on anyway; nor is what a product, a convolution or a reduction has made.

The fix
    Save the inputs, and repeat the assignments in the backward. No change is offered as verified: alone, a Function
    takes longer so, and has as much memory at once while its backward runs; what is spared is held by the net's other
    layers meanwhile.

References
    digantamisra98/Mish#18; "In-place operations and saving memory" in Bulò et al., arXiv:1712.02616.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.costs import duration, size
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import FunctionCalls, SavedTooMuch
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW405", "saves-too-much", "info", needs=(SavedTooMuch, FunctionCalls))

_LEAST, _TIMES = 1 << 16, 2.0


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for seen in facts.of(SavedTooMuch):
        spared = seen.bytes - seen.needed_bytes
        if subject.origin == "library" or spared < _LEAST or seen.bytes < _TIMES * seen.needed_bytes:
            continue
        names, inputs = " and ".join(seen.names), " and ".join(seen.inputs)
        one = len(seen.names) == 1
        yield RULE.finding(
            subject,
            at=seen.location,
            message=f"{subject.name} saves {size(seen.bytes)} a call where {size(seen.needed_bytes)} would do: {names} "
            f"can be computed again of {inputs}",
            why=f"It is given {size(seen.given_bytes)} of tensors ({seen.tried_on}) and keeps {size(seen.bytes)} from "
            f"the forward to the backward. {names} {'is' if one else 'are'} made by elementwise operations alone: "
            f"{'; '.join(seen.statements)}.{_cost(facts, 'it' if one else 'them')}",
            hints=[f"save {inputs}, and repeat in the backward: {'; '.join(seen.statements)}"],
            evidence=[seen.id],
        )


def _cost(facts: Facts, what: str) -> str:
    calls = next(facts.of(FunctionCalls), None)
    if calls is None or not calls.forward_calls:
        return ""
    seconds = calls.forward_seconds / calls.forward_calls
    return f" To make {what} again takes no longer than the forward, {duration(seconds)}."
