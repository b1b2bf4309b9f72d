"""What the recorded operations of a loss do with the entries of their inputs, by name."""

from __future__ import annotations

#: Linear in each entry, entry by entry, or a choice and rearrangement of entries. A sum may be drawn through them.
LINEAR = frozenset(
    f"{name}Backward{number}"
    for name, numbers in {
        "Neg": "0", "Add": "01", "Sub": "01", "Rsub": "01", "Mul": "01", "Div": "01", "View": "0", "UnsafeView": "0",
        "ReshapeAlias": "0", "Unsqueeze": "01", "Squeeze": "012345", "Permute": "0", "Transpose": "01", "T": "01",
        "Expand": "0", "Clone": "0", "Alias": "0", "ToCopy": "0", "Stack": "0", "Cat": "0", "Slice": "0",
        "Select": "0", "Split": "0", "SplitWithSizes": "0", "Unbind": "0", "Index": "0", "IndexSelect": "0",
        "Gather": "0", "Where": "0", "MaskedFill": "01", "Diagonal": "0", "Tril": "0", "Triu": "0", "MaskedSelect": "0",
        "Repeat": "0", "Flip": "0",
    }.items()
    for number in numbers
)  # fmt: skip

#: Linear in pieces, entry by entry: what they do to a sum is not judged.
IN_PIECES = frozenset((
    "ReluBackward0", "AbsBackward0", "ClampBackward0", "ClampBackward1", "ClampMinBackward0", "ClampMinBackward1",
    "ClampMaxBackward0", "ClampMaxBackward1", "MaximumBackward0", "MinimumBackward0", "LeakyReluBackward0",
    "HardtanhBackward0", "ThresholdBackward0", "NanToNumBackward0",
))  # fmt: skip

#: Curved, entry by entry.
CURVED = {
    "LogBackward0": "the logarithm", "Log1PBackward0": "the logarithm", "Log2Backward0": "the logarithm",
    "Log10Backward0": "the logarithm", "ExpBackward0": "the exponential", "Expm1Backward0": "the exponential",
    "SqrtBackward0": "the root", "RsqrtBackward0": "the inverse root", "ReciprocalBackward0": "the inverse",
    "PowBackward0": "a power", "SigmoidBackward0": "the sigmoid", "TanhBackward0": "the tanh",
    "SoftplusBackward0": "softplus", "LogSigmoidBackward0": "the sigmoid's logarithm", "LogitBackward0": "the logit",
    "AtanhBackward0": "atanh", "SpecialEntrBackward0": "the entropy",
}  # fmt: skip

#: Sums along axes.
SUMS = ("SumBackward0", "SumBackward1", "MeanBackward0", "MeanBackward1", "NansumBackward0")

#: Along axes, and no sum: what comes out hangs on all entries together.
MIXING = {
    "LogsumexpBackward0": "a log-sum-exp", "MaxBackward0": "a maximum", "MaxBackward1": "a maximum",
    "MinBackward0": "a minimum", "MinBackward1": "a minimum", "AmaxBackward0": "a maximum",
    "AminBackward0": "a minimum", "MedianBackward1": "a median", "ProdBackward0": "a product",
    "ProdBackward1": "a product", "LinalgVectorNormBackward0": "a norm", "NormBackward1": "a norm",
    "VarBackward0": "a variance", "StdBackward0": "a standard deviation", "VarMeanBackward0": "a variance",
    "StdMeanBackward0": "a standard deviation", "KthvalueBackward0": "an order statistic",
}  # fmt: skip

#: The same along one axis that stays.
ALONG = {
    "SoftmaxBackward0": "a softmax", "LogSoftmaxBackward0": "a softmax", "SafeSoftmaxBackward0": "a softmax",
    "SortBackward0": "a sort", "SortBackward1": "a sort", "TopkBackward0": "the largest values",
    "CumprodBackward0": "a product", "LogcumsumexpBackward0": "a log-sum-exp", "CummaxBackward0": "a maximum",
}  # fmt: skip

#: Losses that torch records as one node; with a reduction they are a sum over all entries.
LOSSES = (
    "MseLossBackward0", "SmoothL1LossBackward0", "HuberLossBackward0", "BinaryCrossEntropyBackward0",
    "BinaryCrossEntropyWithLogitsBackward0", "SoftMarginLossBackward0", "NllLossBackward0", "NllLoss2DBackward0",
)  # fmt: skip

#: The axis over which a product of matrices is summed, of its two factors, counted from the end; they are the last two
#: inputs.
PRODUCTS = {
    "MmBackward0": (-1, -2), "BmmBackward0": (-1, -2), "DotBackward0": (-1, -1), "MvBackward0": (-1, -1),
}  # fmt: skip
