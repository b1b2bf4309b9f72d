"""Several Python threads use kernels at once."""

import threading
from collections.abc import Callable

import torch
from tests.kernels.machine.by_hand import Call, scaled, times
from tests.kernels.machine.in_llvm import met

from gradwright.kernels.machine.compiling import kernel


def at_once(work: Callable[[int], None], count: int = 8) -> None:
    """``work(0)``, ``work(1)``, ... in so many threads, which start together; the first exception is raised."""
    start, errors = threading.Barrier(count), []

    def one(number: int) -> None:
        start.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_threads_launch_the_same_kernel_at_once() -> None:
    triple = kernel(scaled(3), "triple")

    def work(number: int) -> None:
        for turn in range(200):
            count = 1000 + 10 * number + turn
            assert Call(count).run(triple, 1 + turn % 4) == times(3, count)

    at_once(work)


def test_threads_compile_and_launch_kernels_of_their_own_at_once() -> None:
    def work(number: int) -> None:
        for factor in (number, number + 1):  # so that each is wanted by two threads
            assert Call().run(kernel(scaled(factor), "times"), 2) == times(factor)

    at_once(work)


def test_threads_launch_beside_torch_s_own_threads() -> None:
    triple = kernel(scaled(3), "triple")
    a = torch.arange(300.0 * 300).reshape(300, 300) / 300
    product = a @ a

    def work(number: int) -> None:
        for _ in range(20):
            if number % 2:
                assert torch.equal(a @ a, product)
            else:
                assert Call(20_000).run(triple, 2) == times(3, 20_000)

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        at_once(work, 4)
    finally:
        torch.set_num_threads(before)


def test_a_launch_from_inside_autograd_s_backward_is_like_any_other() -> None:
    met()
    results = []

    class Watched(torch.autograd.Function):
        @staticmethod
        def forward(ctx: torch.autograd.function.FunctionCtx, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: torch.autograd.function.FunctionCtx, cotangent: torch.Tensor) -> torch.Tensor:
            results.append(Call().run(kernel(scaled(3), "triple"), 2))
            return cotangent

    def work(number: int) -> None:
        Watched.apply(torch.ones(2, requires_grad=True)).sum().backward()

    at_once(work, 4)
    assert results == [times(3)] * 4
