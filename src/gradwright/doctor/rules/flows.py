"""What the rules on vanishing and exploding gradients share: rows of a chain of layers, and how they are told."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gradwright.doctor.session.facts import GradientFlow

FEWEST_LOOKS, LAST_STEP = 4, 6


def finite_rows(flow: GradientFlow) -> list[int]:
    """The looks at which every norm of the chain is a number."""
    return [
        index
        for index, ratios in enumerate(flow.ratios)
        if ratios and all(map(math.isfinite, ratios)) and not any(map(math.isinf, flow.biases[index]))
    ]


def listed_layers(flow: GradientFlow, values: Sequence[float], most: int = 6) -> str:
    """``4.2 (8.weight), 0.1 (6.weight) ... 3e-09 (0.weight)``, from the loss down."""
    texts = [f"{value:.2g} ({name})" for value, name in zip(values, flow.layers, strict=True)]
    half = most // 2
    return ", ".join(texts) if len(texts) <= most else ", ".join(texts[:half]) + " ... " + ", ".join(texts[-half:])
