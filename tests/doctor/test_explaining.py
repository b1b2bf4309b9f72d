"""What `gw.explain_errors` says of an error that leaves its block, and that nothing else is changed by it."""

import gc
import linecache
import threading
import traceback
import warnings
import weakref

import pytest
import torch

import gradwright as gw
from gradwright.doctor import explaining
from gradwright.doctor.observe.errors import death


def backward_of_a_vector():
    torch.ones(3, requires_grad=True).exp().backward()


def backward_of_a_cut():
    loss = torch.tensor(torch.ones((), requires_grad=True).item())
    loss.backward()


def raised(work, block=True):
    """The exception that came out, once with the block around and once without."""
    with pytest.raises(Exception) as caught:
        if not block:
            work()
        with gw.explain_errors():
            work()
    return caught.value


def codes(text):
    return [word for word in text.split() if word.startswith("GW") and word[2:].isdigit()]


def test_an_error_is_told_with_its_place_to_the_column(capsys) -> None:
    raised(backward_of_a_cut)
    said = capsys.readouterr()
    lines = said.err.splitlines()
    at = backward_of_a_cut.__code__.co_firstlineno + 2
    assert lines[0].startswith("GW612 error  ") and f"test_explaining.py:{at}:5  " in lines[0]
    (shown,) = (number for number, line in enumerate(lines) if line.endswith("│     loss.backward()"))
    assert lines[shown + 1].endswith("│     ^^^^^^^^^^^^^^^")
    words = " ".join(" ".join(lines[shown + 2 :]).split())  # lines break where the path's length lets them
    assert words.startswith("why The text cuts its graph") and "makes a new tensor" in words
    assert " do keep it a tensor all the way" in words
    assert words.endswith("more gradwright explain GW612")
    assert said.out == ""


@pytest.mark.parametrize("work", [backward_of_a_vector, backward_of_a_cut, lambda: {}["lr"]])
def test_the_exception_is_the_one_that_was_raised(work) -> None:
    made = []

    def raises():
        try:
            work()
        except Exception as error:
            made.append((error, traceback.format_exception(error)))
            raise

    error = raised(raises)
    assert error is made[0][0]
    assert vars(error) == {} and error.__cause__ is None and error.__context__ is None
    frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    assert frames == [frame.name for frame in traceback.extract_tb(raised(raises, block=False).__traceback__)]


def test_what_no_rule_knows_passes_in_silence(capsys) -> None:
    for work in (lambda: 1 / 0, lambda: torch.ones(2) @ torch.ones(3), lambda: {}["lr"]):
        raised(work)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_a_program_passes_in_silence(kind, capsys) -> None:
    with pytest.raises(kind), gw.explain_errors():
        raise kind("grad can be implicitly created only for scalar outputs")
    assert capsys.readouterr().err == ""


def test_an_error_that_is_caught_inside_is_not_told(capsys) -> None:
    with gw.explain_errors():
        try:
            backward_of_a_vector()
        except RuntimeError:
            pass
    assert capsys.readouterr().err == ""


def test_nested_blocks_tell_an_error_once_and_the_next_one_too(capsys) -> None:
    def nested():
        with gw.explain_errors():
            try:
                with gw.explain_errors():
                    backward_of_a_vector()
            except RuntimeError:
                pass
            with gw.explain_errors(), gw.explain_errors():
                backward_of_a_cut()

    raised(nested)
    assert codes(capsys.readouterr().err) == ["GW611", "GW611", "GW612", "GW612"]  # at its head, and in `explain`


def test_one_object_may_be_entered_again(capsys) -> None:
    block = gw.explain_errors()
    for _ in range(2):
        with pytest.raises(RuntimeError), block, block:
            backward_of_a_vector()
    assert codes(capsys.readouterr().err) == ["GW611"] * 4
    assert explaining._blocks() == []


def test_threads_have_blocks_of_their_own(capsys) -> None:
    def work():
        with pytest.raises(RuntimeError), gw.explain_errors():
            backward_of_a_vector()

    with gw.explain_errors():
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert codes(capsys.readouterr().err) == ["GW611"] * 8


def test_a_generator_that_is_left_in_the_middle_disturbs_nothing(capsys) -> None:
    def batches():
        with gw.explain_errors():
            yield 1
            backward_of_a_vector()

    with gw.explain_errors():
        running, left = batches(), batches()
        next(running), next(left)
    with pytest.raises(RuntimeError):
        next(running)
    assert codes(capsys.readouterr().err) == ["GW611"] * 2
    left.close()
    assert capsys.readouterr().err == "" and explaining._blocks() == []


def test_the_error_that_another_was_raised_from_is_told(capsys) -> None:
    def wrapped():
        try:
            backward_of_a_vector()
        except RuntimeError as error:
            raise ValueError("epoch 3 failed") from error

    def in_a_group():
        try:
            backward_of_a_cut()
        except RuntimeError as error:
            raise ExceptionGroup("two", [ValueError("other"), error]) from None

    raised(wrapped)
    raised(in_a_group)
    assert codes(capsys.readouterr().err) == ["GW611", "GW611", "GW612", "GW612"]


