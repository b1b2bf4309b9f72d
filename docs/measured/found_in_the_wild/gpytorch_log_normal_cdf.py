# gpytorch 1.15.2, LogNormalCDF: the expansion for far tails (GPML uses it below -11) is used from z < -1 on.
import math

import torch

r = [1.2753666447299659, 5.019049726784267, 6.160209853109631, 7.409740605964742, 2.978865626393993]
q = [
    2.260528520767327,
    9.396034016235054,
    12.048951927855128,
    17.081440747466004,
    9.608965327192788,
    3.3690752069827528,
]
z = torch.tensor(-1.01, dtype=torch.float64)
num, den = torch.tensor(0.5641895835477551), torch.tensor(1.0)
for c in r:
    num = -z * (num / math.sqrt(2)) + c
for c in q:
    den = -z * (den / math.sqrt(2)) + c
published = (num / den / 2).log() - z**2 / 2  # its gradient is |den / num| sqrt(2 / pi)
print("log Phi(-1.01): published", published.item(), "right", torch.special.log_ndtr(z).item())
print(
    "gradient: published",
    (den / num).abs().item() * math.sqrt(2 / math.pi),
    "of Phi",
    (-(z**2) / 2 - torch.special.log_ndtr(z)).exp().item() / math.sqrt(2 * math.pi),
)
