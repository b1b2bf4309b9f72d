"""What a target says: the modes of segmentation_models_pytorch."""

from typing import Final, Literal

# One class, yes or no for each element; one class number for each position; yes or no for each class.
Mode = Literal["binary", "multiclass", "multilabel"]
NO_CLASS: Final = -100  # no class has this number
