"""The engines that a model trains on: each says how its ranks share gradients."""

from gradwright.training.engines.choosing import engine_of as engine_of
from gradwright.training.engines.engine import Engine as Engine
