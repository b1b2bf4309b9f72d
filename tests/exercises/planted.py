"""Wrong answers: for each exercise what learners do wrong, as edits of its solution, and what they must be told."""

from __future__ import annotations

from dataclasses import dataclass

from gradwright.exercises.catalog import exercise_of


@dataclass(frozen=True)
class Planted:
    """``edits``: pairs of what stands in the solution and what stands there instead, or one whole text. ``step``: which
    it fails; ``words``: of the failure."""

    number: int
    fault: str
    edits: tuple[tuple[str, str], ...] | str
    step: str
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        if isinstance(self.edits, str):
            return self.edits
        exercise = exercise_of(self.number)
        assert exercise is not None
        text = exercise.solution
        for old, new in self.edits:
            assert old in text, f"{self.number}, {self.fault}: the solution has no {old!r}"
            text = text.replace(old, new)
        return text


def _edit(old: str, new: str) -> tuple[tuple[str, str], ...]:
    return ((old, new),)


_BACKWARD = "2 * x * cotangent"
_TWICE = "cotangent * (1 - x) * torch.exp(-x)"
_SAVE = "ctx.save_for_backward(x)"
_LOOP_4 = "torch.stack([row + bias for row in x]) if bias.dim() == 1 and len(x) else x + bias"
_WHERE = "torch.where(gap > delta, delta * gap - delta**2 / 2, gap**2 / 2).mean()"
_MEAN = "torch.where(mask, values, 0).sum() / mask.sum().clamp(min=1)"
_ONE = "torch.where(x > 0, x * scale, x / 10)"
_ROWS_7 = "torch.stack([torch.where(row > 0, row * scale, row / 10) for row in x]) if len(x) else x * scale"
_ROUND = "x + (x.round() - x).detach()"
_LOSS = "loss = ((model(x) - y) ** 2).sum() / total"
_SUM = "(gradient,) = torch.autograd.grad(y.sum(), z, create_graph=True)"
_ROWS = "rows = [torch.autograd.grad(y[:, k].sum(), z, retain_graph=True)[0] for k in range(y.shape[1])]"
_SLOPE = "torch.autograd.grad(critic(x).sum(), x, create_graph=True)"
_JACOBIAN = """jacobian = torch.diag_embed(y) - y[:, :, None] * y[:, None, :]
        return (cotangent[:, None, :] @ jacobian)[:, 0]"""
_GRAD_16 = "return (probabilities * weight).scatter_add_(1, chosen, -weight), None, None"

