"""What it finds
    A call of `backward()` or `autograd.grad` on a tensor with more than one element (or on a complex one), without
    a cotangent, which ended in "grad can be implicitly created only for scalar outputs"; or `torch.func.grad` of a
    function that returns more than one number: "Expected f(*args) to return a scalar Tensor".

Why it matters
    The gradient of a vector is a Jacobian; `backward` computes one product of a cotangent with it. For a scalar
    that cotangent is 1. For a vector it is yours to choose: which weighted sum of the elements is the loss?

When it is fine
    Never as it stands, since the call raises. Several outputs differentiated on purpose take `gradient=` (of
    `backward`) or `grad_outputs=` (of `autograd.grad`).

The fix
    Reduce the loss to a scalar: `loss.mean().backward()`, or leave out `reduction="none"`. `loss.sum()` also works,
    but its gradient grows with the batch: the learning rate that suits it is the mean's divided by the number of
    elements. A complex loss needs a real value, such as `loss.abs()` or `loss.real`.

References
    torch.Tensor.backward and torch.autograd.grad in the PyTorch documentation; "A gentle introduction to
    torch.autograd", section on vector calculus.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.deaths import Death, bracketed, deaths, listed
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import ScriptDied
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule(
    "GW611",
    "gradient-of-non-scalar",
    "error",
    needs=(ScriptDied,),
    messages=(
        r"grad can be implicitly created only for scalar outputs",
        r"Expected f\(\*args\) to return a scalar [Tt]ensor, got tensor with (?P<dims>\d+) dims",
        r"grad can be (?:implicitly created|computed) only for real scalar outputs but got (?P<dtype>[\w.]+)",
    ),
)


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for death in deaths(RULE, facts):
        name, shape = death.clue("differentiated"), death.clue("shape")
        complex_dtype = death.caught("dtype")
        seen = f"{name or 'the differentiated tensor'} has shape {shape}" if shape else "the tensor is no scalar"
        if dims := death.caught("dims"):
            seen = f"the function returns a tensor with {dims} dimension{'s' * (dims != '1')}, not one number"
        if complex_dtype:
            seen = f"{name or 'the differentiated tensor'} is {complex_dtype.removeprefix('torch.')}, not real"
        yield RULE.finding(
            subject,
            at=death.where(subject),
            message=f"{death.expression}: {seen}",
            why="A complex number has no order, so there is nothing to descend on."
            if complex_dtype
            else "Only the gradient of one number is defined without a cotangent. Of several numbers it would be a "
            "Jacobian: torch does not guess how they add up to a loss.",
            hints=_hints(death, name or "loss", bool(complex_dtype)),
            evidence=[death.fact.id],
        )


def _hints(death: Death, name: str, is_complex: bool) -> Iterator[str]:
    short = bracketed(name if len(name) <= 40 else "", "loss")
    if is_complex:
        yield f"differentiate a real number: {short}.abs().mean() or {short}.real.mean()"
        return
    if death.caught("dims"):
        yield "reduce it where the function returns: .mean(), or .sum()"
        yield "or ask for what is meant: torch.func.jacrev for all derivatives, torch.func.vjp for one weighted sum"
        return
    if unreduced := death.clues("unreduced"):
        yield f'reduction="none" keeps one loss per element ({listed(unreduced)}): leave it out for the mean'
    if death.clue("api") == "autograd.grad":
        yield f"differentiate a scalar: {short}.mean(); {short}.sum() if each sample's own gradient is meant"
        yield f"or say which weighted sum is meant: grad_outputs=torch.ones_like({name})"
        return
    yield f"reduce it: {short}.mean().backward()"
    yield f"{short}.sum().backward() runs too, but its gradient grows with the number of elements, as would the step"
