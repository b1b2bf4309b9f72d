"""Masks that do not complement each other, in one function's statements. Whole files: tests/doctor/source."""

import ast
import textwrap

from gradwright.ground.masks import mismatched_masks


def found(text):
    tree = ast.parse(textwrap.dedent(text))
    return [(pair.mask, pair.complement, pair.compared) for pair in mismatched_masks(tree.body, ast.unparse)]


def test_one_minus_what_was_compared_is_told_with_its_mask():
    text = """
        inside = gap <= limit
        outside = 1 - gap
        loss = limit * gap * outside + gap**2 * inside
    """
    assert found(text) == [("inside", "outside", "gap")]


def test_one_minus_the_mask_is_right():
    text = """
        inside = gap <= limit
        outside = 1 - inside
        loss = limit * gap * outside + gap**2 * inside
    """
    assert found(text) == []


def test_operations_of_torch_are_known_by_their_dotted_names():
    text = "loss = torch.mul(e <= d, e**2) + torch.mul(torch.sub(1, e), e)"
    assert len(found(text)) == 1


def test_a_choice_between_one_and_zero_is_a_mask():
    text = """
        inside = torch.where(gap <= limit, 1.0, 0.0)
        loss = gap**2 * inside + gap * (1 - gap)
    """
    assert found(text) == [("inside", "1 - gap", "gap")]
    assert found(text.replace("1.0, 0.0", "gap, 0.0")) == []


def test_what_an_object_keeps_is_followed_like_a_name():
    text = """
        self.gap = (p - t).abs()
        self.inside = self.gap <= 1
        self.outside = 1 - self.gap
        loss = self.gap**2 * self.inside + self.gap * self.outside
    """
    assert found(text) == [("self.inside", "self.outside", "self.gap")]
    assert found(text.replace("1 - self.gap", "1 - self.inside")) == []
    assert found(text.replace("1 - self.gap", "1 - other.gap")) == []
