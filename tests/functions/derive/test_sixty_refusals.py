"""What no backward can be written for meets a clear word: what, where, why, what to do."""

import pytest
from corpora.derived import REFUSALS

from gradwright.errors import UsageError
from gradwright.functions.derive import derive


@pytest.mark.parametrize("name", REFUSALS)
def test_it_is_refused_with_a_reason_and_a_way_out(name: str) -> None:
    refusal = REFUSALS[name]
    with pytest.raises(UsageError, match=refusal.says) as raised:
        derive(refusal.function, *refusal.inputs(24))
    said = str(raised.value)
    assert name in said.splitlines()[0]
    assert "\n  why    " in said
    assert "\n  do     " in said


WITH_A_LINE = {
    "branch_on_a_value": "if x.sum() > 0:",
    "loop_until_small": "while x.norm() > 1:",
    "through_an_item": "return x * x.max().item()",
    "through_a_float": "return x * float(x[0])",
    "through_a_list": "x.tolist()",
    "through_numpy": "np.sin(x.detach().numpy())",
    "assertion_on_a_value": "assert x.abs().max() < 100",
    "index_from_a_value": "return x[int(x.argmax())] ** 2",
}


@pytest.mark.parametrize("name", WITH_A_LINE)
def test_the_line_that_is_to_blame_is_shown(name: str) -> None:
    refusal = REFUSALS[name]
    with pytest.raises(UsageError) as raised:
        derive(refusal.function, *refusal.inputs(24))
    (where,) = [line for line in str(raised.value).splitlines() if line.startswith("  where  ")]
    assert "refusals.py:" in where
    assert WITH_A_LINE[name] in where
