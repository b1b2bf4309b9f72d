"""Arithmetic that makes tensors on the way to its result: what they cost."""

from __future__ import annotations

import ast

import torch
from torch import Tensor

from gradwright.doctor.probe.measured import Measured, are_tensors, distinct, seconds_of
from gradwright.doctor.probe.operations import Body
from gradwright.doctor.source.expressions import Suspect
from gradwright.doctor.source.expressions.formulas import LONG
from gradwright.doctor.source.expressions.temporaries import read_summed
from gradwright.ground.tensors import tensor_bytes

SHARE_OF_A_FORMULA = 0.4  # of the body's time: with less, one pass in its place is not much of a difference


def temporaries(suspect: Suspect, body: Body) -> Measured | None:
    """Arithmetic of two steps or more, each of which makes a tensor as large as the result."""
    if suspect.others and (chain := _chain(suspect, body)) is not None:
        return chain
    last = body.at(suspect.node)
    if len(last) != 1 or len(last[0].made) != 1:
        return None
    result = last[0].made[0]
    steps = [found[0] for node in _arithmetic(suspect.node) if len(found := body.at(node)) == 1]
    whole = [step for step in steps if step.fresh and step.made[0].shape == result.shape]
    tensors = [value for step in whole for value in step.args if isinstance(value, Tensor)]
    same = all(tensor.dtype == result.dtype for tensor in tensors)
    if len(whole) < 2 or not result.is_floating_point() or not same:
        return None
    if isinstance(suspect.node, ast.BinOp) and read_summed(suspect.node) and not are_tensors(last[0].args[:2]):
        return None  # torch.add takes no number first
    inputs = [tensor for tensor in tensors if not any(tensor is step.made[0] for step in whole)]
    return Measured(
        bytes=sum(step.bytes for step in whole),
        minimum_bytes=distinct(inputs) + tensor_bytes(result),
        extra_bytes=(len(whole) - 1) * tensor_bytes(result),
        seconds=seconds_of(whole),
        shapes=(tuple(result.shape),),
    )


def _chain(suspect: Suspect, body: Body) -> Measured | None:
    """As many as make a formula, each run once, of one dtype but for conditions."""
    last, steps = body.at(suspect.node), [step for node in suspect.others for step in body.at(node)]
    if len(last) != 1 or len(last[0].made) != 1 or len(steps) > len(suspect.others):
        return None
    result = last[0].made[0]
    whole = [step for step in steps if step.fresh and step.made[0].shape == result.shape]
    read = [value for step in steps for value in step.args if isinstance(value, Tensor)]
    conditions = [step.made[0] for step in steps if step.made[0].dtype is torch.bool]
    inputs = [one for one in read if not any(one is step.made[0] for step in steps)]
    odd = [one for one in read if one.dtype != result.dtype and not any(one is made for made in conditions)]
    if seconds_of(steps) < SHARE_OF_A_FORMULA * seconds_of(body.operations):
        return None
    if odd or len(whole) < LONG or result.dtype not in (torch.float32, torch.float64) or not result.is_cpu:
        return None
    return Measured(
        bytes=sum(step.bytes for step in whole),
        minimum_bytes=distinct(inputs) + tensor_bytes(result),
        extra_bytes=sum(step.made_bytes for step in whole) - tensor_bytes(result),
        seconds=seconds_of(steps),
        shapes=(tuple(result.shape),),
    )


def _arithmetic(node: ast.AST) -> list[ast.BinOp]:
    """The sums and products that a node is made of, without those inside its factors' own calls and parentheses."""
    found: list[ast.BinOp] = []
    if isinstance(node, ast.BinOp):
        found.append(node)
        for side in (node.left, node.right):
            if isinstance(side, ast.BinOp) and isinstance(side.op, ast.Mult | ast.Div):
                found += _arithmetic(side)
    return found
