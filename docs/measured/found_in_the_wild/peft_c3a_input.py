# peft 0.21.2, c3a/utils.py, BlockCircularConvolution.backward: x's gradient is a correlation, not a convolution.
import torch
from torch.fft import fft, ifft

torch.manual_seed(0)
x, w = torch.randn(4, requires_grad=True), torch.randn(4)
g = torch.randn(4)
right = torch.autograd.grad(fft(ifft(x) * fft(w)).real, x, g)[0]
print("published", fft(fft(g) * ifft(w)).real.tolist())
print("right    ", right.tolist(), "which is ifft(fft(g) fft(w)):", ifft(fft(g) * fft(w)).real.tolist())
