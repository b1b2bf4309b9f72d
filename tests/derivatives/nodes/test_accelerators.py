"""Where rules of nodes that only accelerators record say that the batch lies, on steps of the shapes they have."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from gradwright.derivatives.graph.way import Into, Step
from gradwright.derivatives.nodes import Place, rule_of
from gradwright.derivatives.second_order import lacks_second

B, T, H = 4, 3, 5
WEIGHTS = [(4 * H, 2), (4 * H, H), (4 * H,), (4 * H,)]


def step(outputs: list[tuple[int, ...]], inputs: list[tuple[int, ...] | None], **saved: object) -> Step:
    """A step all of whose inputs lead to the target; None is an input that is not there."""

    def node(shapes: list[tuple[int, ...]], **more: object) -> SimpleNamespace:
        return SimpleNamespace(_input_metadata=[SimpleNamespace(shape=shape) for shape in shapes], **more)

    into = [Into(None, 0, False) if shape is None else Into(node([shape]), 0, True) for shape in inputs]
    return Step(node(outputs, **{f"_saved_{name}": value for name, value in saved.items()}), tuple(into))


def told(name: str, made: Step, axis: int, number: int = 0) -> dict[int, int]:
    """The axis of the batch in each input in which it is proved."""
    rule = rule_of(name)
    assert rule is not None
    back = rule.batch(made, Place(axis), number)
    assert len(back) == len(made.inputs)
    return {index: back[index].axis for index, _ in made.leading if back[index] is not None}


@pytest.mark.parametrize(("first", "axis"), [(False, 1), (True, 0)], ids=["time first", "batch first"])
def test_a_cudnn_layer_keeps_samples_in_its_input_and_in_its_states(first: bool, axis: int) -> None:
    x, y = [(T, B, 2), (B, T, 2)][first], [(T, B, H), (B, T, H)][first]
    made = step([y, (1, B, H), (1, B, H)], [x, *WEIGHTS, (1, B, H), (1, B, H)], batch_first=first, batch_sizes=[])
    assert told("CudnnRnnBackward0", made, axis) == {0: axis, 5: 1, 6: 1}
    assert told("CudnnRnnBackward0", made, 1, number=1) == {0: axis, 5: 1, 6: 1}
    assert told("CudnnRnnBackward0", made, 1 - axis) == {}
    assert told("CudnnRnnBackward0", made, 2) == {}


def test_a_cudnn_gru_has_no_cell_state() -> None:
    made = step([(T, B, H), (1, B, H)], [(T, B, 2), *WEIGHTS, (1, B, H), None], batch_first=False, batch_sizes=[])
    assert told("CudnnRnnBackward0", made, 1) == {0: 1, 5: 1}


def test_packed_sequences_have_no_batch_axis() -> None:
    made = step([(7, H), (1, B, H)], [(7, 2), *WEIGHTS, (1, B, H), None], batch_first=False, batch_sizes=[4, 2, 1])
    assert told("CudnnRnnBackward0", made, 1, number=1) == {}


@pytest.mark.parametrize("kind", ["Lstm", "Gru"])
def test_a_fused_cell_keeps_samples_in_gates_and_state_and_not_in_biases(kind: str) -> None:
    gates = (4 * H,)
    made = step([(B, H), (B, H)], [(B, 4 * H), (B, 4 * H), (B, H), gates, gates])
    assert told(f"ThnnFused{kind}CellBackward0", made, 0) == {0: 0, 1: 0, 2: 0}
    assert told(f"ThnnFused{kind}CellBackward0", made, 1) == {}


@pytest.mark.parametrize("kernel", ["Flash", "Efficient", "Cudnn"])
def test_attention_keeps_samples_heads_and_rows_of_queries(kernel: str) -> None:
    name = f"ScaledDotProduct{kernel}AttentionBackward0"
    made = step([(B, 2, T, H)], [(B, 2, T, H), (B, 2, 6, H), (B, 2, 6, H), (B, 2, T, 6)])
    assert told(name, made, 0) == {0: 0, 1: 0, 2: 0}
    assert told(name, made, 1) == {0: 1, 1: 1, 2: 1}
    assert told(name, made, 2) == {0: 2}
    assert told(name, made, 3) == {}
    shared = step([(B, 2, T, H)], [(B, 2, T, H), (B, 1, 6, H), (B, 1, 6, H), None])
    assert told(name, shared, 1) == {0: 1}


@pytest.mark.parametrize(("training", "samples"), [(False, {0: 0}), (True, {})], ids=["evaluation", "training"])
def test_a_cudnn_batch_norm_keeps_samples_in_evaluation_alone(training: bool, samples: dict[int, int]) -> None:
    made = step([(B, 2, T)], [(B, 2, T), (2,), (2,)], training=training)
    assert told("CudnnBatchNormBackward0", made, 0) == samples
    assert told("CudnnBatchNormBackward0", made, 1) == {0: 1, 1: 0, 2: 0}


@pytest.mark.parametrize(
    "name",
    [
        "CudnnRnnBackward0",
        "ScaledDotProductFlashAttentionBackward0",
        "ScaledDotProductEfficientAttentionBackward0",
        "ScaledDotProductCudnnAttentionBackward0",
    ],
)
def test_kernels_without_a_second_derivative_say_so(name: str) -> None:
    assert rule_of(name) is not None
    assert lacks_second(name)
