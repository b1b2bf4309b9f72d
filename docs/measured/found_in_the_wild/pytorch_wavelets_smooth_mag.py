# pytorch-wavelets 1.3.0, SmoothMagFn.backward: both gradients hang on needs_input_grad[0].
import torch


class Published(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return (x**2 + y**2).sqrt()

    @staticmethod
    def backward(ctx, dr):
        dx = None
        if ctx.needs_input_grad[0]:
            x, y = ctx.saved_tensors
            dx, dy = dr * x / (x**2 + y**2).sqrt(), dr * y / (x**2 + y**2).sqrt()
        return dx, dy


try:
    Published.apply(torch.ones(2), torch.ones(2, requires_grad=True)).sum().backward()
except UnboundLocalError as error:
    print(error)
