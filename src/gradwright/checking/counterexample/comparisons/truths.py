"""The gradient, its derivative and its precision, each beside central differences or float64."""

VALUE = """
# Central differences of <cotangent, outputs>, one entry after the other.
def value(index, shift):
    given = inputs()
    given[JUDGED[{at}]].data[index] += shift
    return sum((c.conj() * o.detach()).real.sum() for c, o in zip(COTANGENTS, call(*given)))


x = inputs()[JUDGED[{at}]]
expected = torch.zeros(x.shape, dtype=x.dtype)
for index in itertools.product(*map(range, x.shape)):
    step = {step} * (abs(x[index].item()) or 1.0)
    expected[index] = (value(index, step) - value(index, -step)) / (2 * step)
    if x.is_complex():
        expected[index] += 1j * (value(index, 1j * step) - value(index, -1j * step)) / (2 * step)

returned = gradients(COTANGENTS)[{at}]
print("returned:", returned)
print("expected:", expected, "by central differences")
assert apart(returned, expected) <= {close}, "the gradient is not the derivative"
"""

RAISES = """
try:
    gradients(COTANGENTS)
    error = None
except Exception as raised:
    error = raised
print("the forward returns", [tuple(o.shape) for o in call(*inputs())])
print("the backward raises", repr(error))
assert error is None, "the backward raises where the forward does not"
"""

SECOND = """
# The derivative of <gradient, v>, by autograd and by central differences.
def weighted(index=None, shift=0.0):
    given = inputs()
    if index is not None:
        given[JUDGED[{at}]].data[index] += shift
    judged = [given[at] for at in JUDGED]
    found = torch.autograd.grad(call(*given), judged, COTANGENTS, create_graph=True, allow_unused=True)
    total = sum(
        (g * torch.linspace(-1.0, 1.5, g.numel(), dtype=g.dtype).reshape(g.shape).conj()).real.sum()
        for g in found
        if g is not None
    )
    return total, judged[{at}]


total, x = weighted()
returned = torch.zeros_like(x)
if total.requires_grad:
    (found,) = torch.autograd.grad(total, [x], allow_unused=True)
    returned = returned if found is None else found
expected = torch.zeros(x.shape, dtype=x.dtype)
for index in itertools.product(*map(range, x.shape)):
    step = {step} * (abs(x[index].item()) or 1.0)
    expected[index] = ((weighted(index, step)[0] - weighted(index, -step)[0]) / (2 * step)).detach()
print("second derivative returned:", returned)
print("expected:", expected, "by central differences of the gradient")
assert apart(returned, expected) <= 10 * {close}, "the second derivative is wrong, silently"
"""

PRECISION = """
def error_in(dtype):
    found = []
    for wide in (False, True):
        given = [
            x.detach().to(dtype).to(torch.float64 if wide else dtype) if x.is_floating_point() else x
            for x in inputs()
        ]
        for at in JUDGED:
            given[at].requires_grad_()
        outputs = call(*given)
        cotangents = [c.to(dtype).to(o.dtype) for c, o in zip(COTANGENTS, outputs)]
        found.append(torch.autograd.grad(outputs, [given[at] for at in JUDGED], cotangents)[{at}].double())
    print(dtype, "gradient:", found[0], "in float64 at the same inputs:", found[1])
    return apart(found[0], found[1])


error = error_in({dtype})
print("relative error", error, "; one rounding is", torch.finfo({dtype}).eps)
assert error <= {allowed}, "the gradient loses more than its dtype does"
"""
