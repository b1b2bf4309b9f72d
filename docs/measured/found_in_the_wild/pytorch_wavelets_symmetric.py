# pytorch-wavelets 1.3.0, AFB1D in mode "symmetric": the backward is the synthesis with its own (zero) padding, so what
# the reflection at the border copied in is not added back. The same with a filter of three taps:
import torch

x = torch.arange(1.0, 6.0).requires_grad_()
taps, g = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, -1.0, 2.0, 0.5, 1.0])
padded = torch.cat([x[:1], x, x[-1:]])  # half-sample reflection
right = torch.autograd.grad((padded.unfold(0, 3, 1) * taps).sum(1), x, g)[0]
spread = torch.nn.functional.conv1d(g[None, None], taps.flip(0)[None, None], padding=2)[0, 0]
print("published", spread[1:-1].tolist(), "right", right.tolist())
