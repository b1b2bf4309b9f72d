"""What a backward itself returns, before the engine repairs it: number, shapes, dtypes; and what it leaves behind."""

# What the backward itself returns, before the engine repairs it.
_RAW = """
class Seen(SUBJECT):
    @staticmethod
    def {backward}(ctx, *cotangents):
        found = Original.{backward}(ctx, *cotangents)
        Seen.returned = found if isinstance(found, tuple) else (found,)
        return found


Original, SUBJECT = SUBJECT, Seen
try:
    gradients(COTANGENTS)
except RuntimeError as error:
    print("the engine says:", error)
"""

COUNT = (
    _RAW
    + """
count = {count}
print("the forward takes", count, "inputs; the backward returned", len(Seen.returned), "gradients")
assert len(Seen.returned) == count, "not one gradient for each input"
"""
)

SHAPE = (
    _RAW
    + """
wrong = False
for position in JUDGED:
    wanted, found = inputs()[position].shape, getattr(Seen.returned[{slots}[position]], "shape", None)
    print("input", position, "has shape", wanted, "its gradient", found)
    wrong = wrong or (found is not None and found != wanted)
assert not wrong, "a gradient has another shape than its input"
"""
)

DTYPE = (
    _RAW
    + """
wrong = False
for position in JUDGED:
    x, found = inputs()[position], Seen.returned[{slots}[position]]
    if found is not None:
        print("input", position, "is", x.dtype, x.device, "its gradient", found.dtype, found.device)
        wrong = wrong or (x.dtype, x.device) != (found.dtype, found.device)
assert not wrong, "a gradient has another dtype or device than its input"
"""
)

MUTATED = """
given = [x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x for x in inputs()]
passed = [x.clone() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in given]
saved = []


def pack(tensor):
    saved.append((tensor.detach(), tensor.detach().clone()))
    return tensor


with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
    outputs = call(*passed)
after_forward = [x.detach().clone() if isinstance(x, torch.Tensor) else x for x in passed]
lent = [c.clone() for c in COTANGENTS]
try:
    torch.autograd.grad(outputs, [given[at] for at in JUDGED], lent, allow_unused=True)
except RuntimeError as error:
    print("the engine says:", error)
changed = []


def compare(name, before, after):
    if isinstance(before, torch.Tensor) and not torch.equal(before.detach().nan_to_num(), after.detach().nan_to_num()):
        changed.append(name)
        print(name, "was", before.detach(), "and is", after.detach())


for number, (before, after) in enumerate(zip(COTANGENTS, lent)):
    compare("cotangent " + str(number), before, after)
for number, (after, before) in enumerate(saved):
    compare("saved tensor " + str(number), before, after)
for number, (before, forward, after) in enumerate(zip(given, after_forward, passed)):
    compare("input " + str(number) + " (by the backward)", forward, after)
    if {forward}:
        compare("input " + str(number) + " (by the forward)", before, forward)
assert not changed, "what was only lent is changed"
"""

LEAK = """
def once():
    given = inputs()
    outputs = call(*given)
    nodes = [weakref.ref(o.grad_fn) for o in outputs]
    torch.autograd.grad(outputs, [given[at] for at in JUDGED], COTANGENTS, allow_unused=True)
    return nodes


gc.disable()
nodes = once()
alive = sum(node() is not None for node in nodes)
print(alive, "of", len(nodes), "nodes of the graph are alive after everything that referred to them is gone")
assert alive == 0, "the graph is kept alive"
"""
