"""Functions given as text: their loops compiled, and both versions called alike."""

import ast
import textwrap
import types

import pytest
import torch

from gradwright.doctor.probe.seeing import call_function, see_in_call
from gradwright.doctor.rewrite.kernels import compile_kernel
from gradwright.doctor.rewrite.source_text import SourceText
from gradwright.doctor.source.files import parse
from gradwright.doctor.source.loops import find_loops

HEAD = "import math\nimport torch\nimport torch.nn.functional as F\n\n\n"


class Workbench:
    """``forward``: the text of a class; ``compiled``: the original class, the compiled one, the proposal."""

    path = "kernel_under_test.py"

    def forward(self, body, signature="x", before=""):
        """A Function whose forward has this body, and whose backward gives nothing."""
        inside = textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8)
        head = f"class Op(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, {signature}):\n"
        back = "\n\n    @staticmethod\n    def backward(ctx, *cotangents):\n        return None\n"
        return HEAD + textwrap.dedent(before).lstrip("\n") + head + inside + back

    def loaded(self, text):
        module = types.ModuleType("script")
        exec(compile(text, self.path, "exec"), vars(module))
        return module

    def proposed(self, text, args, *, name="Op", wanted=None, loop=0):
        """Raises: DeclinedError."""
        module = self.loaded(text)
        sites = [site for site in find_loops(parse(text.encode(), self.path)) if site.in_function_class]
        site, tree = sites[loop], ast.parse(text)
        node = next(n for n in ast.walk(tree) if isinstance(n, ast.For | ast.While) and n.lineno == site.line)
        wanted = wanted or [False] * len(args)
        function = getattr(module, name)
        seen = see_in_call([node], tree, self.path, vars(module), lambda: call_function(function, args, wanted))
        (proposal,) = compile_kernel(SourceText(self.path, text), site, seen)
        return function, proposal

    def compiled(self, text, args, *, name="Op", wanted=None, loop=0):
        original, proposal = self.proposed(text, args, name=name, wanted=wanted, loop=loop)
        return original, getattr(self.loaded(proposal.new_text), name), proposal

    def called(self, function, args, wanted=()):
        """Outputs, gradients and inputs as they are afterwards; or the name of what it raised."""
        mine = [one.clone() if isinstance(one, torch.Tensor) and not one._is_view() else one for one in args]
        mine = [one.detach().requires_grad_() if want else one for one, want in zip(mine, wanted, strict=False)] or mine
        try:
            found = function.apply(*mine)
            outputs = list(found) if isinstance(found, tuple) else [found]
            roots = [one for one in outputs if isinstance(one, torch.Tensor) and one.requires_grad]
            leaves = [one for one, want in zip(mine, wanted, strict=False) if want]
            cotangents = [torch.linspace(-1, 2, one.numel(), dtype=one.dtype).reshape(one.shape) for one in roots]
            gradients = torch.autograd.grad(roots, leaves, cotangents) if roots else ()
        except Exception as error:
            return type(error).__name__
        return [*outputs, *gradients, *mine]

    def difference(self, original, candidate, args, wanted=()):
        """What tells the two apart, "" if nothing does."""
        one, other = self.called(original, args, wanted), self.called(candidate, args, wanted)
        if isinstance(one, str) or isinstance(other, str):
            return "" if isinstance(one, str) and isinstance(other, str) else f"{one} and {other}"
        for a, b in zip(one, other, strict=True):
            if type(a) is not type(b):
                return f"{type(a)} and {type(b)}"
            if isinstance(a, torch.Tensor):
                exact = a.dtype == torch.float64
                try:
                    torch.testing.assert_close(
                        a, b, rtol=1e-10 if exact else 2e-5, atol=1e-12 if exact else 2e-5, equal_nan=True
                    )
                except AssertionError as error:
                    return str(error)
            elif isinstance(a, float) and isinstance(b, float):
                if a != b and abs(a - b) > 1e-4 * abs(a):
                    return f"{a} and {b}"
            elif a is not b and a != b:
                return f"{a} and {b}"
        return ""


@pytest.fixture(scope="session")
def bench():
    return Workbench()
