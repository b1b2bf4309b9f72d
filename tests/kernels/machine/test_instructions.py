"""What a generated kernel loads, stores and selects; and that LLVM vectorises it without looking at addresses."""

from collections.abc import Sequence

import pytest
import torch
from tests.kernels.one_loop import KINDS, called, compiled, source
from torch import Tensor

from gradwright.kernels.machine.lowering import llvm_text
from gradwright.kernels.machine.processor import object_code, parsed

EVERY_16_BITS = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
OPERANDS = {
    torch.float32: torch.tensor([0.0, -0.0, 1.1, -3e38, 1e-45, torch.inf, -torch.inf, torch.nan]),
    torch.float64: torch.tensor([0.0, -0.0, 1.1, -3e300, 5e-324, torch.inf, torch.nan], dtype=torch.float64),
    torch.float16: EVERY_16_BITS.view(torch.float16),
    torch.bfloat16: EVERY_16_BITS.view(torch.bfloat16),
    torch.int8: torch.arange(-128, 128).to(torch.int8),
    torch.uint8: torch.arange(256).to(torch.uint8),
    torch.int16: EVERY_16_BITS,
    torch.int32: torch.tensor([0, 1, -1, 2**31 - 1, -(2**31), 2**24 + 1, 33554435]).to(torch.int32),
    torch.int64: torch.tensor([0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1, 2**24 + 1]),
    torch.bool: torch.tensor([True, False, True, True]),
}


def run(lines: Sequence[str], operands: Sequence[Tensor], results: Sequence[torch.dtype]) -> list[Tensor]:
    """The lines for each element, with the operands' addresses first, then the results'."""
    made = [torch.empty(operands[0].numel(), dtype=dtype) for dtype in results]
    tensors = [*operands, *made]
    called(compiled(source(lines, len(tensors))), operands[0].numel(), tensors)
    return made


def same(a: Tensor, b: Tensor) -> bool:
    """To the bit, but for what a NaN says."""
    zeros_agree = torch.signbit(a) == torch.signbit(b)
    return bool((((a == b) & zeros_agree) | (a.isnan() & b.isnan())).all())


@pytest.mark.parametrize("precision", [torch.float32, torch.float64], ids=["as_f32", "as_f64"])
@pytest.mark.parametrize("dtype", list(OPERANDS), ids=lambda dtype: KINDS[dtype])
def test_an_operand_is_widened_as_torch_does_it(dtype: torch.dtype, precision: torch.dtype) -> None:
    operand, real = OPERANDS[dtype], KINDS[precision]
    (result,) = run([f"store_{real}_0(a1, i, load_{KINDS[dtype]}_as_{real}(a0, i))"], [operand], [precision])
    assert same(result, operand.to(precision))


def test_the_comparison_tells_the_zeros_apart_and_numbers_from_nan() -> None:
    ones = torch.ones(2)
    assert not same(torch.tensor([0.0, 1.0]), torch.tensor([-0.0, 1.0]))
    assert not same(torch.tensor([torch.nan, 1.0]), ones)
    assert not same(ones + 2**-23, ones)


def roundings() -> Tensor:
    """Numbers at, between and halfway between the 16 bit ones, of both kinds, and a scatter of all float32."""
    halves = EVERY_16_BITS.view(torch.float16).float()
    bfloats = EVERY_16_BITS.view(torch.bfloat16).float()
    around = [(halves, 2**12), (bfloats, 2**15)]  # half of the last bit that is kept
    steps = [(kind, step + last) for kind, half in around for step in (-half, 0, half) for last in (-1, 0, 1)]
    between = [kind.view(torch.int32) + step for kind, step in steps]
    scatter = torch.arange(-(2**31), 2**31, 40_009).to(torch.int32)
    return torch.cat([*between, scatter]).view(torch.float32)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["f16", "bf16"])
