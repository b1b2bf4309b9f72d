"""Random states come back as they were, also where a call is interrupted; held once, many calls only seed."""

import random

import numpy as np
import pytest
import torch

from gradwright.checking.chance import chance_held, reproducible, signed


def states():
    numpy_state = np.random.get_state()
    return torch.get_rng_state().tolist(), random.getstate(), numpy_state[1].tolist(), numpy_state[2:]


def disturb():
    torch.randn(3)
    random.gauss(0, 1)
    np.random.standard_normal()


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_every_state_is_restored(held, error):
    disturb()
    before = states()
    try:
        with chance_held() if held else reproducible(3):
            with reproducible(5):
                disturb()
            disturb()
            if error is not None:
                raise error
    except (ValueError, KeyboardInterrupt):
        pass
    assert states() == before


@pytest.mark.parametrize("held", [False, True])
def test_the_same_seed_gives_the_same_numbers(held):
    def drawn():
        with reproducible(7):
            return torch.rand(2).tolist(), random.random(), np.random.random()

    if not held:
        assert drawn() == drawn()
        return
    with chance_held():
        assert drawn() == drawn()


def test_signed_numbers_are_of_both_signs_and_none_is_small():
    for count in (2, 3, 1000):
        numbers = signed((count,), torch.Generator().manual_seed(count))
        assert float(numbers.abs().min()) >= 0.25 and float(numbers.abs().max()) < 4.01
        assert (numbers > 0).any() and (numbers < 0).any()
