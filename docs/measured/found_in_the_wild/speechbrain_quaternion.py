# speechbrain 1.1.2, QuaternionLinearCustomBackward: the four weights' gradients hang on needs_input_grad[1].
import torch


class Published(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, r_weight, i_weight):
        ctx.save_for_backward(x)
        return x * r_weight + 2 * x * i_weight

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        grad_r = grad_i = None
        if ctx.needs_input_grad[1]:
            grad_r, grad_i = g * x, 2 * g * x
        return None, grad_r, grad_i


i_weight = torch.ones(3, requires_grad=True)
Published.apply(torch.ones(3), torch.ones(3), i_weight).sum().backward()
print("r frozen, the gradient of i:", i_weight.grad)
