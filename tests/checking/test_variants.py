"""Which other calls are made out of one."""

import torch

from gradwright.checking.variants import free_sizes, option_variants, shape_variants, small_call, unsymmetric


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


class Fn(torch.autograd.Function):
    pass


def shapes(variants):
    return [tuple(tuple(v.shape) for v in variant.args if isinstance(v, torch.Tensor)) for variant in variants]


def test_a_size_that_the_code_or_an_object_knows_stays_what_it_is():
    width = 7
    assert free_sizes(Fn, (draw(3, 7),)) == [3, 7]
    assert free_sizes(lambda x: x.reshape(-1, 7), (draw(3, 7),)) == [3]
    assert free_sizes(lambda x: x.reshape(-1, width), (draw(3, 7),)) == [3]
    assert free_sizes(torch.nn.LayerNorm(7), (draw(3, 7),)) == [3]
    assert free_sizes(Fn, (draw(3, 7), torch.nn.Linear(7, 2))) == [3]


def test_each_size_becomes_one_and_an_odd_prime_and_the_first_axis_is_doubled():
    found = shapes(shape_variants((draw(6, 4), draw(4)), [6, 4], 0))
    assert ((1, 4), (4,)) in found and ((6, 1), (1,)) in found and ((12, 4), (4,)) in found
    assert any(set(x) <= {3, 5, 7} and b == (x[1],) for x, b in found)


def test_square_matrices_are_made_not_square():
    found = [variant for variant in shape_variants((draw(4, 4), draw(4, 4)), [4], 0) if variant.key == "not square"]
    assert ((3, 4), (3, 4)) in shapes(found) and ((3, 4), (4, 4)) in shapes(found)
    assert all(variant.may_raise for variant in found)


def test_symmetric_matrices_lose_it_and_positive_definite_ones_do_not():
    x = draw(4, 4)
    (variant,) = unsymmetric((x + x.mT,), 0)
    assert not torch.equal(variant.args[0], variant.args[0].mT)
    assert list(unsymmetric((x @ x.mT + torch.eye(4),), 0)) == []


def test_options_change_one_at_a_time():
    args = (draw(3, 4), 1, "mean", 2, None)
    found = [variant.key for variant in option_variants(args, ("x", "dim", "reduction", "k", "y"))]
    assert found == ["dim=0", "dim=-2", "dim=-1", "reduction='none'", "reduction='sum'"]


def test_no_switch_is_thrown_and_no_unknown_string_set():
    args = (draw(3, 4), True, False, "tanh", True)
    assert list(option_variants(args, ("x", "training", "fp8_input_store", "approximate", "keep_dim"))) == []


def test_a_large_call_is_made_small_twice_over():
    (primes, powers) = small_call((draw(300, 64),), [300, 64], 0)
    assert (primes[0].shape, powers[0].shape) == ((5, 3), (4, 2))
