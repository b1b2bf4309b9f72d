"""The same softsign with its input saved; builtins where builtins are meant."""

import torch

torch.manual_seed(0)


class Softsign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return input / (1 + input.abs())

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_tensors
        return grad_output / (1 + input.abs()) ** 2


def report(values: list[float], unit: str | None = None) -> str:
    return "largest %s of type %s" % (max(values), type(values[0]))


weight = torch.randn(8, 3, requires_grad=True)
inputs = torch.randn(32, 8)
loss = Softsign.apply(inputs @ weight).pow(2).mean()
loss.backward()
print(report(weight.grad.flatten().tolist()))
