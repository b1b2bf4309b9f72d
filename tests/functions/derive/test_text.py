"""What is written reads as a person would write it, and stands on torch alone."""

import ast
import functools
import inspect
import traceback
from typing import Any

import pytest
import torch

from gradwright.functions.derive import derive


def softplus_gate(x, weight):
    scores = x @ weight
    gate = torch.sigmoid(scores)
    return gate * torch.tanh(scores)


def mean_square(prediction, target):
    return ((prediction - target) ** 2).mean()


def column_scale(x, scale):
    scaled = x * scale
    return scaled.sum(dim=1)


def several(x, weight):
    product = x @ weight
    return product.exp(), product.sum(1)


INPUTS: dict[Any, tuple[tuple[int, ...], ...]] = {
    softplus_gate: ((3, 4), (4, 5)),
    mean_square: ((3, 4), (3, 4)),
    column_scale: ((3, 4), (4,)),
    several: ((3, 4), (4, 5)),
}


@functools.cache
def derived(forward: Any) -> Any:
    return derive(forward, *[torch.ones(shape, dtype=torch.float64) / 3 for shape in INPUTS[forward]], level="quick")


@pytest.fixture(params=INPUTS, ids=lambda forward: forward.__name__)
def found(request: pytest.FixtureRequest) -> Any:
    return derived(request.param)


def test_printed_it_is_its_source(found: Any) -> None:
    assert str(found) == found.source


def test_no_line_is_longer_than_a_hundred_columns(found: Any) -> None:
    assert max(map(len, (found.source + found.source_of_function()).splitlines())) <= 100


def test_the_class_imports_torch_alone_and_runs_by_itself(found: Any) -> None:
    text = found.source_of_function()
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.Import, ast.ImportFrom))]
    assert [ast.unparse(node) for node in imports] == ["import torch"]
    names: dict[str, Any] = {}
    exec(text, names)
    assert issubclass(names[found.signature.class_name], torch.autograd.Function)


def test_the_source_runs_by_itself(found: Any) -> None:
    names: dict[str, Any] = {}
    exec(found.source, names)
    x, *_ = inputs = [torch.ones(shape, dtype=torch.float64, requires_grad=True) for shape in INPUTS[found.forward]]
    first = names[found.signature.name](*inputs)
    (first[0] if isinstance(first, tuple) else first).sum().backward()
    assert x.grad is not None


def test_the_choice_of_residuals_is_told_in_bytes_and_operations(found: Any) -> None:
    said = " ".join(line.removeprefix("# ") for line in found.source.splitlines() if line.startswith("#"))
    assert f"In all {found.saved_bytes} bytes; autograd saves {found.autograd_bytes} bytes." in said
    assert "operations." in said


def test_no_overload_and_no_unused_name_is_left(found: Any) -> None:
    tree = ast.parse(found.source)
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    assert stored - read <= {"_", found.signature.name}
    assert ".default" not in found.source and ".Tensor" not in found.source.replace("torch.Tensor", "")


def test_a_forward_that_needs_no_residual_stays_as_it_was_written() -> None:
    assert inspect.getsource(column_scale).rstrip() in derived(column_scale).source


def test_local_names_of_the_forward_are_used() -> None:
    source = derived(softplus_gate).source
    assert "scores = x @ weight" in source
    assert "gate = torch.sigmoid(scores)" in source
    assert "grad_scores" in source


def test_sizes_are_written_as_sizes_of_what_is_at_hand() -> None:
    source = derived(mean_square).source
    assert ".shape[0]" in source or "_shape" in source
    assert "12" not in source.split("def mean_square")[1]


def test_a_kernel_without_a_public_name_is_explained() -> None:
    assert "# tanh_backward: g * (1 - y * y), in one pass" in derived(softplus_gate).source


def test_shared_work_of_two_gradients_is_done_once_and_each_only_where_it_is_needed() -> None:
    text = derived(softplus_gate).source_of_function()
    assert text.count("sigmoid_backward(") == 1
    assert "if ctx.needs_input_grad[0]:" in text and "if ctx.needs_input_grad[1]:" in text


def test_a_traceback_shows_the_derived_line() -> None:
    with pytest.raises(RuntimeError) as raised:
        derived(softplus_gate).custom_gradient(torch.ones(2, 3), torch.ones(4, 5))
    assert "scores = x @ weight" in "".join(traceback.format_exception(raised.value))


def test_rows_are_added_in_place_into_zeros_that_were_made_for_them() -> None:
    def looked_up(table, rows):
        return table[rows] * 2.0

    found = derive(looked_up, torch.ones(3, 4, dtype=torch.float64), torch.tensor([0, 2, 2]), level="standard")
    assert "zeros.index_put_(" in found.source