def test_an_error_met_while_another_was_handled_is_not_the_cause(capsys) -> None:
    def fallback():
        try:
            backward_of_a_vector()
        except RuntimeError:
            {}["lr"]

    raised(fallback)
    assert capsys.readouterr().err == ""


def test_a_remark_at_the_line_is_heeded(capsys) -> None:
    def remarked():
        torch.ones(3, requires_grad=True).exp().backward()  # gradwright: ignore[GW611] shown in a talk

    raised(remarked)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("fault", [ValueError("ours"), RecursionError(), MemoryError()])
def test_a_fault_of_ours_never_takes_the_place_of_the_error(fault, monkeypatch, capsys) -> None:
    def broken(*args, **kwargs):
        raise fault

    monkeypatch.setattr(death, "describe_death", broken)
    error = raised(backward_of_a_vector)
    assert "scalar outputs" in str(error) and error.__context__ is None
    assert capsys.readouterr().err == ""


def test_a_working_directory_that_is_gone_is_no_trouble(monkeypatch) -> None:
    def gone():
        raise FileNotFoundError

    monkeypatch.setattr(explaining, "home", gone)
    assert "scalar outputs" in str(raised(backward_of_a_vector))


def test_the_filters_of_warnings_are_left_as_they_were() -> None:
    before = list(warnings.filters)
    threads = [threading.Thread(target=raised, args=(backward_of_a_cut,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(warnings.filters) == before


def test_a_standard_error_that_is_gone_is_no_trouble(monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.stderr", None)
    assert "scalar outputs" in str(raised(backward_of_a_vector))
    assert capsys.readouterr().out == ""


def test_a_standard_error_that_can_only_be_written_to_is_told(monkeypatch) -> None:
    class Kept(list):
        write = list.append

        def flush(self) -> None: ...

    kept = Kept()
    monkeypatch.setattr("sys.stderr", kept)
    raised(backward_of_a_cut)
    assert codes("".join(kept))


def test_an_exception_that_can_not_be_read_is_no_trouble() -> None:
    class Broken(RuntimeError):
        def __str__(self):
            raise ValueError

        @property
        def args(self):  # type: ignore[override]
            raise ValueError

    def work():
        raise Broken

    assert isinstance(raised(work), Broken)


def test_a_tensor_in_an_exception_is_never_printed(monkeypatch) -> None:
    monkeypatch.setattr(torch.Tensor, "__repr__", lambda self: pytest.fail("it may lie on a GPU"))

    def work():
        raise KeyError(torch.ones(3))

    assert isinstance(raised(work), KeyError)


def test_an_error_that_was_told_keeps_nothing_alive() -> None:
    def work():
        held = torch.ones(3, requires_grad=True)
        seen.append(weakref.ref(held))
        held.exp().backward()

    seen = []
    with gw.explain_errors():
        try:
            with gw.explain_errors():
                work()
        except RuntimeError:
            pass
        gc.collect()
        assert seen[0]() is None


def test_nothing_is_watched_inside() -> None:
    before = torch.Tensor.backward, torch.autograd.grad, torch.autograd.Function.apply, torch.optim.SGD.step
    with gw.explain_errors():
        assert (torch.Tensor.backward, torch.autograd.grad, torch.autograd.Function.apply) == before[:3]
        assert torch.optim.SGD.step is before[3]


def test_code_that_was_typed_is_the_users(capsys) -> None:
    text = "loss = torch.ones(3, requires_grad=True) * 2\nloss.backward()\n"
    name = "<python-input-7>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    try:
        raised(lambda: exec(compile(text, name, "exec"), {"torch": torch}))
    finally:
        del linecache.cache[name]
    first, line, *_ = capsys.readouterr().err.splitlines()
    assert first.startswith("GW611 error  <python-input-7>:2:1  `loss.backward()`: loss has shape [3]")
    assert line.endswith("│ loss.backward()")


def test_code_without_a_text_is_told_without_a_place(capsys) -> None:
    text = "torch.ones(3, requires_grad=True).exp().backward()"
    with pytest.raises(RuntimeError):
        exec("import gradwright as gw\nwith gw.explain_errors():\n    " + text, {"torch": torch})
    assert capsys.readouterr().err.startswith("GW611 error  <unknown>  ")


def test_colour_is_for_terminals_unless_it_is_asked_for(monkeypatch, capsys) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    raised(backward_of_a_vector)
    assert "\x1b[" not in capsys.readouterr().err
    monkeypatch.setenv("FORCE_COLOR", "1")
    raised(backward_of_a_vector)
    assert "\x1b[" in capsys.readouterr().err
    monkeypatch.setenv("NO_COLOR", "1")
    raised(backward_of_a_vector)
    assert "\x1b[" not in capsys.readouterr().err
