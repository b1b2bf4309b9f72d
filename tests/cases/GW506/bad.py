"""Does it broadcast in silence?"""
import torch

import gradwright as gw


def squared(prediction, target):
    return ((prediction - target) ** 2).mean()


print(gw.check_loss(squared))
