"""What of a batch that is all padding?"""
import torch

import gradwright as gw


def masked(prediction, target, mask=None):
    mask = torch.ones_like(prediction) if mask is None else mask.to(prediction.dtype)
    return ((prediction - target) ** 2 * mask).sum() / mask.sum()


print(gw.check_loss(masked))
