# snntorch 1.0.0, Sigmoid.backward: exp(-slope x) overflows, and inf / inf is NaN: from x < -3.6 on at slope 25.
import torch

x, slope = torch.tensor([-3.0, -3.6, -4.0]), 25.0
published = slope * torch.exp(-slope * x) / (torch.exp(-slope * x) + 1) ** 2
stable = slope * torch.sigmoid(slope * x) * torch.sigmoid(-slope * x)
print("published", published.tolist(), "right", stable.tolist())
