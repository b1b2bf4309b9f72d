"""What it finds
    Parameters that get gradients in every backward, are in no optimizer, and keep their values over the steps: a
    forgotten module, layers in a plain Python list (which `parameters()` doesn't see), a layer that was replaced after
    the optimizer was made, a learnable weight of the loss.

Why it matters
    They stay as they were initialised, and the rest has to learn around them. `optimizer.zero_grad()` doesn't clear
    them either.

When it is fine
    What is updated by hand, by an average or by another optimizer moves, and is not reported; neither are modules in
    eval mode, loaded ones, copies of a module that is trained (a target network), and modules beside an optimized
    input.
    A trained head on a backbone that was left out is told as information: `requires_grad_(False)` saves its gradients.
    Layers that an optimizer held before (trained in turn) are told as information, too.

The fix
    Give the optimizer all that is to be trained; `nn.ModuleList` and `nn.ParameterList` where layers are kept in lists;
    make the optimizer after the last change of the model.

References
    pytorch/pytorch#59925. The documentation of torch.optim and of torch.nn.ModuleList.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import OutsideParameters
from gradwright.doctor.session.model import Finding, Severity, Subject

RULE = Rule("GW623", "parameters-not-in-optimizer", "warning", needs=(OutsideParameters,))

_SEVERITY: dict[str, Severity] = {
    "unregistered": "error",
    "replaced": "error",
    "beside": "warning",
    "alone": "warning",
    "upstream": "info",
    "pretrained": "info",
    "formerly": "info",
}


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for outside in facts.of(OutsideParameters):
        shown = ", ".join(outside.names[:4]) + (f" and {outside.count - 4} more" if outside.count > 4 else "")
        of = f" of {outside.module}" if outside.module else ""
        one = outside.count == 1
        yield RULE.finding(
            subject,
            at=outside.made_at or subject.location,
            message=f"{shown}{of} {'gets' if one else 'get'} gradients and {'is' if one else 'are'} in no optimizer",
            why=f"{_how(outside)}Backwards reached {'it' if one else 'them'}; over {outside.steps} optimizer steps "
            f"that were watched {'its' if one else 'their'} values stayed the same, and no optimizer of the process "
            f"holds {'it' if one else 'them'}.",
            hints=_hints(outside),
            evidence=[outside.id],
            severity=_SEVERITY[outside.standing],
        )


def _how(outside: OutsideParameters) -> str:
    if outside.standing == "unregistered":
        if outside.names[:1] == (outside.holder,):
            return f"`{outside.holder}` is a plain tensor, no nn.Parameter: parameters() does not see it. "
        return f"`{outside.holder}` is a plain list or dict: parameters() does not see what is in it. "
    if outside.standing == "replaced":
        return "The optimizer holds parameters that no gradient reaches: it was made before these took their place. "
    if outside.standing == "upstream":
        return "All that the optimizer holds lies nearer to the loss. "
    if outside.standing == "pretrained":
        return "The module's state was loaded, and the optimizer holds others of its parameters. "
    if outside.standing == "formerly":
        return "An optimizer held them before: this one trains others in their turn. "
    return ""


def _hints(outside: OutsideParameters) -> list[str]:
    if outside.standing == "unregistered":
        if outside.names[:1] == (outside.holder,):
            return [f"self.{outside.holder} = nn.Parameter(...)"]
        return [f"self.{outside.holder} = nn.ModuleList(...) (or ParameterList, ModuleDict)"]
    if outside.standing == "replaced":
        return ["make the optimizer after the model has its last form"]
    if outside.standing in ("upstream", "pretrained", "formerly"):
        return ["if they are meant to stay: requires_grad_(False) saves their gradients", "if not: add them"]
    if outside.standing == "beside":
        return ["give the optimizer the whole model's parameters()", "if they are meant to stay: requires_grad_(False)"]
    return [
        "give the optimizer all that is trained: [*model.parameters(), *other.parameters()]",
        "if it is meant to stay: requires_grad_(False)",
    ]
