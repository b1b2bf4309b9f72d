"""A suite of all kinds of tests runs as without the option, and what its Functions are is told once, with the tests."""

from gradwright.doctor.session.facts import CalledByTests

SUITE = '''
import asyncio, gc, unittest, weakref
import pytest, torch
from torch.autograd import Function
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from squares import Halved, Square, leaf

BEFORE = Function.__dict__["apply"]

def test_right():
    x = leaf(3)
    Square.apply(x).sum().backward()
    assert torch.equal(x.grad, 2 * x)

@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_wrong(size):
    Halved.apply(leaf(size)).sum().backward()

class TestCase(unittest.TestCase):
    def test_method(self):
        Square.apply(leaf(2, 2)).sum().backward()

def test_async():
    async def work():
        Square.apply(leaf(2, 3)).sum().backward()
    asyncio.run(work())

def documented():
    """
    >>> from squares import Square, leaf
    >>> Square.apply(leaf(5)).shape
    torch.Size([5])
    """

# --- what a test expects is no finding ---

class Picky(Function):
    @staticmethod
    def forward(ctx, x):
        if x.shape[0] % 2:
            raise ValueError("odd")
        return x * 3
    @staticmethod
    def backward(ctx, g):
        if g.shape[0] == 4:
            raise RuntimeError("four")
        return g * 3

def test_expected_exceptions():
    Picky.apply(leaf(2)).sum().backward()
    with pytest.raises(ValueError, match="odd"):
        Picky.apply(leaf(3))
    with pytest.raises(RuntimeError, match="four"):
        Picky.apply(leaf(4)).sum().backward()

class OnlyRaises(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, g):
        raise RuntimeError("never")

def test_expected_in_backward():
    with pytest.raises(RuntimeError, match="never"):
        OnlyRaises.apply(leaf(3)).sum().backward()

SETTING = {}

class Configured(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, g):
        return g * SETTING["scale"]

def test_backward_that_rests_on_a_fixture(monkeypatch):
    monkeypatch.setitem(SETTING, "scale", 2)
    Configured.apply(leaf(3)).sum().backward()

def test_training_without_zero_grad():
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(5):
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()

class Checked(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 7
    @staticmethod
    def backward(ctx, g):
        return g * 7

def test_with_our_own_check(assert_gradients):
    assert_gradients(Checked, leaf(3), level="quick")

# --- what is left out ---

@pytest.mark.no_gradwright
def test_of_a_checker():
    class Deliberate(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2
        @staticmethod
        def backward(ctx, g):
            return g
    with pytest.raises(RuntimeError, match="Jacobian"):
        torch.autograd.gradcheck(Deliberate.apply, (leaf(2),))

class Untested(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, g):
        return g

@pytest.mark.parametrize("number", range(3))
def test_local_class(number):
    class Local(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 5
        @staticmethod
        def backward(ctx, g):
            return g * 5
    Local.apply(leaf(2)).sum().backward()

# --- what a test may look at ---

class Counted(Function):
    @staticmethod
    def forward(ctx, x):
        return x + 1
    @staticmethod
    def backward(ctx, g):
        return g * 1

def test_operations_are_counted():
    class Count(TorchDispatchMode):
        calls = []
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.calls.append(str(func))
            return func(*args, **(kwargs or {}))
    class Heard(TorchFunctionMode):
        calls = []
        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.calls.append(getattr(func, "__name__", ""))
            return func(*args, **(kwargs or {}))
    x, g = leaf(3), torch.ones(3, dtype=torch.float64)
    with Heard(), Count():
        Counted.apply(x).backward(g)
    assert Count.calls == ["aten.add.Tensor", "aten.mul.Tensor", "aten.detach.default"], Count.calls
    assert "clone" not in Heard.calls, Heard.calls

def test_apply_is_one_thing():
    assert Square.apply == Square.apply
    assert Function.__dict__["apply"] is BEFORE
    assert Square.apply.__name__ == "apply"

def test_apply_is_replaced(monkeypatch):
    calls = []
    with monkeypatch.context() as patch:
        patch.setattr(Function, "apply", classmethod(lambda cls, *args: calls.append(cls)))
        Square.apply(leaf(2))
    assert calls == [Square] and Function.__dict__["apply"] is BEFORE

def test_nothing_is_kept_alive():
    x = leaf(3)
    out = Square.apply(x)
    out.sum().backward()
    gone = [weakref.ref(x), weakref.ref(out)]
    del x, out
    gc.collect()
    assert [ref() for ref in gone] == [None, None]

def test_that_fails():
    Square.apply("no tensor").missing
'''


def test_a_whole_suite(suite, outcomes):
    words = ["-q", "-p", "outcomes", "--doctest-modules", "--strict-markers", "-W", "error", "test_suite.py"]
    plain = suite({"test_suite.py": SUITE}, *words)
    expected = outcomes()
    assert plain.code == 1 and plain.report is None and "= gradwright =" not in plain.text
    assert [test for test, how in expected.items() if how == "failed"] == ["test_suite.py::test_that_fails"]

    done = suite({"test_suite.py": SUITE}, "--gradwright", *words)
    assert outcomes() == expected  # watching changes no test's result
    assert done.code == 1  # that of the failed test
    assert "make the exit status 1" not in done.text
    assert "doctor itself failed" not in done.text and "watching failed" not in done.text
    assert "observe/functions.py" not in done.text  # a failing test's traceback is the test's own

    assert done.codes == ["GW101 Halved"]
    assert "GW101 error squares.py:" in done.flowing
    called = (
        "Halved was called in test_suite.py::test_wrong[1], test_suite.py::test_wrong[2], test_suite.py::test_wrong[3]"
    )
    assert called + " and 1 more test" in done.flowing

    tests = {one.subject.split(":")[1].split("@")[0]: one for one in done.report.of(CalledByTests)}
    ids = {name.removeprefix("test_suite.py::") for name in tests["Square"].tests}
    assert ids <= {"documented", "test_right", "TestCase::test_method", "test_async", "test_suite.documented"}
    assert tests["Square"].count == 6

    assert "raised, as the tests expected" in done.why_not("the gradient of OnlyRaises")
    assert "without their fixtures" in done.why_not("the backward of Configured")
    assert "judges it itself" in done.why_not("the gradient of Checked")
    assert "no_gradwright" in done.why_not("test_of_a_checker.Deliberate")
    assert "no test called it (test_suite.py:" in done.why_not("Untested")
    assert done.why_not("2 further classes test_local_class.Local")
    assert "Picky right" in done.flowing and "Counted right" in done.flowing
