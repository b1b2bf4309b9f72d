"""What it finds
    A plain function, or a method of an `nn.Module`, that is written as a backward (it takes a cotangent, computes with
    it and returns the result) and that nothing in the user's files ever names. Torch does not find a backward by its
    name: it calls the `backward` of an `autograd.Function`, and nothing else.

Why it matters
    The training runs without a word, on gradients that torch derived from the forward. If the function was meant to
    change them (to scale, clip or replace a gradient), it does not; if it was meant to speed them up, it does not.

When it is fine
    A function that is kept for tests or for other programs. A function that is named anywhere (called, handed to
    `register_hook` or to a `Function`, listed in `__all__`) is not reported.

The fix
    Put the two into a `torch.autograd.Function`, as static methods `forward(ctx, ...)` and `backward(ctx, ...)`, and
    use it through its `apply`. Delete the function if autograd's own gradient is what you want.

References
    The PyTorch note "Extending PyTorch", on `autograd.Function`.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import BuiltinAsTensor, PlainBackward
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW204", "backward-never-connected", "warning", needs=(PlainBackward, BuiltinAsTensor))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for plain in facts.of(PlainBackward):
        if plain.references:
            continue
        name = subject.name
        forward = plain.forward.replace("<locals>.", "")
        method = forward.endswith(".forward")
        why = "Torch does not look for a backward by its name: only the backward of an autograd.Function is called. "
        if forward:
            why += f"The gradient of {forward} is what autograd derives from its operations."
        else:
            why += "Whatever it was written for gets the gradient that autograd derives from its operations."
        hints = []
        if forward and method:
            hints.append(
                "move forward and backward into a torch.autograd.Function, as static methods that take ctx first, "
                "and call its apply in the module's forward"
            )
        elif forward:
            hints.append(
                f"make {forward} and {name} the forward and backward of a torch.autograd.Function, and call its apply"
            )
        else:
            hints.append("make it the backward of a torch.autograd.Function, and call the Function's apply")
        hints += [
            f"before you connect it: `{use.builtin}` in it is Python's builtin, not a tensor (line {use.location.line})"
            for use in _one_of_each(facts.of(BuiltinAsTensor))
        ]
        hints.append("delete it if autograd's own gradient is what you want")
        yield RULE.finding(
            subject,
            at=subject.location,
            message=f"nothing ever calls {name}: autograd uses its own gradient of {forward} instead"
            if forward
            else f"nothing ever calls {name}: it is written as a backward, but connected to nothing",
            why=why,
            hints=hints,
            evidence=[plain.id],
            severity="error" if forward else "warning",
        )


def _one_of_each(uses: Iterator[BuiltinAsTensor]) -> list[BuiltinAsTensor]:
    first: dict[str, BuiltinAsTensor] = {}
    for use in uses:
        first.setdefault(use.builtin, use)
    return list(first.values())
