"""Indices, sums along an axis, convolutions, images, rotations."""

import torch
import torch.nn.functional as F
from torch import Tensor

from corpora.derived.forward import Forward, bits, fixed, images, labels, real, rows, sequences, unit


def embedding_bag(table: Tensor, tokens: Tensor) -> Tensor:
    return F.embedding(tokens, table).mean(dim=1)


def embedding_by_index(table: Tensor, tokens: Tensor, scale: Tensor) -> Tensor:
    return table[tokens] * scale


def matrix_factorisation(users: Tensor, items: Tensor, user: Tensor, item: Tensor) -> Tensor:
    return (users[user] * items[item]).sum(-1)


def segment_mean(x: Tensor, segment: Tensor) -> Tensor:
    total = torch.zeros(8, x.shape[1], dtype=x.dtype).index_add(0, segment, x)
    count = torch.zeros(8, dtype=x.dtype).index_add(0, segment, torch.ones_like(x[:, 0]))
    return total / count.clamp(min=1)[:, None]


def message_passing(x: Tensor, source: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    messages = torch.relu(x[source] @ weight)
    return torch.zeros(x.shape[0], weight.shape[1], dtype=x.dtype).index_add(0, target, messages)


def exponential_cumsum(x: Tensor) -> Tensor:
    return torch.cumsum(torch.exp(x), dim=-1)


def survival(hazard: Tensor) -> Tensor:
    return torch.exp(-torch.cumsum(F.softplus(hazard), dim=1))


def alpha_compositing(density: Tensor, colour: Tensor) -> Tensor:
    alpha = 1 - torch.exp(-density)
    light = torch.exp(-(torch.cumsum(density, -1) - density))
    return (alpha * light * colour).sum(-1)


def logsumexp_by_hand(x: Tensor) -> Tensor:
    top = x.max(dim=-1, keepdim=True).values
    return (x - top).exp().sum(-1).log() + top.squeeze(-1)


def softmax_with_temperature(x: Tensor, temperature: Tensor) -> Tensor:
    return F.softmax(x / temperature, dim=-1)


def gumbel_softmax(logits: Tensor, noise: Tensor, tau: float = 0.7) -> Tensor:
    return torch.softmax((logits - torch.log(-torch.log(noise))) / tau, dim=-1)


def entropy_of_softmax(logits: Tensor) -> Tensor:
    p = torch.softmax(logits, -1)
    return -(p * torch.log(p + 1e-9)).sum(-1)


def soft_argmax(heat: Tensor) -> Tensor:
    weights = torch.softmax(heat, dim=-1)
    return (weights * torch.arange(heat.shape[-1], dtype=heat.dtype)).sum(-1)


def rotary_embedding(x: Tensor) -> Tensor:
    length, width = x.shape[-2:]
    frequency = 10000 ** (-torch.arange(0, width, 2, dtype=x.dtype) / width)
    angle = torch.arange(length, dtype=x.dtype)[:, None] * frequency
    a, b = x[..., 0::2], x[..., 1::2]
    turned = torch.stack((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), dim=-1)
    return turned.flatten(-2)


def rotate_half(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def convolution(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.relu(F.conv2d(x, weight, bias, padding=1))


def depthwise_separable(x: Tensor, depth: Tensor, point: Tensor) -> Tensor:
    return F.conv2d(F.conv2d(x, depth, padding=1, groups=x.shape[1]), point)


def upsample(x: Tensor) -> Tensor:
    return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False) ** 2


def pool_and_square(x: Tensor) -> Tensor:
    return F.avg_pool2d(x, 2) ** 2


def max_pool(x: Tensor) -> Tensor:
    return F.max_pool2d(torch.tanh(x), 2)


def total_variation(x: Tensor) -> Tensor:
    across = (x[..., :, 1:] - x[..., :, :-1]).abs().mean()
    down = (x[..., 1:, :] - x[..., :-1, :]).abs().mean()
    return across + down


def sobel_energy(x: Tensor) -> Tensor:
    kernel = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]], dtype=x.dtype).expand(x.shape[1], 1, 3, 3)
    return F.conv2d(x, kernel, groups=x.shape[1]).pow(2).mean((1, 2, 3))


def finite_difference_time(x: Tensor) -> Tensor:
    return F.pad(x[:, 1:] - x[:, :-1], (0, 1)) + x.flip(-1)


def moving_average(x: Tensor, decay: Tensor) -> Tensor:
    state = x[:, 0]
    states = [state]
    for step in range(1, 4):
        state = decay * state + (1 - decay) * x[:, step]
        states.append(state)
    return torch.stack(states, dim=1)


def broadcast_bias(x: Tensor, row: Tensor, column: Tensor) -> Tensor:
    return torch.sigmoid(x + row + column)


def fourier_features(x: Tensor, frequencies: Tensor) -> Tensor:
    phase = x.unsqueeze(-1) * frequencies
    return torch.cat((phase.sin(), phase.cos()), dim=-1)


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    return (x * mask).sum(-1) / mask.sum(-1).clamp(min=1)


def top_half_mean(x: Tensor) -> Tensor:
    return x.topk(4, dim=-1).values.mean(-1)


_ROWS = (exponential_cumsum, survival, logsumexp_by_hand, entropy_of_softmax, soft_argmax, finite_difference_time,
         top_half_mean)  # fmt: skip
_IMAGES = (upsample, pool_and_square, max_pool, total_variation, sobel_energy)

FORWARDS = (
    *(Forward(function, lambda n: (real(*rows(n)),)) for function in _ROWS),
    *(Forward(function, lambda n: (real(*images(n)),)) for function in _IMAGES),
    Forward(embedding_bag, lambda n: (real(*rows(n)), labels(rows(n)[0], rows(n)[0], 2))),
    Forward(embedding_by_index, lambda n: (real(*rows(n)), labels(rows(n)[0], rows(n)[0]), real(rows(n)[1]))),
    Forward(
        matrix_factorisation,
        lambda n: (real(*rows(n)), real(*rows(n)), labels(rows(n)[0], rows(n)[0]), labels(rows(n)[0], rows(n)[0])),
    ),
    Forward(segment_mean, lambda n: (real(*rows(n)), labels(8, rows(n)[0]))),
    Forward(
        message_passing,
        lambda n: (
            real(*rows(n)),
            labels(rows(n)[0], 2 * rows(n)[0]),
            labels(rows(n)[0], 2 * rows(n)[0]),
            real(rows(n)[1], 8),
        ),
    ),
    Forward(alpha_compositing, lambda n: (unit(*rows(n)), real(*rows(n)))),
    Forward(softmax_with_temperature, lambda n: (real(*rows(n)), unit(1))),
    Forward(gumbel_softmax, lambda n: (real(*rows(n)), unit(*rows(n)).detach())),
    Forward(rotary_embedding, lambda n: (real(*sequences(n)),)),
    Forward(rotate_half, lambda n: (real(*sequences(n)), fixed(*sequences(n)[1:]), fixed(*sequences(n)[1:]))),
    Forward(convolution, lambda n: (real(*images(n)), real(3, 4, 3, 3), real(3))),
    Forward(depthwise_separable, lambda n: (real(*images(n)), real(4, 1, 3, 3), real(6, 4, 1, 1))),
    Forward(moving_average, lambda n: (real(n // 4, 4), unit(1))),
    Forward(broadcast_bias, lambda n: (real(*rows(n)), real(rows(n)[1]), real(rows(n)[0], 1))),
    Forward(fourier_features, lambda n: (real(n // 8), real(8))),
    Forward(masked_mean, lambda n: (real(*rows(n)), bits(*rows(n)))),
)
