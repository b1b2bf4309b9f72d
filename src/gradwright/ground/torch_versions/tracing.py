"""What ``gw.derive`` traces with: stand-ins whose sizes are symbols, and a graph of what was run on them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gradwright.ground.torch_versions.capability import Capability, look_up, look_up_class
from gradwright.ground.torch_versions.fakes import FakeTensor, FakeTensorMode, enter_fakes


def _probe() -> str | None:
    shape_env = ShapeEnv(duck_shape=False, allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False)
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=shape_env)
    context: Any = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC, DimDynamic.STATIC])
    plain = torch.ones(4, 3, dtype=torch.float64, device="cpu")
    stand_in = mode.from_tensor(plain, source=ConstantSource("input0"), symbolic_context=context)
    size: Any = stand_in.shape[0]
    expression = size.node.shape_env.simplify(size.node.expr)
    values = example_values(shape_env)
    sizes = isinstance(stand_in, FakeTensor) and stand_in.shape[1] == 3 and int(expression.xreplace(values)) == 4
    nodes: list[Any] = []

    def forward(x: Tensor) -> Tensor:
        tracer = get_innermost_proxy_mode().tracer
        nodes.append(get_proxy_slot(x, tracer, None, lambda slot: slot.proxy.node))
        return x.detach() * x

    traced = make_fx(forward, {}, tracing_mode="symbolic")(stand_in)
    called = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    wanted = torch.ops.aten.detach.default in called and torch.ops.aten.mul.Tensor in called
    placed = nodes[0] is not None and nodes[0].op == "placeholder"
    with enable_python_dispatcher():
        pass
    return None if sizes and wanted and placed else f"a trace holds {called}"


#: Tracing a forward and its backward.
TRACING = Capability(
    "torch.fx.experimental", "gw.derive, and formulas of the doctor's fixes", _probe, settle=enter_fakes
)

if TYPE_CHECKING:
    from torch.fx.experimental.proxy_tensor import make_fx as make_fx
    from torch.fx.experimental.symbolic_shapes import DimDynamic as DimDynamic
    from torch.fx.experimental.symbolic_shapes import ShapeEnv as ShapeEnv
    from torch.fx.experimental.symbolic_shapes import StatelessSymbolicContext as StatelessSymbolicContext
else:
    make_fx = look_up("torch.fx.experimental.proxy_tensor.make_fx", TRACING)
    DimDynamic = look_up("torch.fx.experimental.symbolic_shapes.DimDynamic", TRACING)
    ShapeEnv = look_up_class("torch.fx.experimental.symbolic_shapes.ShapeEnv", TRACING)
    StatelessSymbolicContext = look_up("torch.fx.experimental.symbolic_shapes.StatelessSymbolicContext", TRACING)
get_innermost_proxy_mode: Callable[[], Any] = look_up(
    "torch.fx.experimental.proxy_tensor.get_innermost_proxy_mode", TRACING
)
get_proxy_slot: Callable[..., Any] = look_up("torch.fx.experimental.proxy_tensor.get_proxy_slot", TRACING)
free_unbacked_symbols: Callable[[Any], Any] = look_up(
    "torch.fx.experimental.symbolic_shapes.free_unbacked_symbols", TRACING
)
ConstantSource: Any = look_up("torch._dynamo.source.ConstantSource", TRACING)
enable_python_dispatcher: Callable[[], AbstractContextManager[object]] = look_up(
    "torch._dispatch.python.enable_python_dispatcher", TRACING
)


# What the expressions of sizes are made of, beside sympy's own.
CleanDiv: Any = look_up_class("torch.utils._sympy.functions.CleanDiv", TRACING)
FloatPow: Any = look_up_class("torch.utils._sympy.functions.FloatPow", TRACING)
FloatTrueDiv: Any = look_up_class("torch.utils._sympy.functions.FloatTrueDiv", TRACING)
FloorDiv: Any = look_up_class("torch.utils._sympy.functions.FloorDiv", TRACING)
IntTrueDiv: Any = look_up_class("torch.utils._sympy.functions.IntTrueDiv", TRACING)
Max: Any = look_up_class("torch.utils._sympy.functions.Max", TRACING)
Min: Any = look_up_class("torch.utils._sympy.functions.Min", TRACING)
Mod: Any = look_up_class("torch.utils._sympy.functions.Mod", TRACING)
PowByNatural: Any = look_up_class("torch.utils._sympy.functions.PowByNatural", TRACING)
PythonMod: Any = look_up_class("torch.utils._sympy.functions.PythonMod", TRACING)
ToFloat: Any = look_up_class("torch.utils._sympy.functions.ToFloat", TRACING)
TruncToInt: Any = look_up_class("torch.utils._sympy.functions.TruncToInt", TRACING)


def example_values(shape_env: Any) -> Any:
    """Each symbol's value at the example inputs; the table has another name up to torch 2.9."""
    found = getattr(shape_env, "backed_var_to_val", None)
    return shape_env.var_to_val if found is None else found