def test_a_result_of_16_bits_is_rounded_to_nearest_even(dtype: torch.dtype) -> None:
    values = roundings()
    (result,) = run([f"store_{KINDS[dtype]}_3(a1, i, load_f32_as_f32(a0, i))"], [values], [dtype])
    assert same(result, values.to(dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=["f16", "bf16", "f32"])
def test_a_float64_result_is_rounded_as_torch_rounds_it(dtype: torch.dtype) -> None:
    values = roundings().double() * (1 + 2.0**-40)
    (result,) = run([f"store_{KINDS[dtype]}_3(a1, i, load_f64_as_f64(a0, i))"], [values], [dtype])
    assert same(result, values.to(dtype))


def test_a_mask_is_true_for_every_byte_but_zero() -> None:
    bytes_ = torch.arange(256).to(torch.uint8)
    line = "store_f32_0(a1, i, select(load_bool(a0, i), load_f32_as_f32(a2, i), load_f32_as_f32(a3, i)))"
    result = torch.empty(256)
    kernel = compiled(source([line], 4))
    called(kernel, 256, [bytes_, result, torch.full((256,), 2.0), torch.full((256,), 3.0)])
    assert result.tolist() == [3.0] + [2.0] * 255


def test_select_takes_the_chosen_value_even_beside_nan() -> None:
    a, b = torch.tensor([1.0, torch.nan, 2.0]), torch.tensor([torch.nan, 5.0, 1.0])
    lines = ["x = load_f32_as_f32(a0, i)", "y = load_f32_as_f32(a1, i)", "store_f32_0(a2, i, select(x > y, x, y))"]
    (result,) = run(lines, [a, b], [torch.float32])
    assert same(result, torch.tensor([torch.nan, 5.0, 2.0]))


def test_what_a_kernel_stored_is_reloaded_from_the_same_slot() -> None:
    partial = torch.tensor([1.0, 2.0], dtype=torch.float64)
    lines = ["store_f64_5(a0, i, reload_f64_5(a0, i) + 0.5)", "store_f64_5(a0, i, reload_f64_5(a0, i) * 2.0)"]
    run(lines, [partial], [])
    assert partial.tolist() == [3.0, 5.0]


def optimised(text: str) -> str:
    """LLVM's code of a kernel, as it is turned into machine code."""
    module = parsed(llvm_text(text))
    object_code(module)
    return str(module)


def is_vectorised(text: str) -> bool:
    return "vector.body" in text


def compares_addresses(text: str) -> bool:
    """LLVM's names of such checks; a test below shows that one is found."""
    return any(name in text for name in ("vector.memcheck", "diff.check", "found.conflict"))


def four_and_four(slots: Sequence[int]) -> str:
    kinds = ("f32", "bf16", "f16", "i8")
    lines = [f"x{k} = load_{kind}_as_f32(a{k}, i)" for k, kind in enumerate(kinds)]
    values = ("x0 * x1", "x2 - x3", "select(x0 > x2, x1, x3)", "fma(x0, x1, x2)")
    lines += [f"store_f32_{slots[k]}(a{4 + k}, i, {value})" for k, value in enumerate(values)]
    return source(lines, 8)


def test_four_operands_and_four_results_are_vectorised_without_comparing_addresses() -> None:
    code = optimised(four_and_four([0, 1, 2, 3]))
    assert is_vectorised(code) and not compares_addresses(code)


def test_results_that_share_a_slot_are_seen_to_be_compared() -> None:
    assert compares_addresses(optimised(four_and_four([0, 1, 2, 2])))


def test_a_sum_in_any_order_is_vectorised_and_one_in_order_is_not() -> None:
    template = """
def kernel(parameters):
    total = float32(0.0)
    for i in range(word(parameters, 3)):
        total = {sum}
    store_f64_0(word(parameters, 4), 0, total)
"""
    value = "load_f32_as_f32(word(parameters, 5), i)"
    assert is_vectorised(optimised(template.format(sum=f"add_in_any_order(total, {value})")))
    assert not is_vectorised(optimised(template.format(sum=f"total + {value}")))
