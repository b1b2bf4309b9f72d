"""Uses of index tensors."""

import torch
from tests.derivatives.nodes.judge import Case, given

COUNT, LABEL, SHUFFLED = torch.arange(4), torch.tensor([0, 2, 2, 1]), torch.tensor([1, 0, 3, 2])
TWO, MASK = torch.tensor([2, 0]), torch.tensor([True, False, True])
PICK = torch.tensor([[0], [2], [1], [0]])


def put(z, indices, values, accumulate=False):
    return torch.ops.aten.index_put(z, indices, values, accumulate)


CASES = [
    Case("columns", lambda z: z[:, TWO], (4, 3), {0: 0}),
    Case("columns-repeated", lambda z: z[:, torch.tensor([2, 2, 0])], (4, 3), {0: 0}),
    Case("columns-masked", lambda z: z[:, MASK], (4, 3), {0: 0}),
    Case("rows-shuffled", lambda z: z[SHUFFLED], (4, 3), {1: 1}, pattern="exact"),
    Case("rows-counted", lambda z: z[COUNT], (4, 1), {0: 0}, pattern="none"),
    Case("label-of-each", lambda z: z[COUNT, LABEL], (4, 3), {0: 0}, pattern="none"),
    Case("label-of-each-shuffled", lambda z: z[SHUFFLED, LABEL], (4, 3), {}),
    Case("labels-of-each", lambda z: z[COUNT[:, None], PICK.expand(4, 2)], (4, 3), {0: 0}, pattern="none"),
    Case("labels-of-each-across", lambda z: z[COUNT, PICK.expand(4, 4)], (4, 3), {1: 0}, pattern="none"),
    Case("one-row-for-all", lambda z: z[torch.zeros(2, dtype=torch.long), TWO], (2, 3), {}),
    Case("two-axes", lambda z: z[:, TWO, torch.tensor([[1], [0]])], (4, 3, 2), {0: 0}),
    Case("two-axes-apart", lambda z: z[TWO[None], :, TWO], (3, 2, 3), {2: 1}),
    Case("apart-behind-the-batch", lambda z: z[:, TWO, :, TWO], (4, 3, 2, 3), {1: 0, 2: 2}),
    Case("masked-across", lambda z: z[torch.ones(4, 3, dtype=torch.bool)], (4, 3), {}),
    Case("index-select", lambda z: z.index_select(1, TWO), (4, 3), {0: 0}),
    Case("index-select-rows", lambda z: z.index_select(0, SHUFFLED), (4, 3), {1: 1}),
    Case("gather", lambda z: z.gather(1, PICK), (4, 3), {0: 0}, pattern="covers"),
    Case("gather-last", lambda z: z.gather(-1, PICK.expand(4, 2)), (4, 3), {0: 0}, pattern="covers"),
    Case("gather-short", lambda z: z.gather(1, PICK[:2]), (4, 3), {}),
    Case("gather-rows", lambda z: z.gather(0, PICK.expand(4, 3)), (4, 3), {1: 1}, pattern="covers"),
    Case("scatter", lambda z: z.scatter(1, PICK, z[:, :1]), (4, 3), {0: 0}, pattern="covers"),
    Case("scatter-source", lambda z: given(4, 3).scatter(1, PICK, z), (4, 1), {0: 0}, pattern="covers"),
    Case("scatter-over", lambda z: given(4, 3).scatter(1, PICK.expand(4, 2), z), (4, 2), {0: 0}, pattern="covers"),
    Case("scatter-number", lambda z: z.scatter(-1, PICK, 2.0), (4, 3), {0: 0, 1: 1}, pattern="covers"),
    Case("scatter-rows", lambda z: given(4, 1).scatter(0, PICK, z), (4, 1), {}, pattern="covers"),
    Case("scatter-add", lambda z: z.scatter_add(1, PICK.expand(4, 2), z[:, :2]), (4, 3), {0: 0}, pattern="covers"),
    Case("scatter-add-rows", lambda z: given(4, 1).scatter_add(0, PICK, z), (4, 1), {}),
    Case("index-add", lambda z: z.index_add(1, TWO, z[:, :2], alpha=2), (4, 3), {0: 0}, pattern="covers"),
    Case("index-add-rows", lambda z: given(4, 3).index_add(0, SHUFFLED, z), (4, 3), {1: 1}, pattern="covers"),
    Case("index-copy", lambda z: z.index_copy(1, TWO, z[:, 1:]), (4, 3), {0: 0}, pattern="covers"),
    Case("index-fill", lambda z: z.index_fill(1, TWO, 0.5), (4, 3), {0: 0, 1: 1}, pattern="covers"),
    Case("put-self", lambda z: put(z, (COUNT, LABEL), given(4)), (4, 3), {0: 0, 1: 1}, pattern="covers"),
    Case("put-values", lambda z: put(given(4, 3), (COUNT, LABEL), z), (4,), {0: 0}, pattern="none"),
    Case("put-values-shuffled", lambda z: put(given(4, 3), (SHUFFLED, LABEL), z), (4,), {}, pattern="none"),
    Case("put-both", lambda z: put(z, (COUNT, LABEL), z[:, 0], True), (4, 3), {0: 0}, pattern="none"),
    Case("put-columns", lambda z: put(given(4, 3), (None, TWO), z), (4, 2), {0: 0}, pattern="none"),
    Case("put-broadcast", lambda z: put(given(4, 3), (COUNT[:2], LABEL[:2]), z), (1,), {}, pattern="none"),
    Case("put-apart", lambda z: put(given(3, 2, 3), (TWO, None, TWO), z), (2, 2), {1: 1}, 0, "none"),
]
