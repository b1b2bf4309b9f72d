"""What it finds
    Parameters of an optimizer whose gradient is `None` at every step that was looked at: all of them, those of layers
    that were called but are cut from the loss, or those of layers that nobody called, or with gradients off only.

Why it matters
    A step passes over parameters without a gradient, silently. If it has none at all, the training does nothing; a
    layer that is called and cut stays random, and what follows sees random features.

When it is fine
    A layer that is not called costs nothing but memory, and one that is called under `no_grad` may be meant to stay as
    it is: both are told as information. What moves by other means (an average of weights, a codebook) is not reported,
    and neither is a bias whose weight gets a gradient: a loss made of derivatives does not reach the last one.

The fix
    Find the cut between the layer and the loss: `detach()`, `.data`, `.item()`, `torch.tensor(...)`, `no_grad`,
    `argmax`, a comparison, a trip through NumPy. If all are without a gradient, the optimizer may hold another model's
    parameters.

References
    The documentation of torch.optim.Optimizer.step and of Tensor.detach.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import LeafRoots, OutsideParameters, StepOrder, UnreachedParameters
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule(
    "GW624", "parameters-never-reached", "warning", needs=(UnreachedParameters, OutsideParameters, LeafRoots, StepOrder)
)


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    if any(outside.standing == "replaced" for outside in facts.all(OutsideParameters)):
        return  # GW623 tells it
    for unreached in facts.of(UnreachedParameters):
        if unreached.steps < 2 or (unreached.absence != "all" and unreached.steps < 3):
            continue
        names = ", ".join(unreached.names[:4]) + (f" and {unreached.count - 4} more" if unreached.count > 4 else "")
        names = names or f"{unreached.count} parameters"
        seen = f"at none of {unreached.steps} steps"
        if unreached.absence == "all":
            if any(order.emptied_steps for order in facts.of(StepOrder)):
                continue  # GW602 tells it
            if any(roots.leaf_calls == roots.calls for roots in facts.all(LeafRoots)):
                continue  # GW621 tells it
            cut = f" What {_call(unreached)} gave went on into the loss without a graph." if unreached.cut_at else ""
            yield RULE.finding(
                subject,
                at=unreached.cut_at or unreached.made_at or subject.location,
                message=f"no parameter of {subject.name} ever gets a gradient: its steps do nothing",
                why=f"It holds {unreached.held}; their .grad was set {seen}.{cut}",
                hints=[
                    "does the loss come from the model whose parameters the optimizer holds, and not from a copy?",
                    "is it cut on the way: detach(), .data, torch.tensor(...), no_grad, argmax?",
                ],
                evidence=[unreached.id],
                severity="error",
            )
        elif unreached.absence == "cut" and unreached.cut_at is not None:
            yield RULE.finding(
                subject,
                at=unreached.cut_at,
                message=f"no gradient ever reaches {names}: {_call(unreached)} cuts the way to the loss",
                why=f"{_graph(unreached)} had a graph; what this call made of it has none, and went on into the loss. "
                f".grad was set {seen} ({unreached.count} of {unreached.held} parameters that {subject.name} holds).",
                hints=[
                    "keep tensors from the layer to the loss: no detach(), .data, NumPy, torch.tensor(...) in between",
                    "if it is meant to stay: requires_grad_(False), and leave it out of the optimizer",
                ],
                evidence=[unreached.id],
            )
        elif unreached.absence == "cut":
            yield RULE.finding(
                subject,
                at=unreached.called_at or subject.location,
                message=f"no gradient ever reaches {names}, though the layer is called: the way to the loss is cut",
                why=f"{_layers(unreached)} ran with gradients on, and .grad was set {seen} ({unreached.count} of "
                f"{unreached.held} parameters that {subject.name} holds).",
                hints=[
                    "look between the layer and the loss for detach(), .data, torch.tensor(...), no_grad, argmax",
                    "if it is meant to stay: requires_grad_(False), and leave it out of the optimizer",
                ],
                evidence=[unreached.id],
            )
        elif unreached.unrecorded_at is not None:
            yield RULE.finding(
                subject,
                at=unreached.unrecorded_at,
                message=f"no gradient ever reaches {names}: their layers are called with gradients off only",
                why=f"{_layers(unreached)} ran under no_grad or inference_mode, which records nothing; .grad was set "
                f"{seen} ({unreached.count} of {unreached.held} parameters that {subject.name} holds).",
                hints=[
                    "if they are to learn: take the call out of torch.no_grad()",
                    "if they are to stay as they are: requires_grad_(False), and leave them out of the optimizer",
                ],
                evidence=[unreached.id],
                severity="info",
            )
        else:
            yield RULE.finding(
                subject,
                at=unreached.made_at or subject.location,
                message=f"no gradient ever reaches {names}: nothing that leads to the loss uses them",
                why=f"Their .grad was set {seen} ({unreached.count} of {unreached.held} parameters that {subject.name} "
                "holds), and no layer of torch's that has them was called.",
                hints=["call the layer, or remove it"],
                evidence=[unreached.id],
                severity="info",
            )


def _call(unreached: UnreachedParameters) -> str:
    return f"`{unreached.cut_by}`" if unreached.cut_by else f"the call at {unreached.cut_at}"


def _graph(unreached: UnreachedParameters) -> str:
    if unreached.called_at is None:
        return "What they were used for"
    return f"{_layers(unreached)}, called at {unreached.called_at},"


def _layers(unreached: UnreachedParameters) -> str:
    return " and ".join(unreached.modules[:3]) or "The layers"
