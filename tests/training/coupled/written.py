"""Losses as people write them, of small networks: those that couple the samples of a batch, and those that do not."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gradwright import losses

N, C, SIDE, TOKENS, WORDS = 8, 4, 8, 16, 8  # as many features as samples, tokens a multiple: sizes tell nothing
EACH = torch.arange(N)


class TimeFirst(nn.Module):
    """A recurrent network that has the batch second inside."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.layer, self.head = nn.Embedding(11, 6), nn.LSTM(6, 6), nn.Linear(6, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.layer(self.words(tokens).transpose(0, 1))[0])[..., 0]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(11, 6), nn.Parameter(torch.randn(TOKENS, 6))
        self.layer = nn.TransformerEncoderLayer(6, 2, 12, dropout=0.0, batch_first=True)
        self.head = nn.Linear(6, WORDS)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.layer(self.words(tokens) + self.places))


torch.manual_seed(0)
IMAGES = torch.randn(N, 3, SIDE, SIDE)
LABELS = torch.randint(0, C, (N, SIDE, SIDE))
MASKS = F.one_hot(LABELS, C).permute(0, 3, 1, 2).float()
ROWS, KINDS = torch.randn(N, 5), torch.randint(0, 3, (N,))
TEXT, NEXT = torch.randint(0, 11, (N, TOKENS)), torch.randint(0, WORDS, (N, TOKENS))
ONES = torch.ones(N, 8)
CONV = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1),
    nn.GroupNorm(4, 16), nn.Upsample(scale_factor=2), nn.ReLU(), nn.Conv2d(16, C, 1),
)  # fmt: skip
MLP = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8))
TIME_FIRST, ATTENTION = TimeFirst(), Attention()
WORDS_ALONE = nn.Sequential(nn.Embedding(11, 6), nn.Linear(6, WORDS))
WEIGHT = nn.Parameter(torch.ones(()))


def scores() -> Tensor:
    return CONV(IMAGES)


def shares() -> Tensor:
    return scores().softmax(1)


def one() -> Tensor:
    return F.normalize(MLP(ROWS), dim=1)


def other() -> Tensor:
    return F.normalize(MLP(ROWS + 0.1), dim=1)


def similar() -> Tensor:
    return one() @ other().T / 0.1


def by_class(values: Tensor) -> Tensor:
    return values.transpose(0, 1).reshape(C, -1)


def tversky(p: Tensor) -> Tensor:
    hit = (p * MASKS).sum()
    return 1 - hit / (hit + 0.3 * (p * (1 - MASKS)).sum() + 0.7 * ((1 - p) * MASKS).sum())


def jaccard(p: Tensor) -> Tensor:
    hit = (p * MASKS).sum()
    return 1 - hit / ((p + MASKS).sum() - hit)


def supervised_contrastive() -> Tensor:
    features = one()
    logits = features @ features.T / 0.1
    logits = logits - logits.max(1, keepdim=True).values.detach()
    others = 1 - torch.eye(N)
    same = (KINDS[:, None] == KINDS).float() * others
    logarithms = logits - (logits.exp() * others).sum(1, keepdim=True).log()
    return -((same * logarithms).sum(1) / same.sum(1).clamp_min(1)).mean()


def batch_hard() -> Tensor:
    distances, same = torch.cdist(one(), one()), KINDS[:, None] == KINDS
    farthest = distances.masked_fill(~same, -1e9).max(1).values
    nearest = distances.masked_fill(same, 1e9).min(1).values
    return F.relu(farthest - nearest + 0.2).mean()


def pearson() -> Tensor:
    a, b = MLP(ROWS)[:, 0], MLP(ROWS)[:, 1]
    a, b = a - a.mean(), b - b.mean()
    return 1 - (a * b).sum() / (a.norm() * b.norm())


def barlow_twins() -> Tensor:
    a, b = MLP(ROWS), MLP(ROWS + 0.1)
    a, b = (a - a.mean(0)) / a.std(0), (b - b.mean(0)) / b.std(0)
    return ((a.T @ b / N - torch.eye(8)) ** 2).sum()


