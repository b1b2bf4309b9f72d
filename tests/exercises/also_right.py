"""Right answers that are not our solution: other formulas, other styles. Each must pass."""

from __future__ import annotations

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\nimport gradwright as gw\n"

ALSO_RIGHT: dict[tuple[int, str], str] = {
    (1, "a vjp"): """
@gw.custom_gradient
def square(x):
    return x.square()
@square.vjp("x")
def _(grad_output, x):
    return grad_output * (x + x)
""",
    (1, "one call"): """
def forward(x): return x ** 2
def backward(grad_output, x): return 2.0 * grad_output * x
square = gw.custom_gradient(forward, backward)
""",
    (2, "setup_context"): """
class TimesExp(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * torch.exp(-x)
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return g * (torch.exp(-x) - x * torch.exp(-x))
""",
    (2, "with its output"): """
class TimesExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x / x.exp()
        ctx.save_for_backward(x, y)
        return y
    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * ((-x).exp() - y)
""",
    (3, "two ifs"): """
class Product(torch.autograd.Function):
    @staticmethod
    def forward(a, b):
        return a * b
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        ga = gb = None
        if ctx.needs_input_grad[0]:
            ga = b * g
        if ctx.needs_input_grad[1]:
            gb = a * g
        return ga, gb
""",
    (3, "keeps what is needed"): """
class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        needs_a, needs_b = ctx.needs_input_grad
        ctx.save_for_backward(b if needs_a else None, a if needs_b else None)
        return a * b
    @staticmethod
    def backward(ctx, g):
        b, a = ctx.saved_tensors
        return None if b is None else g * b, None if a is None else g * a
""",
    (4, "a loop over axes"): """
class AddBias(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bias):
        ctx.save_for_backward(bias)
        return x + bias
    @staticmethod
    def backward(ctx, g):
        bias, = ctx.saved_tensors
        total = g
        while total.dim() > bias.dim():
            total = total.sum(0)
        for axis, size in enumerate(bias.shape):
            if size == 1:
                total = total.sum(axis, keepdim=True)
        return g, total
""",
    (5, "masks"): """
def huber(prediction, target, delta=1.0):
    e = (prediction - target).abs()
    small = (e <= delta).to(e.dtype)
    return torch.mean((1 - small) * (delta * e - delta ** 2 / 2) + small * e.square() / 2)
""",
    (5, "clamped"): """
def huber(prediction, target, delta=1.0):
    e = (prediction - target).abs()
    q = e.clamp(max=delta)
    return (0.5 * q * q + delta * (e - q)).mean()
""",
    (5, "a module"): """
class Huber(nn.Module):
    def forward(self, prediction, target, delta=1.0):
        e = prediction - target
        return torch.where(e.abs() < delta, e * e / 2, delta * (e.abs() - delta / 2)).mean()
huber = Huber()
""",
    (5, "a formula"): """
def huber(prediction, target, delta=1.0):
    e = prediction - target
    inside = e.abs() <= delta
    near = torch.where(inside, 0.5 * e.square(), 0).sum()
    return (near + torch.where(inside, 0, delta * (e.abs() - 0.5 * delta)).sum()) / e.numel()
""",
    (6, "products"): """
def two_losses(prediction, target, trusted):
    e = prediction - target
    m = trusted.to(e.dtype)
    return (e * e * m).sum() / m.sum().clamp(min=1) + (e.abs() * (1 - m)).sum() / (1 - m).sum().clamp(min=1)
""",
    (6, "selected"): """
def two_losses(prediction, target, trusted):
    e = prediction - target
    a, b = e[trusted], e[~trusted]
    return (a ** 2).sum() / max(a.numel(), 1) + b.abs().sum() / max(b.numel(), 1)
""",
    (6, "branches"): """
def two_losses(prediction, target, trusted):
    e = prediction - target
    loss = e.sum() * 0
    if trusted.any():
        loss = loss + e[trusted].pow(2).mean()
    if (~trusted).any():
        loss = loss + e[~trusted].abs().mean()
    return loss
""",
    (7, "a mask"): """
def leaky_scale(x, scale):
    positive = (x > 0).to(x.dtype)
    return x * (positive * scale[None, :] + (1 - positive) * 0.1)
""",
    (7, "two parts"): """
def leaky_scale(x, scale):
    return torch.relu(x) * scale - torch.relu(-x) * 0.1
""",
    (8, "with the maximum's gradient"): """
def log_sum_exp(x):
    m = x.max(dim=1).values if len(x) else x.sum(1)
    return m + torch.log(torch.sum(torch.exp(x - m[:, None]), 1))
""",
    (8, "a Function"): """
class LSE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        m = x.amax(1, keepdim=True)
        y = (x - m).exp().sum(1).log() + m[:, 0]
        ctx.save_for_backward(x, y)
        return y
    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g[:, None] * (x - y[:, None]).exp()
def log_sum_exp(x):
    return LSE.apply(x)
""",
    (9, "a Function"): """
class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(x)
    @staticmethod
    def backward(ctx, g):
        return g
def round_through(x):
    return Round.apply(x)
""",
    (9, "a custom gradient"): """
@gw.surrogate(reason="straight through")
def rounded(x):
    return x.round()
round_through = gw.custom_gradient(rounded, lambda grad_output: grad_output)
""",
    (9, "no_grad"): """
def round_through(x):
    with torch.no_grad():
        away = torch.round(x) - x
    return x + away
""",
    (10, "shares"): """
def accumulate(model, micro_batches, optimizer):
    optimizer.zero_grad(set_to_none=False)
    sizes = [x.shape[0] for x, _ in micro_batches]
    losses = []
    for (x, y), n in zip(micro_batches, sizes):
        loss = F.mse_loss(model(x), y)
        (loss * (n / sum(sizes))).backward()
        losses.append(loss.item())
    optimizer.step()
    optimizer.zero_grad()
    return sum(losses)
""",
    (10, "gradients divided"): """
def accumulate(model, micro_batches, optimizer):
    for p in model.parameters():
        p.grad = None
    total = 0
    for x, y in reversed(micro_batches):
        (model(x) - y).pow(2).sum().backward()
        total += y.numel()
    for p in model.parameters():
        p.grad /= total
    optimizer.step()
""",
    (11, "ones"): """
def inner_gradient(y, z):
    return torch.autograd.grad(y, z, grad_outputs=torch.ones_like(y), create_graph=True, retain_graph=True)[0]
""",
    (12, "batched"): """
def batch_jacobian(y, z):
    B, K = y.shape
    one_hot = torch.eye(K, dtype=y.dtype)[:, None, :].expand(K, B, K)
    J, = torch.autograd.grad(y, z, one_hot, is_grads_batched=True, retain_graph=True)
    return J.transpose(0, 1)
""",
    (12, "with a graph"): """
def batch_jacobian(y, z):
    return torch.stack([torch.autograd.grad(y[:, k], z, torch.ones_like(y[:, k]), create_graph=True)[0]
                        for k in range(y.shape[1])], 1)
""",
    (13, "norm"): """
def gradient_penalty(critic, x):
    x = x.clone().requires_grad_(True)
    y = critic(x)
    ones = torch.ones_like(y)
    g = torch.autograd.grad(outputs=y, inputs=x, grad_outputs=ones, create_graph=True, retain_graph=True)[0]
    return ((g.norm(2, dim=1) - 1) ** 2).mean()
""",
    (13, "a small number under the root"): """
def gradient_penalty(critic, x):
    x = x.detach().clone().requires_grad_()
    g, = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
    return (((g * g).sum(1) + 1e-12).sqrt() - 1).square().mean()
""",
    (13, "vmap"): """
def gradient_penalty(critic, x):
    g = torch.func.vmap(torch.func.grad(lambda one: critic(one[None])[0]))(x)
    return ((torch.linalg.norm(g, dim=1) - 1) ** 2).mean()
""",
    (14, "its own forward"): """
class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        e = (x - x.max(-1, keepdim=True).values).exp() if x.numel() else x.clone()
        y = e / e.sum(-1, keepdim=True)
        ctx.save_for_backward(y)
        return y
    @staticmethod
    def backward(ctx, g):
        y, = ctx.saved_tensors
        yg = y * g
        return yg - y * yg.sum(1, keepdim=True)
""",
    (14, "einsum"): """
class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = F.softmax(x, -1)
        ctx.save_for_backward(y)
        return y
    @staticmethod
    def backward(ctx, g):
        y, = ctx.saved_tensors
        return y * (g - torch.einsum("nk,nk->n", y, g)[:, None])
""",
    (15, "from the input"): """
class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        mean, var = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        return (x - mean) / torch.sqrt(var + eps) * weight + bias
    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        K = x.shape[-1]
        r = 1 / torch.sqrt(x.var(-1, unbiased=False, keepdim=True) + ctx.eps)
        n = (x - x.mean(-1, keepdim=True)) * r
        h = g * weight
        grad_x = r / K * (K * h - h.sum(-1, keepdim=True) - n * (h * n).sum(-1, keepdim=True))
        return grad_x, (g * n).sum(0), g.sum(0), None
""",
    (15, "once"): """
class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        mu = x.mean(1, keepdim=True)
        r = torch.rsqrt(((x - mu) ** 2).mean(1, keepdim=True) + eps)
        ctx.save_for_backward(x, mu, r, weight)
        return (x - mu) * r * weight + bias
    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        x, mu, r, weight = ctx.saved_tensors
        n = (x - mu) * r
        h = g * weight
        return r * (h - h.mean(1, keepdim=True) - n * (h * n).mean(1, keepdim=True)), (g * n).sum(0), g.sum(0), None
""",
    (16, "indexed"): """
class CE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, ignore_index):
        counted = target != ignore_index
        safe = torch.where(counted, target, 0)
        p = torch.softmax(logits, 1)
        lse = torch.logsumexp(logits, 1)
        rows = torch.arange(len(target))
        losses = torch.where(counted, lse - logits[rows, safe], 0)
        count = counted.sum().clamp(min=1)
        ctx.save_for_backward(p, safe, counted / count)
        return losses.sum() / count
    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        p, safe, share = ctx.saved_tensors
        grad = p.clone()
        grad[torch.arange(len(safe)), safe] -= 1
        grad *= (g * share)[:, None].to(grad.dtype)
        return grad, None, None
def cross_entropy(logits, target, ignore_index=-100):
    return CE.apply(logits, target, ignore_index)
""",
    (16, "a custom gradient"): """
@gw.custom_gradient
def cross_entropy(logits, target, ignore_index=-100):
    counted = target != ignore_index
    picked = logits.log_softmax(1).gather(1, torch.where(counted, target, 0)[:, None])[:, 0]
    return -torch.where(counted, picked, 0).sum() / counted.sum().clamp(min=1)
@cross_entropy.backward
def _(grad_output, logits, target, ignore_index):
    counted = target != ignore_index
    weight = (grad_output * counted / counted.sum().clamp(min=1))[:, None]
    chosen = torch.where(counted, target, 0)[:, None]
    return (logits.softmax(1) * weight).scatter_add(1, chosen, -weight)
""",
}
