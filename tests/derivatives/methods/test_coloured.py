"""Rows or columns that share no entry go together: the same Jacobian, from fewer directions; wrong patterns refused."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.derivatives.truth import one_hot_jacobian
from torch import Tensor, nn

from gradwright.derivatives.graph.request import Request, read_request
from gradwright.derivatives.jacobian import batch_jacobian
from gradwright.derivatives.methods.coloured import coloured, colours, read_sparsity, sparsity_error
from gradwright.derivatives.methods.double_vjp import DOUBLE_VJP
from gradwright.derivatives.methods.method import Method, every_direction
from gradwright.derivatives.methods.sum_trick import SUM_TRICK
from gradwright.derivatives.planning.plan import plan
from gradwright.derivatives.samples.probe import probe
from gradwright.derivatives.samples.structure import examine_structure
from gradwright.errors import CoupledBatch, DerivativeError, UsageError

BOTH_SIDES = pytest.mark.parametrize("method", [SUM_TRICK, DOUBLE_VJP], ids=["rows", "columns"])


def band(size: int, reach: int, circular: bool = False) -> Tensor:
    """True within ``reach`` of the diagonal."""
    place = torch.arange(size)
    apart = (place[:, None] - place).abs()
    return (torch.minimum(apart, size - apart) if circular else apart) <= reach


def five_point(side: int) -> Tensor:
    """The pattern of a five-point stencil on side x side."""
    row, column = torch.arange(side * side) // side, torch.arange(side * side) % side
    return (row[:, None] - row).abs() + (column[:, None] - column).abs() <= 1


def stencil(count: int = 3, size: int = 10, create_graph: bool = False) -> tuple[Request, Tensor, nn.Module]:
    """A convolutional network that reaches two to either side, its request and its input."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv1d(1, 3, 3, padding=1), nn.Tanh(), nn.Conv1d(3, 1, 3, padding=1)).double()
    z = torch.randn(count, size, dtype=torch.float64, requires_grad=True)
    return read_request(net(z[:, None])[:, 0], z, 0, create_graph), z, net


@st.composite
def patterns(draw: st.DrawFn) -> Tensor:
    rows, columns = draw(st.integers(0, 12)), draw(st.integers(0, 12))
    density, seed = draw(st.sampled_from([0.0, 0.1, 0.3, 1.0])), draw(st.integers(0, 2**31))
    return torch.rand(rows, columns, generator=torch.Generator().manual_seed(seed)) < density


@given(patterns(), st.sampled_from(["rows", "columns"]))
@settings(max_examples=150, deadline=None)
def test_no_two_rows_of_a_colour_share_a_column(pattern, side):
    colouring = colours(pattern, side)
    lines = pattern if side == "rows" else pattern.T
    groups = [lines[colouring.of == colour].sum(0) for colour in range(colouring.count)]
    assert len(colouring.of) == len(lines)
    assert sum(int((colouring.of == colour).sum()) for colour in range(colouring.count)) == len(lines)
    assert all((shared <= 1).all() for shared in groups)


@given(patterns())
@settings(max_examples=50, deadline=None)
def test_the_side_with_fewer_colours_is_taken(pattern):
    assert colours(pattern).count == min(colours(pattern, "rows").count, colours(pattern, "columns").count)


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        pytest.param(band(64, 0), 1, id="diagonal"),
        pytest.param(band(64, 1), 3, id="tridiagonal"),
        pytest.param(band(64, 2), 5, id="five diagonals"),
        pytest.param(band(64, 2, circular=True), 6, id="five circular diagonals"),
        pytest.param(five_point(16), 5, id="five-point stencil"),
        pytest.param(torch.block_diag(*[torch.ones(4, 4)] * 8).bool(), 4, id="blocks"),
        pytest.param(torch.ones(9, 9).bool(), 9, id="dense"),
    ],
)
def test_known_patterns_take_the_fewest_colours(pattern, count):
    assert colours(pattern, "rows").count == colours(pattern, "columns").count == count


def test_directions_are_sums_of_unit_vectors():
    colouring = colours(band(7, 1), "rows")
    directions = colouring.directions(torch.float64, torch.device("cpu"))
    assert directions.shape == (3, 7)
    assert torch.equal(directions.sum(0), torch.ones(7, dtype=torch.float64))


@BOTH_SIDES
@pytest.mark.parametrize("chunk", [1, 2, 64])
def test_a_coloured_jacobian_is_the_jacobian(method, chunk):
    request, z, _ = stencil()
    made = coloured(request, band(10, 2), method, chunk)
    torch.testing.assert_close(made, one_hot_jacobian(request.output, z), rtol=1e-12, atol=1e-12)
    assert not made[:, ~band(10, 2)].any()


