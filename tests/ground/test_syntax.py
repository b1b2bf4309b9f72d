"""The nodes that run in a frame of their own are another frame's."""

import ast

from gradwright.ground.syntax import own_nodes


def test_nested_functions_classes_and_lambdas_are_left_out():
    tree = ast.parse("def f():\n    a\n    def g(): b\n    class C: c\n    h = lambda: d\n    [e for e in x]\n")
    names = {node.id for node in own_nodes(tree.body[0]) if isinstance(node, ast.Name)}
    assert names == {"a", "h", "e", "x"}
