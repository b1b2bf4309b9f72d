from gradwright.losses.classification.cross_entropy import CrossEntropyLoss as CrossEntropyLoss
from gradwright.losses.classification.cross_entropy import cross_entropy as cross_entropy
from gradwright.losses.regression.huber import HuberLoss as HuberLoss
from gradwright.losses.regression.huber import huber_loss as huber_loss
from gradwright.losses.segmentation.dice import DiceLoss as DiceLoss
from gradwright.losses.segmentation.dice import dice_loss as dice_loss