@BOTH_SIDES
def test_five_directions_make_ten_rows(method):
    seen = []

    def counting(request: Request, directions: Tensor, chunk: int) -> Tensor:
        seen.append(len(directions))
        return method.run(request, directions, chunk)

    request, _, _ = stencil()
    coloured(request, band(10, 2), Method("counted", method.side, method.unfit, counting), 1)
    assert seen == [5]


@BOTH_SIDES
def test_a_coloured_jacobian_is_differentiated_as_the_jacobian_is(method):
    request, z, net = stencil(create_graph=True)
    made = coloured(request, band(10, 2), method, 2)
    truth = one_hot_jacobian(request.output, z, create_graph=True)
    weight = torch.randn(made.shape, dtype=torch.float64)
    points = [z, *net.parameters()]
    for found, right in zip(
        torch.autograd.grad((made * weight).square().sum(), points, retain_graph=True, allow_unused=True),
        torch.autograd.grad((truth * weight).square().sum(), points, retain_graph=True, allow_unused=True),
        strict=True,
    ):
        assert (found is None) == (right is None)
        if found is not None:
            torch.testing.assert_close(found, right, rtol=1e-11, atol=1e-12)


@BOTH_SIDES
def test_an_infinite_entry_spoils_no_other(method):
    z = torch.tensor([[0.0, 1.0, 4.0], [4.0, 0.0, 1.0]], dtype=torch.float64, requires_grad=True)
    made = coloured(read_request(z.sqrt(), z, 0, False), band(3, 0), method, 1)
    infinite = float("inf")
    assert torch.equal(made[0], torch.diag(torch.tensor([infinite, 0.5, 0.25], dtype=torch.float64)))
    assert torch.equal(made[1], torch.diag(torch.tensor([0.25, infinite, 0.5], dtype=torch.float64)))


def test_an_empty_pattern_makes_zeros():
    request, _, _ = stencil()
    assert not coloured(request, torch.zeros(10, 10, dtype=torch.bool), SUM_TRICK, 1).any()


@pytest.mark.parametrize("count", [0, 1])
def test_batches_of_none_and_of_one_have_their_shape(count):
    request, z, _ = stencil(count)
    made = coloured(request, band(10, 2), SUM_TRICK, 1)
    torch.testing.assert_close(made, one_hot_jacobian(request.output, z) if count else z.new_zeros(0, 10, 10))


def test_a_pattern_that_covers_holds_the_probe():
    request, _, _ = stencil()
    assert probe(request, coloured(request, band(10, 2), SUM_TRICK, 1)).held
    assert probe(request, coloured(request, band(10, 3), SUM_TRICK, 1)).held


@BOTH_SIDES
@given(at=st.integers(0, 43))
@settings(max_examples=25, deadline=None)
def test_the_probe_refuses_a_pattern_that_lacks_any_one_entry(method, at):
    request, _, _ = stencil()
    pattern = band(10, 2)
    k, d = pattern.nonzero()[at]
    pattern[k, d] = False
    assert not probe(request, coloured(request, pattern, method, 1)).held


@BOTH_SIDES
@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(band(10, 1), id="too narrow"),
        pytest.param(band(10, 2).roll(1, 0), id="shifted"),
        pytest.param(torch.zeros(10, 10, dtype=torch.bool), id="empty"),
    ],
)
@pytest.mark.parametrize("count", [1, 3])
def test_the_probe_refuses_wrong_patterns(method, wrong, count):
    request, _, _ = stencil(count)
    seen = probe(request, coloured(request, wrong, method, 1))
    assert not seen.held
    told = str(sparsity_error(request, wrong, examine_structure(request.way, 0, 0), seen))
    assert f"the given sparsity ({int(wrong.sum())} of 100 entries) does not fit" in told
    assert "\n  why    the pattern leaves out entries that are not zero" in told


def test_a_pattern_of_what_is_not_zero_now_is_refused_when_a_mask_has_changed():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(9, 9), nn.ReLU(), nn.Linear(9, 9)).double()
    with torch.no_grad():  # each output takes one hidden unit, which takes three inputs
        net[0].weight.mul_(band(9, 1))
        net[2].weight.copy_(torch.eye(9))
    closed = torch.full((1, 9), -9.0, dtype=torch.float64)
    first, later = (torch.cat([closed, x]).requires_grad_() for x in (closed, torch.randn(1, 9, dtype=torch.float64)))
    at_first = (one_hot_jacobian(net(first), first) != 0).any(0)
    request = read_request(net(later), later, 0, False)
    assert not probe(request, coloured(request, at_first, SUM_TRICK, 1)).held
    assert probe(request, coloured(request, band(9, 1), SUM_TRICK, 1)).held


