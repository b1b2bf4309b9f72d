"""Uses of products of matrices and vectors."""

import torch
import torch.nn.functional as F
from tests.derivatives.nodes.judge import Case, given

CASES = [
    Case("mm-rows", lambda z: z.mm(given(3, 5)), (4, 3), {0: 0}),
    Case("mm-rows-expanded", lambda z: z.mm(given(3, 1, graph=False).expand(3, 5)), (4, 3), {0: 0}),
    Case("mm-columns", lambda z: given(5, 3).mm(z), (3, 4), {1: 1}),
    Case("mm-contracts-the-batch", lambda z: given(2, 4).mm(z), (4, 3), {1: 1}),
    Case("mm-with-itself", lambda z: z.mm(z), (3, 3), {}),
    Case("addmm-rows", lambda z: torch.addmm(given(5), z, given(3, 5), alpha=2), (4, 3), {0: 0}),
    Case("addmm-columns", lambda z: torch.addmm(given(5, 1), given(5, 3), z, alpha=2), (3, 4), {1: 1}),
    Case("addmm-bias", lambda z: torch.addmm(z, given(4, 3), given(3, 2), beta=3), (4, 2), {0: 0, 1: 1}),
    Case("addmm-bias-broadcast", lambda z: torch.addmm(z, given(4, 3), given(3, 2), beta=3), (2,), {1: 0}),
    Case("addmm-bias-and-rows", lambda z: torch.addmm(z, z, given(3, 3)), (4, 3), {0: 0}),
    Case("addmm-weight-and-rows", lambda z: torch.addmm(z, z, z, alpha=0.5, beta=3), (3, 3), {}),
    Case("linear", lambda z: F.linear(z, given(5, 3), given(5)), (4, 3), {0: 0}),
    Case("bmm-left", lambda z: z.bmm(given(4, 3, 2)), (4, 2, 3), {0: 0, 1: 1}),
    Case("bmm-right", lambda z: given(4, 2, 3).bmm(z), (4, 3, 2), {0: 0, 2: 2}),
    Case("bmm-rows-of-the-second", lambda z: given(2, 3, 4).bmm(z), (2, 4, 3), {0: 0, 2: 2}),
    Case("bmm-with-itself", lambda z: z.bmm(z), (4, 2, 2), {0: 0}),
    Case("baddbmm", lambda z: torch.baddbmm(z, z, z, alpha=0.5, beta=3), (4, 2, 2), {0: 0}),
    Case("baddbmm-left", lambda z: torch.baddbmm(given(4, 2, 2), z, given(4, 3, 2)), (4, 2, 3), {0: 0, 1: 1}),
    Case("addbmm-left", lambda z: torch.addbmm(given(3, 2), z, given(4, 2, 2)), (4, 3, 2), {0: 1}),
    Case("addbmm-right", lambda z: torch.addbmm(given(3, 2), given(4, 3, 2), z), (4, 2, 2), {1: 2}),
    Case("addbmm-both", lambda z: torch.addbmm(z[0], z, z, alpha=2), (4, 2, 2), {}),
    Case("mv-matrix", lambda z: z.mv(given(3)), (4, 3), {0: 0}),
    Case("mv-vector", lambda z: given(4, 3).mv(z), (3,), {}),
    Case("addmv", lambda z: torch.addmv(given(4), z, given(3), alpha=2, beta=3), (4, 3), {0: 0}),
    Case("addmv-bias", lambda z: torch.addmv(z, given(4, 3), given(3), alpha=2, beta=3), (4,), {0: 0}),
    Case("addmv-matrix-and-vector", lambda z: torch.addmv(given(3), z, z[0]), (3, 3), {}),
    Case("addr-left", lambda z: torch.addr(given(4, 3), z, given(3), alpha=2), (4,), {0: 0}),
    Case("addr-right", lambda z: torch.addr(given(4, 3), given(4), z, alpha=2), (3,), {1: 0}),
    Case("addr-both", lambda z: torch.addr(given(3, 3), z, z), (3,), {}),
    Case("dot", lambda z: z.dot(given(4)), (4,), {}),
    Case("dot-with-itself", lambda z: z.dot(z), (4,), {}),
    Case(
        "bilinear-layer", lambda z: F.bilinear(z, given(4, 2), given(5, 3, 2)), (4, 3), {0: 0}, push=0, pattern="none"
    ),
]
