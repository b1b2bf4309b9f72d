"""Does it broadcast in silence?"""
import torch

import gradwright as gw


def squared(prediction, target):
    if prediction.shape != target.shape:
        raise ValueError(f"prediction has shape {tuple(prediction.shape)}, target {tuple(target.shape)}")
    return ((prediction - target) ** 2).mean()


print(gw.check_loss(squared))