def lovasz() -> Tensor:
    p, truth = scores()[:, 0].reshape(-1), (LABELS == 0).float().reshape(-1)
    errors, _ = torch.sort(1 - p * (2 * truth - 1), 0, True)
    return torch.dot(F.relu(errors), torch.rand(errors.shape))


def nt_xent() -> Tensor:
    both = torch.cat([one(), other()])
    logits = (both @ both.T / 0.1).masked_fill(torch.eye(2 * N, dtype=torch.bool), -1e9)
    return F.cross_entropy(logits, torch.cat([EACH + N, EACH]))


def entropy_of_mean(p: Tensor) -> Tensor:
    return (p * p.log()).sum()


def cox(risk: Tensor) -> Tensor:
    return -(risk - risk.logcumsumexp(0)).mean()


def in_both_directions(logits: Tensor) -> Tensor:
    return (F.cross_entropy(logits, EACH) + F.cross_entropy(logits.T, EACH)) / 2


COUPLED = {
    "dice": lambda: 1 - 2 * (shares() * MASKS).sum() / (shares().sum() + MASKS.sum()),
    "dice of classes": lambda: (
        1 - (2 * (shares() * MASKS).sum((0, 2, 3)) + 1) / ((shares() + MASKS).sum((0, 2, 3)) + 1)
    ).mean(),
    "dice, classes in rows": lambda: (
        1 - 2 * by_class(shares() * MASKS).sum(-1) / by_class(shares() + MASKS).sum(-1).clamp_min(1e-6)
    ).mean(),
    "dice by einsum": lambda: (
        1 - 2 * torch.einsum("nchw,nchw->c", shares(), MASKS) / (shares() + MASKS).sum((0, 2, 3))
    ).mean(),
    "dice of one row": lambda: (
        1 - 2 * (shares().reshape(-1) * MASKS.reshape(-1)).sum() / (shares().reshape(-1).sum() + MASKS.sum())
    ),
    "log dice": lambda: -(2 * (shares() * MASKS).sum() / (shares() + MASKS).sum()).log(),
    "dice of a sigmoid": lambda: (
        1 - 2 * (scores()[:, 0].sigmoid() * MASKS[:, 0]).sum() / (scores()[:, 0].sigmoid() + MASKS[:, 0]).sum()
    ),
    "cross entropy and dice": lambda: (
        F.cross_entropy(scores(), LABELS) + (1 - 2 * (shares() * MASKS).sum() / (shares().sum() + MASKS.sum()))
    ),
    "jaccard": lambda: jaccard(shares()),
    "tversky": lambda: tversky(shares()),
    "focal tversky": lambda: tversky(shares()) ** 0.75,
    "lovasz": lovasz,
    "root of a mean square": lambda: F.mse_loss(MLP(ROWS), ONES).sqrt(),
    "norm of all": lambda: torch.norm(MLP(ROWS) - 1),
    "info nce": lambda: F.cross_entropy(similar(), EACH),
    "info nce, sum": lambda: F.cross_entropy(similar(), EACH, reduction="sum"),
    "clip": lambda: in_both_directions(similar()),
    "nt xent": nt_xent,
    "info nce by logsumexp": lambda: (lambda s: -(s.diag() - s.logsumexp(1)).mean())(similar()),
    "info nce by exp": lambda: (lambda s: -(s.diag() / s.sum(1)).log().mean())(similar().exp()),
    "supervised contrastive": supervised_contrastive,
    "batch hard": batch_hard,
    "pearson": pearson,
    "barlow twins": barlow_twins,
    "vicreg's spread": lambda: F.relu(1 - MLP(ROWS).std(0)).mean(),
    "entropy of the mean": lambda: entropy_of_mean(MLP(ROWS).softmax(1).mean(0)),
    "cox": lambda: cox(MLP(ROWS)[:, 0]),
    "quotient of errors": lambda: ((MLP(ROWS)[:, 0] - 1) ** 2).sum() / ((MLP(ROWS)[:, 1] - 2) ** 2).sum(),
    "decorrelation": lambda: ((MLP(ROWS).T @ MLP(ROWS) / N) ** 2).sum(),
    "gw dice": lambda: losses.dice_loss(scores(), LABELS, "multiclass"),
    "gw lovasz": lambda: losses.lovasz_softmax_loss(scores(), LABELS),
    "gw info nce": lambda: losses.info_nce_loss(MLP(ROWS), MLP(ROWS + 0.1)),
    "gw info nce, both": lambda: losses.info_nce_loss(MLP(ROWS), MLP(ROWS + 0.1), symmetric=True),
}


