"""One gradient asked for in several ways, which must agree."""

NONLINEAR = """
# A vjp is linear in its cotangent: B(a + b) = B(a) + B(b), B(-a) = -B(a), B(1000 a) = 1000 B(a), B(0) = 0.
other = [(c.roll(1) if c.numel() > 1 else 0.3 * c) * -0.7 for c in COTANGENTS]
both = [a + b for a, b in zip(COTANGENTS, other)]
one, two, together = gradients(COTANGENTS)[{at}], gradients(other)[{at}], gradients(both)[{at}]
negative = gradients([-c for c in COTANGENTS])[{at}]
large = gradients([1000 * c for c in COTANGENTS])[{at}]
zero = gradients([0 * c for c in COTANGENTS])[{at}]
print("B(a) + B(b) =", one + two)
print("B(a + b)    =", together)
print("-B(a)       =", -one)
print("B(-a)       =", negative)
print("B(1000 a) / 1000 =", large / 1000)
print("B(0)        =", zero)
worst = max(apart(together, one + two), apart(negative, -one), apart(large / 1000, one), apart(one + zero, one))
assert worst <= {close}, "the backward is not linear in the cotangent"
"""

REPEATED = """
first = gradients(COTANGENTS)


def twice():
    given = inputs()
    outputs, judged = call(*given), [given[at] for at in JUDGED]
    torch.autograd.grad(outputs, judged, COTANGENTS, retain_graph=True, allow_unused=True)
    return torch.autograd.grad(outputs, judged, COTANGENTS, allow_unused=True)


def between(disturb):
    given = inputs()
    outputs = call(*given)
    disturb()
    return torch.autograd.grad(outputs, [given[at] for at in JUDGED], COTANGENTS, allow_unused=True)


def another_call():
    given = inputs()
    for at in JUDGED:
        given[at].data += 0.5
    call(*given)


ways = {{
    "again": lambda: gradients(COTANGENTS),
    "twice through one graph": twice,
    "other random numbers drawn in between": lambda: between(lambda: torch.manual_seed(1)),
    "another call in between": lambda: between(another_call),
}}
worst = 0.0
print("first:", first)
for name, way in ways.items():
    try:
        found = way()
    except Exception as error:
        found, worst = error, float("inf")
    else:
        worst = max([worst, *(apart(f, e) for f, e in zip(found, first) if e is not None)])
    print(name + ":", found)
assert worst <= {close}, "the gradient of one call depends on what else happens"
"""

LAYOUT = """
def layouts(t):
    yield "transposed", t.mT.contiguous().mT if t.dim() > 1 else t
    yield "axes reversed", t.permute(*reversed(range(t.dim()))).contiguous().permute(*reversed(range(t.dim())))
    poisoned = torch.full((*t.shape, 2), float("nan"), dtype=t.dtype)
    poisoned[..., 0] = t
    yield "every other number of its storage", poisoned[..., 0]
    gap = torch.full((*t.shape[:-1], t.shape[-1] + 3), float("nan"), dtype=t.dtype) if t.dim() else t
    if t.dim():
        gap[..., 2:-1] = t
        yield "a slice of NaN", gap[..., 2:-1]
    yield "expanded", t.flatten()[0].expand(t.shape)


def try_layout(cotangents=None, position=None, laid_out=None):
    given = list(inputs())
    if position is not None:
        given[position] = laid_out.detach().requires_grad_(given[position].requires_grad)
    outputs = call(*given)
    return torch.autograd.grad(outputs, [given[at] for at in JUDGED], cotangents or COTANGENTS, allow_unused=True)


def compare(name, strided, plain):
    found = []
    for given in (strided, plain):
        try:
            found.append(try_layout(**given))
        except Exception as error:
            found.append(error)
    print(name, "\\n  strided:   ", found[0], "\\n  contiguous:", found[1])
    if isinstance(found[0], Exception) or isinstance(found[1], Exception):
        return 0.0 if isinstance(found[1], Exception) else float("inf")
    return max(apart(one, other) for one, other in zip(*found) if other is not None)


worst = 0.0
for number, cotangent in enumerate(COTANGENTS):
    for name, strided in layouts(cotangent):
        others = list(COTANGENTS)
        pair = [{{"cotangents": [*others[:number], t, *others[number + 1 :]]}} for t in (strided, strided.contiguous())]
        worst = max(worst, compare("cotangent " + str(number) + " " + name, *pair))
for position, x in enumerate(inputs()):
    if isinstance(x, torch.Tensor):
        for name, strided in layouts(x.detach()):
            pair = [{{"position": position, "laid_out": t}} for t in (strided, strided.contiguous())]
            worst = max(worst, compare("input " + str(position) + " " + name, *pair))
assert worst <= {close}, "the gradient depends on how the numbers lie in memory"
"""