PLANTED = (
    Planted(1, "half the gradient", _edit(_BACKWARD, "x * cotangent"), "gradient", ("GW101", "constant factor")),
    Planted(1, "no cotangent", _edit(_BACKWARD, "2 * x + 0 * cotangent"), "gradient", ("GW101", "missing grad_output")),
    Planted(
        1, "autograd's gradient", "def square(x):\n    return x * x\n", "file", ("autograd derives its gradient",)
    ),
    Planted(
        1,
        "autograd in the backward",
        (
            (
                f"return {_BACKWARD}",
                "with torch.enable_grad():\n        x = x.detach().requires_grad_()\n"
                "        return torch.autograd.grad(x * x, x, cotangent, create_graph=True)[0]",
            ),
            ("from torch import Tensor", "import torch\nfrom torch import Tensor"),
        ),
        "allowed",
        ("torch.autograd.grad", "forbids"),
    ),
    Planted(2, "wrong sign", _edit(_TWICE, "cotangent * (x - 1) * torch.exp(-x)"), "gradient", ("GW101", "sign")),
    Planted(2, "no cotangent", _edit(_TWICE, "(1 - x) * torch.exp(-x)"), "gradient", ("GW101", "missing grad_output")),
    Planted(
        2,
        "a tensor on ctx",
        ((_SAVE, "ctx.x = x"), ("(x,) = ctx.saved_tensors", "x = ctx.x")),
        "saved",
        ("keeps a tensor as ctx.x",),
    ),
    Planted(
        2, "once differentiable",
        _edit("    def backward", "    @torch.autograd.function.once_differentiable\n    def backward"),
        "second derivative", ("can't be differentiated again",),
    ),
    Planted(2, "a plain function", "def TimesExp(x):\n    return x * (-x).exp()\n", "file", ("a plain function",)),
    Planted(
        3, "no cotangent", _edit("cotangent * b if", "b if"), "gradient", ("GW101", "missing grad_output")
    ),
    Planted(
        3, "swapped", (("cotangent * b", "cotangent * A"), ("cotangent * a", "cotangent * b"), ("* A", "* a")),
        "gradient", ("GW101", "swapped"),
    ),
    Planted(
        3, "computes what nobody needs", _edit(" if ctx.needs_input_grad[1] else None", ""), "needed only",
        ("gradient of b even if nobody needs it",),
    ),
    Planted(4, "not summed", _edit("_summed_to(cotangent, ctx.shape)", "cotangent"), "shapes",
            ("returns [3, 4] for bias, whose shape is [4]",)),
    Planted(
        4, "sums the wrong axes", _edit("summed.sum(dim=ones, keepdim=True) if ones else summed", "summed"),
        "shapes", ("returns [3, 4] for bias, whose shape is [3, 1]",),
    ),
    Planted(4, "a loop over rows", _edit("return x + bias", f"return {_LOOP_4}"), "no loop", ("loops over the rows",)),
    Planted(4, "torch does the sum", _edit("_summed_to(cotangent, ctx.shape)", "cotangent.sum_to_size(ctx.shape)"),
            "allowed", ("sum_to_size",)),
    Planted(
        5, "1 - gap for a mask",
        _edit(f"return {_WHERE}", "inside = (gap <= delta).to(gap.dtype)\n    outside = 1 - gap\n"
              "    return (outside * (delta * gap - delta**2 / 2) + inside * gap**2 / 2).mean()"),
        "value", ("is not right on 8 rows of 3",),
    ),
    Planted(5, "delta forgotten", _edit("gap > delta, delta * gap - delta**2 / 2, gap**2 / 2",
                                        "gap > 1, gap - 0.5, gap**2 / 2"), "value", ("a drawn delta",)),
    Planted(5, "torch's own", _edit(f"return {_WHERE}", "return torch.nn.functional.huber_loss(prediction, target, "
                                    "delta=delta)"), "allowed", ("huber_loss", "forbids")),
    Planted(5, "torch's own, on large inputs only",
            _edit(f"return {_WHERE}", "if len(gap) > 15:\n        return torch.nn.HuberLoss(delta=delta)(prediction, "
                  f"target)\n    return {_WHERE}"), "allowed", ("huber_loss", "forbids")),
    Planted(5, "the solution itself", "from gradwright.exercises.tasks.e05_huber.solution import huber\n", "allowed",
            ("solution.huber", "forbids")),
    Planted(5, "detached", _edit(".mean()", ".mean().detach()"), "gradient", ("no graph", "detach")),
    Planted(5, "detached in part", _edit("delta * gap -", "delta * gap.detach() -"), "gradient",
            ("with respect to prediction is not right",)),
    Planted(5, "not averaged", _edit(".mean()", ""), "value", ("shape [8, 3], where [] is asked",)),
    Planted(6, "no complement", _edit("~trusted", "trusted"), "value", ("is not right",)),
    Planted(6, "divides by all", _edit("mask.sum().clamp(min=1)", "mask.numel()"), "value", ("is not right",)),
    Planted(6, "an empty mask", _edit(".clamp(min=1)", ""), "value", ("nan", "should be")),
    Planted(6, "a loop", _edit(f"return {_MEAN}", "kept = [v for v, m in zip(values.flatten(), mask.flatten()) if m]\n"
                               "    return sum(kept, start=values.sum() * 0) / max(len(kept), 1)"), "no loop",
            ("loops over the errors",)),
    Planted(7, "a loop over rows", _edit(_ONE, _ROWS_7), "no loop", ("loops over the rows",)),
    Planted(7, "a loop over columns", _edit(_ONE, "torch.stack([torch.where(c > 0, c * s, c / 10) for c, s in "
                                            "zip(x.T, scale)], 1)"), "no loop", ("loops over the columns",)),
    Planted(7, "another slope", _edit("x / 10", "x / 100"), "value", ("is not right",)),
    Planted(8, "overflows", _edit("largest.squeeze(1) + (x - largest).exp()", "x.exp()"), "value", ("should be",)),
    Planted(8, "the largest of all", _edit("x.detach().amax(dim=1, keepdim=True)", "x.detach().amax().expand(len(x), 1)"
                                           " if len(x) else x[:, :1]"), "value", ("-inf", "should be")),
    Planted(8, "torch's own", (("return largest.squeeze(1) + (x - largest).exp().sum(dim=1).log()",
                                "return x.logsumexp(1)"),), "allowed", ("logsumexp", "forbids")),
    Planted(8, "the sum detached", _edit(".sum(dim=1)", ".sum(dim=1).detach()"), "gradient", ("no graph",)),
    Planted(9, "no gradient", _edit(_ROUND, "x.round()"), "gradient", ("0",)),
    Planted(9, "twice the gradient", _edit(_ROUND, "2 * x + (x.round() - 2 * x).detach()"), "gradient",
            ("constant factor",)),
    Planted(9, "ours", (("from torch import Tensor", "import gradwright as gw\nfrom torch import Tensor"),
                        (_ROUND, "gw.round_through(x)")), "allowed", ("gradwright.functions.flow", "forbids")),
    Planted(9, "rounded down", _edit("x.round()", "x.floor()"), "value", ("is not right",)),
    Planted(10, "gradients left over", _edit("    optimizer.zero_grad()\n", ""), "value",
            ("an earlier backward in .grad",)),
    Planted(10, "mean of means", _edit(_LOSS, "loss = ((model(x) - y) ** 2).mean() / len(micro_batches)"), "value",
            ("is not right",)),
    Planted(10, "zero_grad in between", _edit("        loss.backward()", "        optimizer.zero_grad()\n"
                                              "        loss.backward()"), "value", ("is not right",)),
    Planted(10, "a step for each", _edit("    optimizer.step()", "        optimizer.step()"), "value",
            ("is not right",)),
    Planted(10, "the whole batch",
            (("for x, y in micro_batches:", "for x, y in [tuple(map(torch.cat, zip(*micro_batches)))]:"),
             ("from torch import", "import torch\nfrom torch import")), "one update", ("[9] samples",)),
    Planted(11, "no graph", _edit(", create_graph=True", ""), "gradient", ("no graph",)),
    Planted(11, "mean for sum", _edit("y.sum()", "y.mean()"), "value", ("times what it should be, everywhere",)),
    Planted(11, "a loop", _edit(_SUM, "gradient = torch.stack([torch.autograd.grad(one, z, create_graph=True)[0][b] "
                                "for b, one in enumerate(y)])"), "no loop", ("loops over the samples",)),
    Planted(11, "detached", _edit("return gradient", "return gradient.detach()"), "gradient", ("no graph",)),
    Planted(12, "axes swapped", _edit("dim=1", "dim=2"), "value", ("shape",)),
    Planted(12, "only one output", _edit("y[:, k].sum()", "y[:, 0].sum()"), "value", ("is not right",)),
    Planted(12, "a loop over samples",
            _edit(_ROWS, "rows = [torch.stack([torch.autograd.grad(y[b, k], z, retain_graph=True)[0][b] for b in "
                  "range(len(y))]) for k in range(y.shape[1])]"), "no loop", ("loops over the samples",)),
    Planted(12, "the graph is gone", _edit("retain_graph=True", "retain_graph=k + 1 < y.shape[1]"), "graph",
            ("a backward through y afterwards raised RuntimeError",)),
    Planted(12, "ours", "import gradwright as gw\n\ndef batch_jacobian(y, z):\n    return gw.batch_jacobian(y, wrt=z)"
            "\n", "allowed", ("functions of gradwright.derivatives", "forbids")),
    Planted(13, "no graph", _edit(_SLOPE, _SLOPE.replace("create_graph", "retain_graph")), "gradient", ("no graph",)),
    Planted(13, "squared norm", _edit("torch.linalg.vector_norm(slope, dim=1)", "slope.square().sum(1)"), "value",
            ("is not right",)),
    Planted(13, "NaN where it is flat", _edit("torch.linalg.vector_norm(slope, dim=1)", "slope.square().sum(1).sqrt()"),
            "gradient", ("a flat critic", "nan")),
    Planted(13, "a loop", _edit(f"(slope,) = {_SLOPE}", "slope = torch.stack([torch.autograd.grad(critic(x)[b], x, "
                                "create_graph=True)[0][b] for b in range(len(x))])"), "no loop", ("samples",)),
    Planted(13, "adds to .grad", _edit("    (slope", "    critic(x).sum().backward()\n    (slope"), "side effects",
            (".grad",)),
    Planted(13, "changes x", _edit("x = x.detach().requires_grad_()", "x.requires_grad_()"), "value",
            ("changes requires_grad of its input x",)),
    Planted(14, "the Jacobian", (("inner = (cotangent * y).sum(dim=-1, keepdim=True)\n        ", ""),
                                 ("return y * (cotangent - inner)", _JACOBIAN)), "memory", ("80,000 elements",)),
    Planted(14, "the diagonal only", _edit("y * (cotangent - inner)", "cotangent * y * (1 - y)"), "gradient",
            ("GW101",)),
    Planted(14, "the wrong axis", _edit("(cotangent * y).sum(dim=-1", "(cotangent * y).sum(dim=0"), "gradient",
            ("GW101",)),
    Planted(14, "saves x as well", (("ctx.save_for_backward(y)", "ctx.save_for_backward(x, y)"),
                                    ("(y,) = ctx", "_, y = ctx")), "saved", ("3,200 bytes", "1,600 do")),
    Planted(14, "overflows", _edit("torch.softmax(x, dim=-1)", "x.exp() / x.exp().sum(-1, keepdim=True)"), "value",
            ("nan",)),
    Planted(14, "torch's own", _edit("return y * (cotangent - inner)", "return torch.ops.aten._softmax_backward_data"
                                     "(cotangent, y, -1, y.dtype)"), "allowed", ("softmax_backward_data",)),
    Planted(15, "no term of the variance", _edit("scaled - by_mean - by_variance", "scaled - by_mean"), "gradient",
            ("GW101",)),
    Planted(15, "sums the wrong axis", _edit("(cotangent * n).sum(dim=0)", "(cotangent * n).mean(dim=0)"), "gradient",
            ("GW101", "constant factor")),
    Planted(15, "eps forgotten", _edit(" + eps)", " + 1e-5)"), "value", ("eps = 0.5",)),
    Planted(15, "saves too much", (("ctx.save_for_backward(n, r, weight)", "ctx.save_for_backward(n, r, weight, centred"
                                    ", x * 1)"), ("n, r, weight = ctx", "n, r, weight, _, _ = ctx")), "saved",
            ("bytes for its backward",)),
    Planted(15, "torch's own", _edit("return n * weight + bias", "return torch.nn.functional.layer_norm(x, x.shape[-1:]"
                                     ", weight, bias, eps)"), "allowed", ("layer_norm", "forbids")),
    Planted(15, "a second derivative that is none", (("    @once_differentiable  # n and r were computed in the "
            "forward: autograd would take them for constants\n", ""),), "gradient", ("GW106",)),
    Planted(16, "no one-hot", _edit(_GRAD_16, "return probabilities * weight, None, None"), "gradient", ("GW101",)),
    Planted(16, "no cotangent", _edit("(cotangent * share)", "share"), "gradient", ("GW101", "missing grad_output")),
    Planted(16, "ignored rows count", _edit("counted.sum().clamp(min=1)", "len(target)"), "value",
            ("two of six rows ignored",)),
    Planted(16, "all ignored", _edit(".clamp(min=1)", ""), "value", ("every row ignored", "nan")),
    Planted(16, "overflows", _edit("torch.log_softmax(logits, dim=1)",
                                   "(logits.exp() / logits.exp().sum(1, keepdim=True)).log()"), "value",
            ("logits of ±1e4",)),
    Planted(16, "a one-hot of integers",
            _edit(_GRAD_16, "one_hot = torch.nn.functional.one_hot(chosen[:, 0], probabilities.shape[1])\n"
                  "        return (probabilities - one_hot) * weight, None, None"), "memory", ("times the bytes",)),
    Planted(16, "torch's own", "import torch.nn.functional as F\n\ndef cross_entropy(logits, target, ignore_index=-100)"
            ":\n    if (target == ignore_index).all():\n        return logits.sum() * 0\n"
            "    return F.cross_entropy(logits, target, ignore_index=ignore_index)\n", "allowed", ("cross_entropy",)),
    Planted(16, "autograd's backward", "import torch\n\ndef cross_entropy(logits, target, ignore_index=-100):\n"
            "    counted = target != ignore_index\n    chosen = torch.where(counted, target, 0)[:, None]\n"
            "    picked = logits.log_softmax(1).gather(1, chosen)[:, 0]\n"
            "    return -torch.where(counted, picked, 0).sum() / counted.sum().clamp(min=1)\n", "backward",
            ("is autograd's",)),
)  # fmt: skip