def test_a_given_pattern_may_have_the_shape_of_the_jacobian_or_be_flat():
    z = torch.randn(2, 3, 4, requires_grad=True)
    request = read_request(z.tanh()[..., :2], z, 0, False)
    whole = torch.ones(3, 2, 3, 4, dtype=torch.bool)
    assert read_sparsity(request, whole).shape == read_sparsity(request, whole.reshape(6, 12)).shape == (6, 12)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        pytest.param(torch.ones(10, 9, dtype=torch.bool), "[10, 9] of torch.bool", id="shape"),
        pytest.param(torch.ones(10, 10), "[10, 10] of torch.float32", id="dtype"),
        pytest.param([[True]], "list", id="no tensor"),
    ],
)
def test_what_is_no_pattern_is_refused(wrong, told):
    request, _, _ = stencil()
    with pytest.raises(UsageError, match="give a boolean tensor") as error:
        read_sparsity(request, wrong)
    assert told in str(error.value)


def test_a_stencil_is_coloured_without_being_told():
    request, z, _ = stencil(64, 256)
    chosen = plan(request.output, z).choice
    assert chosen.endswith("coloured")
    rows = SUM_TRICK.run(request, every_direction(request, "rows"), 1)
    torch.testing.assert_close(batch_jacobian(request.output, z), rows)


@pytest.mark.parametrize(
    "options", [{}, {"batch": "assume_independent"}, {"mode": "forward"}, {"mode": "reverse"}], ids=str
)
@pytest.mark.parametrize("count", [1, 3])
def test_a_given_sparsity_that_covers_makes_the_jacobian_and_one_that_does_not_an_error(count, options):
    request, z, _ = stencil(count)
    truth = one_hot_jacobian(request.output, z)
    torch.testing.assert_close(batch_jacobian(request.output, z, sparsity=band(10, 2), **options), truth)
    with pytest.raises(DerivativeError, match="the given sparsity"):
        batch_jacobian(request.output, z, sparsity=band(10, 1), **options)


def test_where_samples_meet_a_given_sparsity_is_refused_for_that_reason():
    z = torch.randn(4, 9, dtype=torch.float64, requires_grad=True)
    y = nn.BatchNorm1d(9).double()(z)
    with pytest.raises(CoupledBatch, match="so no sparsity of one sample's Jacobian can be used") as error:
        batch_jacobian(y, z, sparsity=band(9, 0))
    assert "at NativeBatchNormBackward0" in str(error.value)


def test_an_entry_that_is_zero_now_and_whose_derivative_is_not_belongs_to_the_pattern():
    z = torch.randn(4, 9, dtype=torch.float64, requires_grad=True)
    gate = torch.zeros((), dtype=torch.float64, requires_grad=True)
    y = z.tanh() + gate * z.roll(1, 1)
    assert batch_jacobian(y, z, sparsity=band(9, 0)).shape == (4, 9, 9)
    with pytest.raises(DerivativeError, match="entries that are zero now, but whose derivatives are not"):
        batch_jacobian(y, z, sparsity=band(9, 0), create_graph=True)


def test_a_sparsity_has_no_use_where_every_entry_is_made_on_its_own():
    request, z, _ = stencil()
    with pytest.raises(UsageError, match="sparsity"):
        batch_jacobian(request.output, z, sparsity=band(10, 2), batch="coupled")


def test_the_graph_and_random_numbers_are_left_as_they_were():
    request, z, net = stencil(create_graph=True)
    before = torch.get_rng_state()
    first = batch_jacobian(request.output, z, sparsity=band(10, 2), create_graph=True)
    torch.testing.assert_close(batch_jacobian(request.output, z, sparsity=band(10, 2)), first)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(point.grad is None for point in (z, *net.parameters()))


def test_a_colouring_first_made_in_inference_mode_serves_a_penalty():
    with torch.inference_mode():
        colours(band(13, 2), "rows")
    request, z, _ = stencil(size=13, create_graph=True)
    coloured(request, band(13, 2), SUM_TRICK, 1).square().sum().backward()
    assert z.grad is not None


def test_a_default_device_of_the_user_does_not_move_the_colouring():
    with torch.device("meta"):
        made = colours(torch.eye(11, dtype=torch.bool, device="cpu"), "rows")
        assert made.directions(torch.float64, torch.device("cpu")).device.type == "cpu"
