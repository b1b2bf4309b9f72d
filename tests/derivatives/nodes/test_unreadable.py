"""A node that saves something under another name in this torch: its kind counts as unknown, and the result is right."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import gradwright as gw
from gradwright.derivatives.nodes import arithmetic, rule_of, unreadable
from gradwright.derivatives.planning import choice
from gradwright.errors import UsageError
from gradwright.ground.torch_versions.nodes import UnreadableNode, read_saved


@pytest.fixture(autouse=True)
def renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a product saved its second factor under another name."""

    def read(node: Any, name: str, *default: Any) -> Any:
        return read_saved(node, "no_such_name" if name == "other" else name, *default)

    monkeypatch.setattr(arithmetic, "read_saved", read)
    monkeypatch.setattr(unreadable, "_unreadable", set())
    monkeypatch.setattr(choice, "hooks_ever", lambda: False)  # another test's hook would choose another way


def test_the_derivatives_are_right_without_the_rule() -> None:
    x = torch.randn(4, 1, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(1, 20, dtype=torch.float64)
    assert torch.allclose(gw.batch_jacobian(x * weight, wrt=x), weight.T.expand(4, 20, 1))  # by a push, if it can be
    assert unreadable._unreadable == {"MulBackward0"} and rule_of("MulBackward0") is None
    assert torch.allclose(gw.laplacian((x * x * x).sum(1), wrt=x), (6 * x).sum(1))


def test_what_needs_the_rule_is_refused_as_for_any_unknown_node() -> None:
    x = torch.randn(4, 1, dtype=torch.float64, requires_grad=True)
    with pytest.raises(UsageError, match=r"nothing is known of how to push .* through MulBackward0"):
        gw.batch_jacobian(x * torch.randn(1, 20, dtype=torch.float64), wrt=x, mode="forward")


def test_a_node_that_no_rule_reads_ends_the_call() -> None:
    @unreadable.without_unreadable_rules
    def read() -> None:
        raise UnreadableNode("SinBackward0", "self")

    with pytest.raises(UnreadableNode, match=r"torch \S+ saves no 'self' in SinBackward0"):
        read()
