# brevitas 0.13.3, brevitas_examples/bnn_pynq/models/losses.py: the cotangent is the buffer that is written over.
import torch

predictions, targets = torch.randn(4), torch.tensor([1.0, -1.0, 1.0, 1.0])
for scale in (1.0, 10.0):
    grad_output = torch.tensor(scale)
    output = (1 - predictions * targets).clamp(min=0)
    grad_output.resize_as_(predictions).copy_(targets).mul_(-2.0).mul_(output)  # as published
    grad_output.mul_(output.ne(0).float()).div_(predictions.numel())
    print("cotangent", scale, "gradient", grad_output.tolist())  # the same twice
