"""A loop is rewritten where it stands: in Functions, methods, nested functions, the script's own body."""

import ast

import pytest
import torch
from tests.doctor.rewrite.loops.rewriting import HEAD, PATH, added_lines, namespace, site_of

from gradwright.doctor.probe.seeing import see, see_in_call
from gradwright.doctor.rewrite.loops import compile_loop
from gradwright.doctor.rewrite.loops.region import region_of
from gradwright.doctor.rewrite.source_text import SourceText

FUNCTION = HEAD + (
    "class Square(torch.autograd.Function):\n"
    "    @staticmethod\n"
    "    def forward(ctx, x):\n"
    "        ctx.save_for_backward(x)\n"
    "        y = torch.zeros_like(x)\n"
    "        for row in range(len(x)):\n"
    "            for col in range(x.shape[1]):\n"
    "                y[row, col] = x[row, col].item() ** 2\n"
    "        return y\n"
    "\n"
    "    @staticmethod\n"
    "    def backward(ctx, cotangent):\n"
    "        x, = ctx.saved_tensors\n"
    "        # the derivative\n"
    "        result = torch.zeros_like(x)   # one entry each\n"
    "\n"
    "        for row in range(cotangent.shape[0]):  # rows\n"
    "            for col in range(cotangent.shape[1]):\n"
    "                # d(x**2) = 2x dx\n"
    "                result[row, col] = cotangent[row, col] * 2*x[row, col]  # chain rule\n"
    "        # done\n"
    "        return result   # as it is\n"
)


def proposed(text, number, call):
    site = site_of(text, number)
    region, tree = region_of(text, site), ast.parse(text.removeprefix("\ufeff"))
    wanted = {(one.lineno, one.col_offset) for one in (region.node, *region.tail)}
    statements = [n for n in ast.walk(tree) if isinstance(n, ast.stmt) and (n.lineno, n.col_offset) in wanted]
    names = namespace(text.removeprefix("\ufeff"))
    seen = see_in_call(statements, tree, PATH, names, lambda: call(names))
    return compile_loop(SourceText(PATH, text), site, seen)[0]


def call_square(names):
    x = torch.randn(4, 3, requires_grad=True)
    names["Square"].apply(x).sum().backward()


def test_in_a_forward_nothing_is_detached():
    proposal = proposed(FUNCTION, 0, call_square)
    assert added_lines(proposal) == "y = x ** 2"
    assert (proposal.class_name, proposal.function) == ("Square", "forward")
    assert (proposal.replaced, proposal.region) == ((11, 13), (10, 10))


def test_lengths_of_the_cotangent_are_those_that_forward_returned():
    proposal = proposed(FUNCTION, 1, call_square)
    expected = "        # rows\n        # d(x**2) = 2x dx\n        result = cotangent * 2 * x  # chain rule\n"
    assert expected in proposal.new_text
    assert (proposal.class_name, proposal.function) == ("Square", "backward")


@pytest.mark.parametrize("newline", ["\r\n", "\n", "\r"], ids=["crlf", "lf", "cr"])
def test_newlines_tabs_and_the_byte_order_mark_survive(newline):
    text = "\ufeff" + FUNCTION.replace("    ", "\t") + "name = 'é\x0c'\n"
    text = text.replace("\n", newline)
    new = proposed(text, 1, call_square).new_text
    assert new.startswith("\ufeffimport math" + newline) and new.endswith("name = 'é\x0c'" + newline)
    assert new.replace(newline, "").count("\n") == 0
    assert f"\t\tresult = cotangent * 2 * x  # chain rule{newline}" in new


METHODS = HEAD + (
    "class Net(torch.nn.Module):\n"
    "    def __init__(self):\n"
    "        super().__init__()\n"
    "        self.w = torch.nn.Parameter(torch.ones(3))\n"
    "        self.fc = torch.nn.Linear(3, 2)\n"
    "\n"
    "    def forward(self, x):\n"
    "        def rows():\n"
    "            out = []\n"
    "            for row in x:\n"
    "                out.append(self.fc(row * self.w))\n"
    "            return torch.stack(out)\n"
    "        return rows()\n"
)


def test_in_a_function_inside_a_method_a_layer_takes_all_rows_at_once():
    proposal = proposed(METHODS, 0, lambda names: names["Net"]()(torch.randn(4, 3)))
    assert added_lines(proposal) == "return self.fc(x * self.w)"
    torch.manual_seed(0)
    old = namespace(METHODS)["Net"]()
    new = namespace(proposal.new_text)["Net"]()
    new.load_state_dict(old.state_dict())
    x = torch.randn(5, 3)
    torch.testing.assert_close(new(x), old(x))


SCRIPT = (
    "# a script\n"
    "from torch import ones, zeros_like\n"
    "\n"
    "x = ones(5, 3)\n"
    "y = zeros_like(x)\n"
    "for i in range(x.shape[0]):\n"
    "    for j in range(x.shape[1]):\n"
    "        y[i, j] = x[i, j] if x[i, j] > 0 else 0.0\n"
    "print(y.sum())\n"
)


def in_script(text):
    site = site_of(text)
    region = region_of(text, site)
    names = {"__name__": "net"}
    before = [one for one in ast.parse(text).body if one.lineno < region.node.lineno]
    exec(compile(ast.Module(before, []), PATH, "exec"), names)
    live = {name: names[name] for name in site.live_ins}
    return compile_loop(SourceText(PATH, text), site, see([region.node], PATH, live, names))[0]


def test_a_file_that_has_no_name_for_torch_gets_one():
    proposal = in_script(SCRIPT)
    assert added_lines(proposal) == "import torch\ny = torch.where(x > 0, x, 0.0)"
    assert (proposal.added, proposal.function) == ("import torch", "")
    first, last = proposal.region
    assert proposal.new_text.split("\n")[first - 1 : last] == ["y = torch.where(x > 0, x, 0.0)"]


def test_a_name_that_the_script_reads_later_keeps_its_value():
    text = SCRIPT.replace("print(y.sum())", "last = i")
    new = in_script(text).new_text
    assert namespace(new)["last"] == namespace(text)["last"] == 4
