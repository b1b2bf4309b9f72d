"""The figures of a tensor are right for every dtype and layout, and the judge of these tests rejects wrong ones."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode

from gradwright.functions.tap import measuring
from gradwright.functions.tap.measuring import measure, read
from gradwright.functions.tap.records import Octave, Statistics, combined

NAN, INF = math.nan, math.inf


def figures(tensor: torch.Tensor) -> Statistics:
    return read([measure(tensor)])[0]


def wrong_figures(found: Statistics, values: list[float], *, normal: float = 2.0**-126) -> set[str]:
    """The fields of ``found`` that disagree with the values, worked out one by one in Python."""
    finite = [value for value in values if math.isfinite(value)]
    largest = max((abs(value) for value in finite), default=0.0) or 1.0
    octaves: dict[int, list[int]] = {}
    for value in finite:
        if abs(value) >= normal:
            octaves.setdefault(math.frexp(abs(value))[1] - 1, [0, 0])[value > 0] += 1
    right = {
        "elements": len(values),
        "norm": largest * math.sqrt(math.fsum((value / largest) ** 2 for value in finite)) if finite else NAN,
        "minimum": min(finite, default=NAN),
        "maximum": max(finite, default=NAN),
        "mean": math.fsum(value / largest for value in finite) / len(finite) * largest if finite else NAN,
        "zeros": sum(value == 0 for value in finite),
        "nans": sum(math.isnan(value) for value in values),
        "infs": sum(math.isinf(value) for value in values),
        "tiny": sum(0 < abs(value) < normal for value in finite),
        "octaves": tuple(Octave(exponent, *octaves[exponent]) for exponent in sorted(octaves)),
    }
    assert right.keys() == {field.name for field in dataclasses.fields(Statistics)}

    def same(name: str) -> bool:
        one, other = getattr(found, name), right[name]
        if not isinstance(other, float):
            return one == other
        room = 1e-12 * largest * max(1, len(values))  # a mean may be a difference of large numbers
        return (math.isnan(one) and math.isnan(other)) or one == other or abs(one - other) <= room

    return {name for name in right if not same(name)}


SAMPLE = [0.0, -0.0, 1.0, -2.5, 0.3, NAN, INF, -INF, NAN, 7.0, -1e-3, 7.0]


@pytest.mark.parametrize("fault", [
    {"elements": 13}, {"norm": 12.0}, {"minimum": -INF}, {"maximum": INF}, {"mean": NAN}, {"zeros": 1}, {"zeros": 4},
    {"nans": 0}, {"infs": 1}, {"tiny": 1}, {"octaves": ()},
], ids=lambda fault: "-".join(f"{name}={value}" for name, value in fault.items()))  # fmt: skip
def test_the_judge_rejects_a_wrong_figure_and_names_it(fault):
    right = figures(torch.tensor(SAMPLE, dtype=torch.float64))
    assert not wrong_figures(right, SAMPLE)
    assert wrong_figures(dataclasses.replace(right, **fault), SAMPLE) == set(fault)


COUNT, NORM, REPLACE, AND = torch.count_nonzero, torch.linalg.vector_norm, torch.nan_to_num, torch.Tensor.bitwise_and_


@pytest.mark.parametrize(("home", "name", "spoilt", "field"), [
    (torch, "count_nonzero", lambda x: COUNT(x > 0), "zeros"),
    (torch, "count_nonzero", lambda x: COUNT(x.float()) // 2, "nans"),
    (torch, "isnan", lambda x: ~torch.isfinite(x), "infs"),
    (torch.linalg, "vector_norm", lambda x, dtype: x.abs().sum(dtype=dtype), "norm"),
    (torch, "nan_to_num", lambda x, nan, posinf, neginf: REPLACE(x, 0.0, 0.0, 0.0), "minimum"),
    (torch, "nan_to_num", lambda x, nan, posinf, neginf: x, "mean"),
    (torch.Tensor, "bitwise_and_", lambda bits, mask: AND(bits, mask >> 1), "octaves"),
], ids=["count of zeros", "count of NaN", "NaN for inf", "L1 for L2", "masked by zero", "not masked",
        "sign lost"])  # fmt: skip
def test_a_fault_planted_in_the_measuring_is_caught(monkeypatch, home, name, spoilt, field):
    values = [2.0, 3.0, -1.0, NAN, INF, 5.0, 0.0, 0.5]
    if field == "minimum":
        values = [abs(value) for value in values if value]
    assert not wrong_figures(figures(torch.tensor(values)), values)
    monkeypatch.setattr(home, name, spoilt)
    assert field in wrong_figures(figures(torch.tensor(values)), values)


FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(width=64), max_size=12))
def test_any_floats_in_any_dtype_are_measured_right(dtype, values):
    tensor = torch.tensor(values, dtype=torch.float64).to(dtype)
    smallest = 2.0**-1022 if dtype is torch.float64 else 2.0**-126
    assert not wrong_figures(figures(tensor), tensor.double().tolist(), normal=smallest)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
                                   torch.uint16, torch.uint32], ids=str)  # fmt: skip
def test_integers_are_measured_as_numbers(dtype):
    tensor = torch.tensor([0, 1, 1, 0, 1]).to(dtype)
    assert not wrong_figures(figures(tensor), tensor.double().tolist(), normal=2.0**-1022)


def test_no_square_overflows_in_half_float_or_double():
    assert figures(torch.full((100,), 6e4, dtype=torch.float16)).norm == pytest.approx(6e5, rel=1e-3)
    assert figures(torch.full((100,), 3e38)).norm == pytest.approx(3e39)
    assert figures(torch.full((4,), 1e308, dtype=torch.float64)).mean == pytest.approx(1e308)  # their sum is inf
    assert figures(torch.full((4,), 1e300, dtype=torch.float64)).norm == pytest.approx(2e300)
    assert figures(torch.full((4,), 1e-300, dtype=torch.float64)).norm == pytest.approx(2e-300)
    assert figures(torch.full((10_000,), 0.1, dtype=torch.bfloat16)).mean == pytest.approx(0.1, rel=5e-3)


def test_a_tensor_of_several_pieces_is_measured_as_one(monkeypatch):
    for dtype in (torch.float32, torch.float64):
        tensor = torch.linspace(-3, 5, 1000, dtype=dtype)
        tensor[[3, 500]] = NAN
        tensor[7], tensor[998], tensor[1] = INF, 0.0, 1e30
        whole = figures(tensor)
        with monkeypatch.context() as patch:
            patch.setitem(measuring._PIECE, "cpu", 64)
            parts = figures(tensor)
        assert not wrong_figures(parts, tensor.double().tolist())
        assert dataclasses.replace(parts, norm=whole.norm, mean=whole.mean) == whole


def test_layouts_do_not_matter():
    base = torch.randn(6, 8)
    for view in (base.t(), base[:, ::2], base[0].expand(5, 8), base.flip(0), base[2, 3], base[:0]):
        assert not wrong_figures(figures(view), view.double().flatten().tolist())


def test_of_a_complex_tensor_the_magnitudes_are_measured():
    found = figures(torch.tensor([3 + 4j, 0, complex(NAN, 1), complex(0, INF), -3e38 - 3e38j]))
    assert found.maximum == pytest.approx(3e38 * math.sqrt(2))  # in float32, it would be inf
    assert (found.minimum, found.zeros, found.nans, found.infs) == (0.0, 1, 1, 1)


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc], ids=str)
def test_the_zeros_that_a_sparse_tensor_does_not_store_count(layout):
    dense = torch.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 0.0]])
    assert not wrong_figures(figures(dense.to_sparse(layout=layout)), dense.flatten().tolist())
    assert not wrong_figures(figures(torch.zeros(2, 2).to_sparse(layout=layout)), [0.0] * 4)


def test_entries_that_a_sparse_tensor_stores_twice_are_added_first():
    twice = torch.sparse_coo_tensor([[1, 1, 2]], [2.0, -5.0, 4.0], (4,), check_invariants=True)
    assert not wrong_figures(figures(twice), [0.0, -3.0, 4.0, 0.0])


def test_nothing_can_be_said_of_nothing():
    empty = figures(torch.ones(0, 3))
    assert (empty.elements, empty.zeros, empty.share_of_zeros, empty.typical) == (0, 0, 0.0, 0.0)
    assert math.isnan(empty.norm) and math.isnan(empty.minimum)
    lost = figures(torch.full((3,), NAN))
    assert lost.share_of_nan == 1.0 and math.isnan(lost.norm) and lost.octaves == ()


def test_shares_are_of_all_entries():
    found = figures(torch.tensor([0.0, NAN, INF, -INF, 1.0, 0.0, 0.0, 2.0]))
    assert (found.share_of_zeros, found.share_of_nan, found.share_of_inf) == (3 / 8, 1 / 8, 2 / 8)
    assert found.typical == pytest.approx(math.sqrt((1 + 4) / 2))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.lists(st.floats(width=32), max_size=6), min_size=1, max_size=4))
def test_figures_of_parts_combine_to_those_of_the_whole(parts):
    whole = combined(figures(torch.tensor(part)) for part in parts)
    assert not wrong_figures(whole, [value for part in parts for value in torch.tensor(part).double().tolist()])


def test_of_no_part_there_is_nothing_to_combine():
    assert combined([]) is None


def test_measuring_waits_for_no_device():
    with FakeTensorMode():  # a tensor on an accelerator, as far as waiting is concerned: reading its values raises
        there = torch.empty(3, 5, device="cuda")
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.complex64):
            told = measure(there.to(dtype))
            assert (told.is_ready, told.elements, told.shape) == (False, 15, (3, 5))
        with pytest.raises((DataDependentOutputException, DynamicOutputShapeException)):
            torch.bincount(there.long(), minlength=4)  # what an easier histogram would do


def test_measuring_leaves_the_tensor_and_the_random_state_alone():
    x = torch.randn(4, 4).t().requires_grad_()
    before = (x.detach().clone(), x.stride(), x._version, torch.get_rng_state())
    figures(x)
    assert torch.equal(x, before[0]) and x.stride() == before[1] and x._version == before[2]
    assert torch.equal(torch.get_rng_state(), before[3]) and x.grad is None
