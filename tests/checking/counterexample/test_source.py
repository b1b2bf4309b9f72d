"""The source of a subject, with all that it leans on."""

import math
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.autograd.function import once_differentiable

from gradwright.checking.counterexample.source import Definitions, NoSource

FACTOR = 2.5
TABLE = torch.randn(1000)


def helper(x):
    return F.relu(x) * FACTOR


class Base(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return helper(x) + math.pi


class Leaning(Base):
    @staticmethod
    @once_differentiable
    def backward(ctx, cotangent):
        return cotangent * np.float64(FACTOR)


class OnATable(Base):
    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * TABLE[0]


def run(definitions):
    scope = {"torch": torch}  # which every script imports
    exec(definitions.text(), scope)
    return scope


def test_globals_bases_and_imports_come_along_in_order():
    definitions = Definitions()
    name = definitions.name_of(Leaning)
    text = definitions.text()
    assert (
        text.index("FACTOR = 2.5") < text.index("def helper") < text.index("class Base") < text.index("class Leaning")
    )
    assert "import math" in text and "import numpy as np" in text and "import torch.nn.functional as F" in text
    x = torch.randn(3, dtype=torch.float64)
    assert torch.equal(run(definitions)[name].apply(x), Leaning.apply(x))


def test_what_a_local_class_closes_over_comes_along():
    shift = 4

    class Local(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x + shift

    definitions = Definitions()
    definitions.name_of(Local)
    assert "shift = 4" in definitions.text()
    assert run(definitions)["Local"].apply(torch.zeros(1)).item() == 4


def test_lambdas_are_told_apart_by_their_code():
    first, second = lambda x: x.sin() * FACTOR, lambda x: x.cos()
    for function, word in ((first, "sin"), (second, "cos")):
        definitions = Definitions()
        definitions.name_of(function, "subject")
        assert word in definitions.text()
        x = torch.randn(3)
        assert torch.equal(run(definitions)["subject"](x), function(x))


def test_lambdas_that_look_alike_are_refused():
    twins = [lambda x: x + 1 and x, lambda x: x + 1 or x]  # the same constants and names, in one line
    with pytest.raises(NoSource):
        Definitions().name_of(twins[0], "subject")


def test_what_can_not_be_written_is_refused():
    made = {}
    exec("def made(x): return x", made)
    for subject in (OnATable, made["made"], partial(helper)):
        with pytest.raises(NoSource):
            Definitions().define("subject", subject)


def test_two_things_of_one_name_are_refused():
    definitions = Definitions()
    definitions.define("FACTOR", 2.5)
    definitions.define("FACTOR", 2.5)
    with pytest.raises(NoSource):
        definitions.define("FACTOR", 3.5)
