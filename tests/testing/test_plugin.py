"""The fixture fails a test whose gradient is wrong, the marker sets what it takes, and nothing loads torch early."""

import pytest

HALVED = """
import pytest, torch

class Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * x

class Square(Halved):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 2 * grad_output * x
"""


@pytest.fixture
def suite(pytester):
    """Run tests written after the Functions above, in a process of their own, as a user's suite is."""

    def run(tests, *arguments):
        pytester.makepyfile(HALVED + tests)
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments)

    return run


def test_the_fixture_passes_a_right_gradient_and_fails_a_wrong_one_with_its_cause(suite):
    result = suite(
        """
def test_square(assert_gradients):
    assert assert_gradients(Square, torch.randn(4)).ok

def test_halved(assert_gradients):
    assert_gradients(Halved, torch.randn(4))
"""
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*GW101*", "*constant factor*"])


def test_the_failure_shows_the_report_and_no_frame_of_ours(suite):
    result = suite("def test_halved(assert_gradients):\n    assert_gradients(Halved, torch.randn(4), level='quick')\n")
    result.stdout.no_fnmatch_line("*assertion.py*")


def test_the_marker_sets_what_the_fixture_takes_and_the_nearest_one_counts(suite):
    result = suite(
        """
@pytest.mark.gradients(level="quick", seed=3)
class TestAll:
    def test_of_the_class(self, assert_gradients):
        report = assert_gradients(Square, torch.randn(4))
        assert (report.level, report.seed) == ("quick", 3)

    @pytest.mark.gradients(seed=4)
    def test_of_the_method(self, assert_gradients):
        report = assert_gradients(Square, torch.randn(4))
        assert (report.level, report.seed) == ("quick", 4)

    @pytest.mark.gradients(allow=["GW101"])
    def test_allowed(self, assert_gradients):
        assert not assert_gradients(Halved, torch.randn(4)).ok
"""
    )
    result.assert_outcomes(passed=3)


def test_tests_of_gradients_can_be_selected_by_the_marker(suite):
    result = suite(
        "@pytest.mark.gradients\ndef test_marked(): pass\n\ndef test_other(): pass\n", "-m", "gradients",
        "--strict-markers",
    )  # fmt: skip
    result.assert_outcomes(passed=1, deselected=1)


def test_an_unknown_option_of_the_marker_is_told(suite):
    result = suite("@pytest.mark.gradients(levle='quick')\ndef test_it(assert_gradients): pass\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*takes level, seed, seconds, allow by name, not levle*"])


def test_without_the_option_the_plugin_imports_neither_torch_nor_the_doctor(pytester):
    early = "('torch', 'gradwright.doctor', 'gradwright.testing.diagnosed')"
    pytester.makepyfile(f"import sys\ndef test_it(): assert not [one for one in {early} if one in sys.modules]\n")
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
