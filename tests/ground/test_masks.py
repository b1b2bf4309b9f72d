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


def test_a_choice_between_one_and_zero_is_a_mask():
    text = """
        near = torch.where(error <= delta, 1.0, 0.0)
        loss = error**2 * near + error * (1 - error)
    """
    assert found(text) == [("near", "1 - error", "error")]
    assert found(text.replace("1.0, 0.0", "error, 0.0")) == []


def test_what_an_object_keeps_is_followed_like_a_name():
    text = """
        self.error = (p - t).abs()
        self.near = self.error <= 1
        self.far = 1 - self.error
        loss = self.error**2 * self.near + self.error * self.far
    """
    assert found(text) == [("self.near", "self.far", "self.error")]
    assert found(text.replace("1 - self.error", "1 - self.near")) == []
    assert found(text.replace("1 - self.error", "1 - other.error")) == []
