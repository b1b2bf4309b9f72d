"""What the programs start from."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ...programs.values import VALUES

jax.config.update("jax_enable_x64", True)

X = jnp.array(VALUES)
BATCH = jnp.array(((0.5, -1.0, 2.0), (1.0, 3.0, -2.0)))


def summed(function: Any) -> Any:
    return lambda *given: function(*given).sum()


def gradient_of(function: Any, *given: Any, **options: Any) -> Any:
    return jax.grad(summed(function), **options)(*given)
