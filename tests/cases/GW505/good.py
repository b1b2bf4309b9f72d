"""Do its reductions agree?"""
import torch

import gradwright as gw


def squared(prediction, target, reduction="mean"):
    elements = (prediction - target) ** 2
    if reduction == "none":
        return elements
    return elements.sum() if reduction == "sum" else elements.mean()


print(gw.check_loss(squared))
