import torch
from torch.autograd import Function


class Cube(Function):
    def forward(self, x):
        self.save_for_backward(x)
        return x**3

    def backward(self, grad_output):
        (x,) = self.saved_tensors
        return 3 * x**2 * grad_output


torch.manual_seed(0)
x = torch.randn(6, requires_grad=True)
loss = Cube()(x).sum()
loss.backward()
print(x.grad)
