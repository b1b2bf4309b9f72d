"""Complex numbers and Fourier transforms: pushes against torch's forward mode, proofs against one-hot truth."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import pytest
import torch
from tests.derivatives.nodes.oracles import (
    Graph,
    Planted,
    can_push,
    drawn,
    forward_derivatives,
    normal,
    proved_layouts,
    pushed_derivatives,
    uncovered,
    weighed,
    wrong_proofs,
)
from tests.laws import Laws
from torch import Tensor

from gradwright.derivatives.nodes import complexes, fourier, rule_of
from gradwright.derivatives.second_order import lacks_second


@dataclass(frozen=True)
class Row:
    """``f`` of a complex (or, where ``real``, a real) z [3, 3, 2] records ``node``; ``order``: how far it is pushed."""

    node: str
    f: Callable[[Tensor], Tensor]
    real: bool = False
    order: int = 2
    note: str = ""

    def __str__(self) -> str:
        return f"{self.node.replace('Backward0', '')} {self.note}".strip()


WEIGHT = drawn(2, dtype=torch.complex128).requires_grad_()

ROWS = [
    Row("ViewAsRealBackward0", torch.view_as_real),
    Row("ViewAsRealBackward0", lambda z: z.exp().real * z.imag, note="parts"),
    Row("ViewAsRealBackward0", lambda z: torch.view_as_real(z.sin().conj().resolve_conj()), note="of a conjugate"),
    Row("ViewAsComplexBackward0", lambda z: torch.view_as_complex(torch.stack([z.sin(), z.exp()], -1)), True),
    Row("ConjBackward0", lambda z: z.exp().conj() * z),
    Row("ConjPhysicalBackward0", lambda z: torch.conj_physical(z.sin()) * z),
    Row("ConjPhysicalBackward1", lambda z: z.sin().conj_physical_() * z),
    Row("ComplexBackward0", lambda z: torch.complex(z.sin(), z.exp()), True),
    Row("ComplexBackward0", lambda z: torch.complex(z.sin(), drawn(3, 3, 2)), True, note="of one part"),
    Row("AbsBackward0", lambda z: z.sin().abs()),
    Row("SgnBackward0", lambda z: z.sgn(), order=0),
    Row("AngleBackward0", lambda z: z.angle(), order=0),
    Row("PolarBackward0", lambda z: torch.polar(z.exp(), z), True, order=0),
    # holomorphic functions entry by entry: the derivative, not its conjugate
    *(
        Row(f"{name}Backward0", f)
        for name, f in {
            "Tanh": torch.tanh,
            "Sigmoid": torch.sigmoid,
            "Exp": torch.exp,
            "Exp2": torch.exp2,
            "Expm1": torch.expm1,
            "Sqrt": torch.sqrt,
            "Rsqrt": torch.rsqrt,
            "Reciprocal": torch.reciprocal,
            "Tan": torch.tan,
            "Log": torch.log,
            "Log2": torch.log2,
            "Log10": torch.log10,
            "Log1P": torch.log1p,
            "Sin": torch.sin,
            "Cos": torch.cos,
            "Asin": torch.asin,
            "Acos": torch.acos,
            "Atan": torch.atan,
            "Sinh": torch.sinh,
            "Cosh": torch.cosh,
            "Asinh": torch.asinh,
            "Acosh": torch.acosh,
            "Atanh": torch.atanh,
            "Neg": torch.neg,
        }.items()
    ),
    Row("PowBackward0", lambda z: z**3),
    Row("PowBackward0", lambda z: z ** (0.5 + 0.3j), note="complex exponent"),
    Row("PowBackward2", lambda z: (0.5 + 0.3j) ** z),
    Row("PowBackward1", lambda z: z ** z.sin()),
    Row("MulBackward0", lambda z: z.sin() * (0.5 + 0.3j)),
    Row(
        "MulBackward0",
        lambda z: z.sin() * WEIGHT,
        True,
        note="of real with complex",
    ),
    Row("AddBackward0", lambda z: torch.add(z.sin(), z.exp(), alpha=0.5 + 0.3j)),
    Row("SubBackward0", lambda z: torch.sub(z.sin(), z.exp(), alpha=0.5 + 0.3j)),
    Row("RsubBackward1", lambda z: (0.5 + 0.3j) - z),
    Row("DivBackward0", lambda z: z.sin() / z.exp()),
    Row("DivBackward0", lambda z: z.sin() / drawn(2, dtype=torch.complex128), True, note="of real by complex"),
    Row("AddcmulBackward0", lambda z: torch.addcmul(z, z.sin(), z.exp(), value=0.5 + 0.3j)),
    Row("AddcdivBackward0", lambda z: torch.addcdiv(z, z.sin(), z.exp(), value=0.5 + 0.3j)),
    Row("LerpBackward1", lambda z: torch.lerp(z, z.sin(), z.exp())),
    Row("WhereBackward0", lambda z: torch.where(z.real > 0, z.sin(), z.exp())),
    Row("ToCopyBackward0", lambda z: z.sin().to(torch.complex128) * z, True),
    Row("FftC2CBackward0", lambda z: torch.fft.fft(z.sin(), dim=1)),
    Row("FftC2CBackward0", lambda z: torch.fft.ifft2(z.sin(), dim=(-1, 1), norm="ortho"), note="back"),
    Row("FftR2CBackward0", lambda z: torch.fft.rfft(z.sin(), dim=1), True),
    Row("FftR2CBackward0", lambda z: torch.fft.rfft2(z.sin(), dim=(-1, 1)), True, note="of two axes"),
    Row("FftR2CBackward0", lambda z: torch.fft.fft(z.sin(), dim=1), True, note="both sides"),
    Row("FftC2RBackward0", lambda z: torch.fft.irfft(z.sin(), n=5, dim=-2)),
    Row("FftC2RBackward0", lambda z: torch.fft.irfft2(z.sin(), dim=(1, 2)).abs(), note="of two axes"),
    Row("PermuteBackward0", lambda z: z.exp().permute(2, 0, 1)),
    Row("CatBackward0", lambda z: torch.cat([z, drawn(3, 3, 1), z.exp()], -1)),
]


def test_every_rule_has_a_row() -> None:
    assert complexes.RULES.keys() | fourier.RULES.keys() <= {row.node for row in ROWS}


laws = Laws[Row]()


def point(row: Row) -> Tensor:
    return drawn(3, 3, 2, dtype=torch.float64 if row.real else torch.complex128).requires_grad_()


@lru_cache(maxsize=1)  # what all the laws of a row look at
def graph(row: Row) -> Graph:
    z = point(row)
    return Graph(row.f(z), z)


@laws
def a_row_records_its_node(row: Row) -> None:
    assert row.node in graph(row).way.names


@laws
def what_is_proved_apart_is_apart(row: Row) -> None:
    assert not wrong_proofs(graph(row))
    assert (0, 0) in proved_layouts(graph(row)) or row.node == "PermuteBackward0"


@laws
def a_push_is_the_derivative_along_real_steps(row: Row) -> None:
    made = graph(row)
    assert [can_push(made, order) for order in (1, 2)] == [row.order >= 1, row.order >= 2]
    if row.order:
        z = made.z
        first, second = normal(2, *z.shape, like=z), normal(*z.shape, like=z, seed=5)
        torch.testing.assert_close(
            pushed_derivatives(made, first, second, 2), forward_derivatives(row.f, z, first, second)
        )


@laws
def a_pattern_covers_the_derivatives(row: Row) -> None:
    made = graph(row)
    assert {uncovered(made, there, here) for there, here in proved_layouts(made)} <= {0}


@laws.where(lambda row: row.order == 2)
def a_push_can_be_differentiated(row: Row) -> None:
    z = point(row)
    first, second = normal(2, *z.shape, like=z), normal(*z.shape, like=z, seed=5)

    def number(at: Tensor) -> Tensor:
        made = weighed(*pushed_derivatives(Graph(row.f(at), at), first, second, 2))
        return torch.view_as_real(made).sum() if made.is_complex() else made

    torch.autograd.gradcheck(number, z, fast_mode=True)


@laws.where(lambda row: row.node in complexes.RULES | fourier.RULES)
def it_can_be_differentiated_twice(row: Row) -> None:
    assert not lacks_second(row.node)
    torch.autograd.gradgradcheck(row.f, point(row), fast_mode=True)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_rule_keeps_every_law(row: Row) -> None:
    laws.hold(row)


def test_abs_has_no_second_derivative_at_zero_as_in_autograd() -> None:
    z = torch.zeros(1, 1, dtype=torch.complex128, requires_grad=True)
    first = torch.ones(1, 1, 1, dtype=torch.complex128)
    seen = pushed_derivatives(Graph((z * z).abs(), z), first, None, 2)
    assert [float(part.detach().abs().sum()) for part in seen] == [0, 0]


def test_a_conjugated_push_is_seen() -> None:
    z = drawn(3, 2, dtype=torch.complex128).requires_grad_()
    rule = rule_of("ExpBackward0")
    assert rule is not None and rule.push is not None
    push = rule.push

    def conjugated(*args: object) -> object:
        jet = push(*args)[0]  # type: ignore[arg-type]
        return {0: replace(jet, first=jet.first.conj())}

    first = normal(1, 3, 2, like=z)
    with Planted("ExpBackward0", replace(rule, push=conjugated)):  # type: ignore[arg-type]
        seen = pushed_derivatives(Graph(z.exp(), z), first, None, 1)[0]
    assert not torch.allclose(seen, forward_derivatives(torch.exp, z, first, first[0])[0])
