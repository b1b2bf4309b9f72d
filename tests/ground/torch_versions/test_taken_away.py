"""What a torch without one of the things that Gradwright uses loses: that which needs it, said in one line each."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.ground.torch_versions.test_names import names_by_capability

from gradwright.doctor.session.model import CUSTOM_FUNCTIONS, GRADIENT_CALLS

pytestmark = pytest.mark.xdist_group("torch without a part of it")  # one process tries them all

#: The doors of the library that are off without it. All others work.
IN_PYTHON = {"custom_gradient", "custom_gradient in vmap", "derive"}
DOORS = {
    "torch._C._are_functorch_transforms_active": {
        *(*IN_PYTHON, "batch_jacobian", "checkpoint", "elementwise", "laplacian", "losses"),
    },
    "torch._C._functorch": {"custom_gradient in vmap"},
    "torch.autograd.forward_ad._current_level": {*IN_PYTHON, "elementwise"},
    "torch.utils._python_dispatch.TorchDispatchMode": {"elementwise", "losses"},
    "torch._C.DisableTorchFunction": IN_PYTHON,
    "torch._C._get_tracing_state": {*IN_PYTHON, "elementwise", "losses"},
    "torch._C._current_graph_task_id": IN_PYTHON,
    "Tensor._version, Tensor._base": IN_PYTHON,
    "torch.utils._pytree": {*IN_PYTHON, "checkpoint"},
    "torch.autograd.graph._engine_run_backward": {"batch_jacobian", "laplacian"},
    "the nodes of a graph (node._saved_self, node._input_metadata)": {"batch_jacobian", "laplacian"},
    "torch._subclasses.FakeTensorMode": {"derive"},
    "OpOverload._schema": {"derive"},
    "torch.fx.experimental": {"derive"},
}
#: Without these the doctor can't watch custom Functions: it says so, and the wrong gradient is not found.
UNWATCHED = {
    "Function.apply and BackwardCFunction.apply",
    "torch._C._are_functorch_transforms_active",
    "the nodes of a graph (node._saved_self, node._input_metadata)",
}
CAPABILITIES = {one.name: one for one, _ in names_by_capability()}


@pytest.fixture(scope="module")
def tried() -> dict[str, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.ground.torch_versions.taken_away"],
        cwd=Path(__file__).resolve().parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {one["name"]: one for one in found}


def test_what_is_expected_names_capabilities() -> None:
    assert UNWATCHED | set(DOORS) <= set(CAPABILITIES)


@pytest.mark.parametrize("name", CAPABILITIES)
def test_without_one_thing_only_what_needs_it_is_off(name: str, tried: dict[str, dict[str, Any]]) -> None:
    found = tried[name]
    assert (found.get("died"), found["code"], found["script"]) == (None, 0, 0)
    assert found["findings"] == ([] if name in UNWATCHED else ["GW101"])
    said = {what for what, why in found["not_examined"] if found["lack"] in why}
    others = {what for what, why in found["not_examined"] if found["lack"] not in why}
    assert bool(said) or not CAPABILITIES[name].of_doctor
    assert others <= {"the training around the gradients"}
    assert (CUSTOM_FUNCTIONS in said) == (name in UNWATCHED)
    assert others == set() or said & {GRADIENT_CALLS, "optimizer steps"}
    off = {door: said for door, said in found["doors"].items() if said != "right"}
    assert set(off) == DOORS.get(name, set())
    assert all(said == f"off: {found['why']}" for said in off.values())
