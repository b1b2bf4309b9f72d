"""What it finds
    One call site of `autograd.grad` (or `backward`) that differentiates the entries of one tensor, one after the other,
    on one graph and with respect to the same tensors: at least 8 in a row, and at least 5 % of the watched time.

Why it matters
    Each call walks the whole graph for one number. For a batch of 1024 such a loop took 2.1 s where one pass per output
    column took 4.6 ms, and its memory grows with the square of the batch under `create_graph`.

When it is fine
    When each call needs the result of the one before (power iteration, conjugate gradients): those are not reported.

The fix
    Where sample j of the output depends on row j of the input only: one call per output column on the sum over the
    batch, `torch.autograd.grad(out[:, k].sum(), z, create_graph=True)[0]`, gives all rows at once. Where samples are
    coupled (BatchNorm in training, attention over the batch), the sum mixes them, and the loop is right:
    `gw.batch_jacobian(out, wrt=z)` finds that out, and takes them apart with `batch="coupled"`. What is done with each
    row is then done with all of them. The rewrite is tried in a forked child while the script's graph is alive, second
    derivatives included; the sum is proposed only where the graph itself proves the samples independent.

References
    pytorch/pytorch#50584, #23475; the PyTorch tutorial on Jacobians and per-sample gradients (torch.func).
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import GradientCalls
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW302", "loop-over-autograd-grad", "warning", needs=(GradientCalls,), rewrite="batch_gradients")

_RUN = 8
_SHARE = 0.05


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for calls in facts.of(GradientCalls):
        if calls.longest_run < _RUN or calls.share_of_step < _SHARE:
            continue
        shape = f" of shape {list(calls.run_shape)}" if calls.run_shape else ""
        yield RULE.finding(
            subject,
            at=subject.location,
            message=f"{calls.api} is called once per entry: {calls.longest_run:,} calls in a row on one graph, "
            f"{calls.share_of_step * 100:.0f} % of the step",
            why=f"Each of the {calls.calls:,} calls walks the graph for one of the {calls.run_of}{shape}"
            f"{', and keeps a graph of its own (create_graph)' if calls.create_graph else ''}.",
            hints=_hints(calls),
            evidence=[calls.id],
        )


def _hints(calls: GradientCalls) -> list[str]:
    batched = "torch.autograd.grad(out, z, torch.eye(len(out)), is_grads_batched=True)[0]"
    if calls.api == "backward":
        return [
            "if only the sum of these gradients is used, one backward of the sum gives it",
            "for the gradient of each sample: torch.func.vmap over torch.func.grad of one sample's loss",
        ]
    if len(calls.run_shape) < 2:
        return [
            f"all rows of the Jacobian in one batched call: {batched}; torch.func.hessian for second derivatives",
            "if each sample depends on its own row only, the gradient of out.sum() holds all rows at once",
        ]
    return [
        "if each sample depends on its own row only, take all rows at once: one call per output column, "
        "torch.autograd.grad(out[:, k].sum(), z, create_graph=True)[0]",
        "if samples are coupled (BatchNorm in training, attention over the batch), the sum would mix them: "
        "torch.autograd.grad with one-hot grad_outputs and is_grads_batched=True keeps them apart",
    ]