def masked(each: Tensor, counts: Tensor) -> Tensor:
    return (each * counts).sum() / counts.sum()


def dice_of(p: Tensor, t: Tensor) -> Tensor:
    return 1 - 2 * (p * t).sum() / (p.sum() + t.sum())


def evidence(h: Tensor) -> Tensor:
    mean, log = h[:, :4], h[:, 4:]
    return F.mse_loss(mean, ONES[:, :4]) - 0.5 * (1 + log - mean**2 - log.exp()).sum(1).mean()


def softmax_by_hand(z: Tensor) -> Tensor:
    """With the largest of all subtracted, which cancels."""
    return -((z - z.max()).exp()[EACH, KINDS] / (z - z.max()).exp().sum(1)).log().mean()


def focal(log_p: Tensor) -> Tensor:
    return (-((1 - log_p.exp()) ** 2) * log_p).mean()


SPLIT = {
    "cross entropy": lambda: F.cross_entropy(scores(), LABELS),
    "cross entropy, sum": lambda: F.cross_entropy(scores(), LABELS, reduction="sum"),
    "cross entropy, none, mean": lambda: F.cross_entropy(scores(), LABELS, reduction="none").mean(),
    "cross entropy, masked": lambda: masked(F.cross_entropy(scores(), LABELS, reduction="none"), (LABELS > 0).float()),
    "cross entropy, chosen": lambda: F.cross_entropy(scores(), LABELS, reduction="none")[LABELS > 0].mean(),
    "cross entropy of images": lambda: F.cross_entropy(scores(), LABELS, reduction="none").flatten(1).mean(1).mean(),
    "dice of images": lambda: (1 - 2 * (shares() * MASKS).sum((1, 2, 3)) / (shares() + MASKS).sum((1, 2, 3))).mean(),
    "dice of images and classes": lambda: (
        1 - 2 * (shares() * MASKS).sum((2, 3)) / (shares() + MASKS).sum((2, 3))
    ).mean(),
    "dice of images, flat": lambda: (
        1 - 2 * (shares() * MASKS).flatten(1).sum(1) / (shares() + MASKS).flatten(1).sum(1)
    ).mean(),
    "dice of images, viewed, sum": lambda: (
        1 - 2 * (shares() * MASKS).view(N, -1).sum(-1) / (shares() + MASKS).view(N, -1).sum(-1)
    ).sum(),
    "dice in a loop": lambda: torch.stack([dice_of(p, t) for p, t in zip(shares(), MASKS, strict=True)]).mean(),
    "dice in a loop, sum": lambda: sum(dice_of(shares()[i], MASKS[i]) for i in range(N)) / N,
    "dice in a loop of slices": lambda: sum(dice_of(shares()[i : i + 1], MASKS[i : i + 1]) for i in range(N)) / N,
    "gw dice in a loop": lambda: (
        sum(losses.dice_loss(scores()[i : i + 1], LABELS[i : i + 1], "multiclass") for i in range(N)) / N
    ),
    "gw lovasz of images": lambda: losses.lovasz_softmax_loss(scores(), LABELS, per_image=True),
    "mean square": lambda: F.mse_loss(MLP(ROWS), ONES),
    "mean square by hand": lambda: ((MLP(ROWS) - 1) ** 2).mean(),
    "root of each mean square": lambda: ((MLP(ROWS) - 1) ** 2).mean(1).sqrt().mean(),
    "norm of each": lambda: (MLP(ROWS) - 1).norm(dim=1).mean(),
    "cosines": lambda: (1 - F.cosine_similarity(MLP(ROWS), ONES)).mean(),
    "cosines by hand": lambda: -(one() * other()).sum(1).mean(),
    "learned weight": lambda: F.mse_loss(MLP(ROWS), ONES) * torch.exp(-WEIGHT) + WEIGHT,
    "learned spread": lambda: F.mse_loss(MLP(ROWS), ONES) / (2 * WEIGHT**2) + WEIGHT.log(),
    "norms of parameters": lambda: (
        F.mse_loss(MLP(ROWS), ONES) + 0.1 * sum(parameter.pow(2).sum().sqrt() for parameter in MLP.parameters())
    ),
    "orthogonal weights": lambda: (
        F.mse_loss(MLP(ROWS), ONES) + ((MLP[3].weight @ MLP[3].weight.T - torch.eye(8)) ** 2).sum().sqrt()
    ),
    "words": lambda: F.cross_entropy(ATTENTION(TEXT).view(-1, WORDS), NEXT.view(-1)),
    "words, classes second": lambda: F.cross_entropy(ATTENTION(TEXT).transpose(1, 2), NEXT),
    "words by gather": lambda: -ATTENTION(TEXT).log_softmax(-1).gather(-1, NEXT[..., None]).mean(),
    "root of each text, time first": lambda: ((TIME_FIRST(TEXT) - 1) ** 2).sum(0).sqrt().mean(),
    "root of each text": lambda: ((ATTENTION(TEXT)[..., 0] - 1) ** 2).sum(1).sqrt().mean(),
    "root of each text, of words alone": lambda: ((WORDS_ALONE(TEXT)[..., 0] - 1) ** 2).sum(1).sqrt().mean(),
    "softmax by hand": lambda: softmax_by_hand(MLP(ROWS)),
    "kl": lambda: F.kl_div(MLP(ROWS).log_softmax(1), MLP(ROWS + 0.1).softmax(1), reduction="batchmean"),
    "evidence bound": lambda: evidence(MLP(ROWS)),
    "gan": lambda: F.softplus(-MLP(ROWS)[:, 0]).mean() + F.softplus(MLP(ROWS)[:, 1]).mean(),
    "gan by log": lambda: -MLP(ROWS).sigmoid().log().mean(),
    "triplets": lambda: F.triplet_margin_loss(MLP(ROWS), MLP(ROWS + 1), MLP(ROWS - 1)),
    "pairs on the diagonal": lambda: -(one() @ other().T).diag().mean(),
    "pairs by a mask": lambda: -((one() @ other().T) * torch.eye(N)).sum(),
    "attention pooling": lambda: (lambda h: F.mse_loss((h * h[..., :1].softmax(1)).sum(1), ONES))(ATTENTION(TEXT)),
    "gaussian": lambda: F.gaussian_nll_loss(MLP(ROWS), ONES, MLP(ROWS + 1).exp()),
    "ppo": lambda: -torch.min(MLP(ROWS).exp() * 0.5, MLP(ROWS).exp().clamp(0.8, 1.2) * 0.5).mean(),
    "focal": lambda: focal(MLP(ROWS).log_softmax(1)[EACH, KINDS]),
    "quotient of each": lambda: (lambda b: (b[:, 0].sigmoid() / (b[:, 2].exp() + b[:, 3].exp())).mean())(MLP(ROWS)),
    "prototypes": lambda: F.cross_entropy(-torch.cdist(MLP(ROWS), MLP[3].weight), torch.zeros(N, dtype=torch.long)),
    "mean over samples, sum": lambda: (MLP(ROWS) ** 2).mean(0).sum(),
    "gram matrices of texts": lambda: ((ATTENTION(TEXT) @ ATTENTION(TEXT).transpose(1, 2)).softmax(-1) ** 2).mean(),
    "gram matrices of images": lambda: (lambda f: ((f.flatten(2) @ f.flatten(2).transpose(1, 2) - 1) ** 2).mean())(
        scores()
    ),
}
