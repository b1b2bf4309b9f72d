"""What looks on where torch drops derivatives: put back afterwards, silent where nothing is dropped."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch._library.custom_ops import CustomOpDef

from gradwright.doctor.observe.clock import Clock
from gradwright.doctor.observe.lookers import dropped_backwards
from gradwright.doctor.observe.watch import Watch
from gradwright.doctor.session.facts import BackwardDropped, TangentDropped
from gradwright.doctor.session.journal import Journal, fold
from gradwright.ground.torch_versions import capability, dynamo
from gradwright.ground.torch_versions.capability import Capability, lacking

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # by torch.func.jvp itself


@torch.library.custom_op("gradwright_tests::cube", mutates_args=())
def cube(x: torch.Tensor) -> torch.Tensor:
    return x**3


@torch.library.custom_op("gradwright_tests::above", mutates_args=())
def above(x: torch.Tensor) -> torch.Tensor:
    return x > 0


def watched(work, tmp_path: Path):
    with Journal(tmp_path / "journal") as journal, Watch(journal, Clock(), whole_script=False):
        work()
    return fold(tmp_path / "journal")


def test_an_operator_that_drops_tangents_is_told_once_with_its_calls(tmp_path: Path) -> None:
    def work():
        for _ in range(3):
            torch.func.jvp(lambda x: cube(x) + x, (torch.ones(2),), (torch.ones(2),))

    (fact,) = watched(work, tmp_path).of(TangentDropped)
    assert (fact.operator, fact.times) == ("gradwright_tests::cube", 3)
    line = Path(__file__).read_text().splitlines()[fact.location.line - 1]
    assert line[fact.location.column - 1 : fact.location.end_column - 1] == "cube(x)"


@pytest.mark.parametrize(
    "work",
    [
        lambda: cube(torch.ones(2)),
        lambda: torch.vmap(cube)(torch.ones(2, 3)),
        lambda: torch.func.jvp(lambda x: x * cube(torch.ones(2)), (torch.ones(2),), (torch.ones(2),)),
        lambda: torch.func.jvp(lambda x: x * above(x), (torch.ones(2),), (torch.ones(2),)),
    ],
    ids=["no forward mode", "vmap", "of a constant", "a mask has no derivative"],
)
@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_an_operator_that_drops_nothing_is_not_told(work, tmp_path: Path) -> None:
    assert list(watched(work, tmp_path).of(TangentDropped)) == []


def test_watching_an_operator_changes_neither_result_nor_class(tmp_path: Path) -> None:
    before, results = CustomOpDef.__call__, []
    watched(lambda: results.append(cube(torch.full((2,), 3.0)).tolist()), tmp_path)
    assert results == [[27.0, 27.0]]
    assert CustomOpDef.__call__ is before


def test_dynamos_module_is_waited_for_and_left_as_it_was(monkeypatch, tmp_path: Path) -> None:
    name = "gradwright_test_of_waiting"
    (tmp_path / f"{name}.py").write_text(
        "class AutogradFunctionVariable:\n    def call_apply(self, tx):\n        return 'traced'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(dropped_backwards, "TRACING_MODULE", name)
    finders = list(sys.meta_path)

    def work():
        module = __import__(name)
        kept.append(module.AutogradFunctionVariable)
        assert module.AutogradFunctionVariable.call_apply.__qualname__.startswith("DroppedBackwards")

    kept = []
    watched(work, tmp_path)
    assert kept[0].call_apply.__qualname__ == "AutogradFunctionVariable.call_apply"
    del sys.modules[name]
    watched(lambda: None, tmp_path)
    assert sys.meta_path == finders and name not in sys.modules


def test_a_fault_of_ours_while_dynamo_traces_is_told_and_the_trace_goes_on(monkeypatch, tmp_path: Path) -> None:
    name = "gradwright_test_of_faults"
    (tmp_path / f"{name}.py").write_text(
        "class AutogradFunctionVariable:\n    def call_apply(self, tx):\n        return 'traced'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(dropped_backwards, "TRACING_MODULE", name)
    results = []
    report = watched(lambda: results.append(__import__(name).AutogradFunctionVariable().call_apply(None)), tmp_path)
    assert results == ["traced"]
    assert any("the watching failed" in item.why for item in report.not_examined)
    assert list(report.of(BackwardDropped)) == []
    del sys.modules[name]


def test_a_dynamo_that_traces_functions_in_another_way_is_known_to_lack_it(monkeypatch) -> None:
    monkeypatch.setattr(capability, "_all", [*capability._all])
    monkeypatch.setattr(dynamo, "TRACED", Capability(dynamo.TRACED.name, dynamo.TRACED.serves))
    assert dynamo.find_traced_apply(SimpleNamespace(AutogradFunctionVariable=SimpleNamespace(tp_call=None))) is None
    assert dynamo.TRACED in lacking() and "call_apply" in dynamo.TRACED.describe()
