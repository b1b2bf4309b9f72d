"""Is it a loss at all?"""
import torch

import gradwright as gw


def gap(prediction, target):
    """The error to the power of three, without its sign."""
    return ((prediction - target).abs() ** 3).mean()


print(gw.check_loss(gap))
