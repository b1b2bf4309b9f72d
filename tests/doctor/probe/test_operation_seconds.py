"""Operations are timed by what stands in the text, each from where it begins to where it ends."""

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from gradwright.doctor.probe.operation_seconds import time_operations


class Costing(TorchDispatchMode):
    """Makes a clock go on, by what an operation is said to cost."""

    def __init__(self, costs: dict[str, float]) -> None:
        super().__init__()
        self.costs, self.now = costs, 0.0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.now += self.costs.get(func.overloadpacket.__name__, 0.0)
        return func(*args, **(kwargs or {}))


def one_line(x: Tensor, clock: Costing) -> Tensor:
    clock.now += 1000.0
    return (x @ x) + x * 2 + x * 3


def test_one_expression_has_fifty_times_the_work_of_another_on_its_line() -> None:
    x = torch.ones(2, 2)
    with Costing({"mm": 50.0, "mul": 1.0, "add": 0.5}) as clock:
        taken = time_operations(lambda: one_line(x, clock), 10.0, clock=lambda: clock.now)
    assert sorted(taken.values()) == [0.5, 0.5, 1.0, 1.0, 50.0]
    assert {code for code, _ in taken} == {one_line.__code__}


def test_an_expression_in_a_loop_adds_up() -> None:
    def loop(x: Tensor) -> None:
        for _ in range(7):
            x = x * 2

    with Costing({"mul": 3.0}) as clock:
        taken = time_operations(lambda: loop(torch.ones(2)), 10.0, clock=lambda: clock.now)
    assert taken.pop(next(key for key in taken if key[0] is loop.__code__)) == 21.0


def test_what_comes_after_the_time_is_not_seen() -> None:
    def endless(x: Tensor) -> None:
        while True:
            x = x * 2

    assert time_operations(lambda: endless(torch.ones(2)), -1.0)
