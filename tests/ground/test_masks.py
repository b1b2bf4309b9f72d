"""Masks that do not complement each other, in one function's statements. Whole files: tests/doctor/source."""

import ast
import textwrap

from gradwright.ground.masks import mismatched_masks


def found(text):
    tree = ast.parse(textwrap.dedent(text))
    return [(pair.mask, pair.complement, pair.compared) for pair in mismatched_masks(tree.body, ast.unparse)]


def test_one_minus_what_was_compared_is_told_with_its_mask():
    text = """
        near = error <= delta
        far = 1 - error
        loss = error**2 * near + delta * error * far
    """
    assert found(text) == [("near", "far", "error")]


def test_one_minus_the_mask_is_right():
    text = """
        near = error <= delta
        far = 1 - near
        loss = error**2 * near + delta * error * far
    """
    assert found(text) == []


def test_operations_of_torch_are_known_by_their_dotted_names():
    text = "loss = torch.mul(e <= d, e**2) + torch.mul(torch.sub(1, e), e)"
    assert len(found(text)) == 1
