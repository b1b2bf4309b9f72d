"""Is the slope finite at a perfect prediction?"""
import torch

import gradwright as gw


def distance(prediction, target):
    """The distance of each prediction to its target, in the mean."""
    return ((prediction - target) ** 2).sum(dim=-1).sqrt().mean()


print(gw.check_loss(distance))
