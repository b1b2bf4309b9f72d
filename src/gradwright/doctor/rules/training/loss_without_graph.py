"""What it finds
    A gradient asked of a tensor that no graph leads to: "element 0 of tensors does not require grad and does not
    have a grad_fn".

Why it matters
    Nothing that requires a gradient took part in the tensor, or its graph was cut on the way: by `.item()`,
    `.detach()`, `.data`, `float(...)`, `torch.tensor(...)`, NumPy, `torch.no_grad()`, a comparison or `argmax`.

When it is fine
    Never as it stands, since the call raises. In an evaluation there should be no `backward` at all.

The fix
    Keep tensors from the parameters to the loss: stack tensors with `torch.stack`, not `torch.tensor([...])`; use
    `.item()` only for what is printed. If the model is frozen, unfreeze what shall learn (`requires_grad_(True)`).
    `loss.requires_grad_()` silences the error and trains nothing.

References
    "Autograd mechanics" in the PyTorch documentation: locally disabling gradient computation.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.deaths import Death, deaths, listed
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import ScriptDied
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule(
    "GW612",
    "loss-without-graph",
    "error",
    needs=(ScriptDied,),
    messages=(r"element (?P<element>\d+) of (?:tensors|variables) does not require grad and does not have a grad_fn",),
)


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for death in deaths(RULE, facts):
        name = death.clue("differentiated") or f"element {death.caught('element')} of what is differentiated"
        spec = " ".join(part for part in (death.clue("dtype"), death.clue("shape")) if part)
        yield RULE.finding(
            subject,
            at=death.where(subject),
            message=f"{death.expression}: {name}{f' ({spec})' if spec else ''} has no graph behind it",
            why=_why(death),
            hints=_hints(death, name),
            evidence=[death.fact.id],
        )


def _why(death: Death) -> str:
    if off := death.clues("off"):
        return f"The text switches gradients off: {listed(off)}."
    if cuts := death.clues("cut"):
        return f"The text cuts its graph: {listed(cuts)}."
    if frozen := _frozen(death):
        return f"No parameter at hand requires a gradient: {listed(frozen)}."
    if death.clue("dtype") and not death.clue("dtype").startswith(("float", "bfloat", "complex")):
        return f"A tensor of {death.clue('dtype')} has no gradient: only floating point numbers have."
    return "Nothing that requires a gradient took part in it, or its graph was cut; the text does not show where."


def _frozen(death: Death) -> list[str]:
    states = death.clues("parameters")
    frozen = [state for state in states if ": 0 of" in state]
    return frozen if len(frozen) == len(states) else []


def _hints(death: Death, name: str) -> Iterator[str]:
    if death.clues("off"):
        yield "compute the loss where gradients are on"
    if death.clues("cut"):
        yield "keep it a tensor all the way: .item(), float(), .detach() are for what is printed; torch.stack joins"
    if _frozen(death):
        yield "unfreeze what shall learn: parameter.requires_grad_(True)"
    if (tracked := death.clue("tracked")) and not tracked.startswith("no tensor"):
        yield f"tensors of this frame that require a gradient: {tracked}"
    yield (
        f"{name}.requires_grad_() is no fix: it silences the error, and nothing learns"
        if name.isidentifier()
        else ("requires_grad_() on the loss is no fix: it silences the error, and nothing learns")
    )
