"""snntorch's LeakySpikeOperator takes two inputs and returns one gradient: the backward dies."""

import torch
from snntorch.surrogate import LeakySpikeOperator

torch.manual_seed(0)
membrane = torch.randn(8, 4, requires_grad=True)
spikes = LeakySpikeOperator.apply(membrane, 0.1)
spikes.sum().backward()
print(membrane.grad.sum())
