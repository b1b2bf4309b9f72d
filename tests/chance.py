"""The same random numbers each time: what fails by chance is looked for by more seeds, not by running more often."""

import random
import sys


def seed_all() -> None:
    """Of Python, and of NumPy and torch where they are loaded. Cost: about 20 us."""
    random.seed(0)
    for name, seed in (("numpy.random", "seed"), ("torch", "manual_seed")):
        if name in sys.modules:
            getattr(sys.modules[name], seed)(0)