SUBSETS = """
every = gradients(COTANGENTS)
worst = 0.0
for at, position in enumerate(JUDGED):
    given = [x.detach() if isinstance(x, torch.Tensor) else x for x in inputs()]
    given[position].requires_grad_()
    try:
        (alone,) = torch.autograd.grad(call(*given), [given[position]], COTANGENTS, allow_unused=True)
    except Exception as error:
        alone, worst = error, float("inf")
    else:
        alone = torch.zeros_like(every[at]) if alone is None else alone
        worst = max(worst, apart(alone, every[at]))
    print("input", position, "alone:", alone, "with all others:", every[at])
assert worst <= {close}, "a gradient depends on which other inputs require one"
"""

UNDEFINED = """
worst, count = 0.0, len(COTANGENTS)
for mask in range(1, 2**count - 1):
    kept = [number for number in range(count) if mask >> number & 1]
    zeros = [c if number in kept else torch.zeros_like(c) for number, c in enumerate(COTANGENTS)]
    expected = gradients(zeros)
    given = inputs()
    outputs, judged = call(*given), [given[at] for at in JUDGED]
    try:
        found = torch.autograd.grad(
            [outputs[k] for k in kept], judged, [COTANGENTS[k] for k in kept], allow_unused=True, materialize_grads=True
        )
    except Exception as error:
        found, worst = error, float("inf")
    else:
        worst = max([worst, *(apart(f, e) for f, e in zip(found, expected))])
    print("only outputs", kept, "used:", found, "zeros for the others:", expected)
assert worst <= {close}, "an output that is not used is taken for something else than zero"
"""

TRANSFORM = """
fixed = [x.detach() if isinstance(x, torch.Tensor) else x for x in inputs()]
places = tuple(range(len(JUDGED)))
plain = [fixed[at] for at in JUDGED]
expected = gradients(COTANGENTS)


def called(*judged):
    given = list(fixed)
    for position, x in zip(JUDGED, judged):
        given[position] = x
    return call(*given, every=True)


def flat(*judged):
    return sum((c.conj() * o).real.sum() for c, o in zip(COTANGENTS, called(*judged)))


def stacked(way, axis):
    batch = [torch.stack([x, 2 * x], dim=axis if x.dim() else 0) for x in plain]
    axes = tuple(axis if x.dim() else 0 for x in plain)
    return [found[0] for found in torch.func.vmap(way, axes)(*batch)]


def forward_mode():
    return [torch.func.jvp(flat, tuple(plain), tuple(torch.ones_like(x) for x in plain))[1]]


def compiled():
    judged = [x.clone().requires_grad_() for x in plain]
    return torch.autograd.grad(torch.compile(flat, backend="aot_eager")(*judged), judged)


ways = {{
    "torch.func.grad": (lambda: torch.func.grad(flat, places)(*plain), expected),
    "torch.func.vmap": (lambda: stacked(called, 0), called(*plain)),
    "torch.func.vmap, over the last axis": (lambda: stacked(called, -1), called(*plain)),
    "torch.func.vmap of torch.func.grad": (lambda: stacked(torch.func.grad(flat, places), 0), expected),
    "torch.func.jvp": (forward_mode, [sum(g.real.sum() for g in expected)]),
}}
if {compiles}:
    ways = {{"torch.compile": (compiled, expected)}}
worst = 0.0
print("eager:", expected)
for name, (way, right) in ways.items():
    try:
        found = way()
    except Exception as error:
        found = repr(error).splitlines()[0]
    else:
        worst = max([worst, *(apart(f, e) for f, e in zip(found, right))])
    print(name + ":", found)
assert worst <= {close}, "under a transform the gradient is another one"
"""
