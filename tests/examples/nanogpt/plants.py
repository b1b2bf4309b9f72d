"""Faults to plant into examples/nanogpt, one at a time, as people really make them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "examples" / "nanogpt"
TINY = ("--layers", "2", "--heads", "2", "--width", "16", "--block", "8", "--batch-size", "4", "--sample", "0")

Edit = tuple[str, str, str]


@dataclass(frozen=True)
class Plant:
    """``edits``: a file, a text that stands in it once, and what stands there instead. ``code``: what the doctor has to
    say; ``at``: a text that stands once in the planted files and ends in the line it has to name. ``script``,
    ``steps``, ``more``: what is run, how long, and with which further arguments."""

    name: str
    what: str
    script: str
    edits: tuple[Edit, ...]
    code: str
    at: str
    more: tuple[str, ...] = ()
    steps: int = 12

    @property
    def arguments(self) -> tuple[str, ...]:
        curves = ("--no-curves",) if self.script == "train.py" else ()
        return ("--steps", str(self.steps), *TINY, *curves, *self.more)

    def planted(self, folder: Path) -> Path:
        """The script, in a copy of the example.  Raises: ValueError where an edit does not apply exactly once."""
        copied(folder)
        for name, old, new in self.edits:
            text = (folder / name).read_text()
            if text.count(old) != 1:
                raise ValueError(f"{self.name}: stands {text.count(old)} times in {name}: {old!r}")
            (folder / name).write_text(text.replace(old, new))
        return folder / self.script

    def place(self, folder: Path) -> tuple[str, int]:
        """File and line that the doctor has to name: that in which ``at`` ends."""
        texts = {path.name: path.read_text() for path in sorted(folder.glob("*.py"))}
        found = [name for name, text in texts.items() for _ in range(text.count(self.at))]
        if len(found) != 1:
            raise ValueError(f"{self.name}: stands {len(found)} times: {self.at!r}")
        text = texts[found[0]]
        return found[0], text[: text.index(self.at) + len(self.at)].count("\n") + 1


def copied(folder: Path) -> None:
    """The example's files, with a short text."""
    (folder / "data").mkdir(parents=True)
    for path in EXAMPLE.glob("*.py"):
        shutil.copy(path, folder)
    text = next((EXAMPLE / "data").glob("*.txt")).read_text()
    (folder / "data" / "short.txt").write_text(text[:20_000])


_PERCEPTRON = "    return of_x.add_(cotangent), of_gain, of_a.t() @ normed, of_down\n"
_STEP = "                loss.backward()\n"
_CLIP = "        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.max_norm)\n"
_SDPA = "        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)\n"

PLANTS = (
    Plant(
        "slope of gelu",
        "the backward of the perceptron forgets gelu'(a)",
        "train.py",
        (("fused.py", "of_gelu(cotangent @ down, a)", "cotangent @ down"),),
        "GW101",
        "return of_x.add_(cotangent), of_gain, of_a.t() @ n, of_down",
        steps=4,
    ),
    Plant(
        "skip connection",
        "the backward forgets that x also goes past the perceptron",
        "train.py",
        (("fused.py", "return of_x.add_(cotangent), of_gain", "return of_x, of_gain"),),
        "GW101",
        "return of_x, of_gain, of_a.t() @ n, of_down",
        steps=4,
    ),
    Plant(
        "cotangent ignored",
        "the gradient of W is that of a sum: it does not look at the cotangent",
        "train.py",
        (("fused.py", "mean, r), cotangent.t() @ n", "mean, r), torch.ones_like(cotangent).t() @ n"),),
        "GW101",
        "torch.ones_like(cotangent).t() @ n",
        steps=4,
    ),
    Plant(
        "cotangent written on",
        "the backward adds its own part to the cotangent in place",
        "train.py",
        (("fused.py", "return of_x.add_(cotangent), of_gain", "return cotangent.add_(of_x), of_gain"),),
        "GW202",
        "@perceptron.backward\ndef _(",
        steps=4,
    ),
    Plant(
        "rows one by one",
        "the gradient of W_down is summed in a Python loop over the rows",
        "train.py",
        (
            (
                "fused.py",
                "    of_down = cotangent.t() @ gelu(a)\n",
                "    hidden, of_down = gelu(a), torch.zeros_like(down)\n"
                "    for row in range(cotangent.shape[0]):\n"
                "        of_down += cotangent[row, :, None] * hidden[row]\n",
            ),
        ),
        "GW304",
        "    for row in range(cotangent.shape[0]):",
        ("--block", "64", "--batch-size", "12"),
        steps=40,  # the first one is torch's own imports for the most part
    ),
    Plant(
        "gains forgotten",
        "the optimizer gets the matrices alone",
        "plain.py",
        (
            (
                "settings.py",
                'groups = [{"params": matrices}, {"params": gains, "weight_decay": 0.0}]',
                'groups = [{"params": matrices}]',
            ),
        ),
        "GW623",
        "return torch.optim.AdamW(",
    ),
    Plant(
        "layers in a list",
        "the blocks stand in a plain list",
        "plain.py",
        (
            (
                "model.py",
                "nn.ModuleList(self.new_block() for _ in range(size.layers))",
                "[self.new_block() for _ in range(size.layers)]",
            ),
        ),
        "GW623",
        "return torch.optim.AdamW(",
    ),
    Plant(
        "cut off",
        "features are detached",
        "plain.py",
        (("model.py", "return self.norm(x)", "return self.norm(x.detach())"),),
        "GW624",
        "return self.norm(x.detach())",
    ),
    Plant(
        "zero_grad missing",
        "gradients are never cleared",
        "plain.py",
        (("plain.py", "        self.optimizer.zero_grad(set_to_none=True)\n", ""),),
        "GW601",
        "loss.backward()",
    ),
    Plant(
        "cleared too early",
        "zero_grad between backward and step",
        "plain.py",
        (
            ("plain.py", "        self.optimizer.zero_grad(set_to_none=True)\n", ""),
            ("plain.py", _CLIP, "        self.optimizer.zero_grad(set_to_none=True)\n" + _CLIP),
        ),
        "GW602",
        "self.optimizer.zero_grad(set_to_none=True)",
    ),
    Plant(
        "loss not divided",
        "micro-batches are summed, not averaged",
        "plain.py",
        (("plain.py", " / len(micro_batches)", ""),),
        "GW603",
        "loss.backward()",
        ("--accumulation-steps", "2"),
    ),
    Plant(
        "softmax twice",
        "cross_entropy gets probabilities",
        "plain.py",
        (("plain.py", "F.cross_entropy(logits.flatten(0, 1),", "F.cross_entropy(logits.flatten(0, 1).softmax(-1),"),),
        "GW620",
        "F.cross_entropy(logits.flatten(0, 1).softmax(-1),",
    ),
    Plant(
        "softmax twice, ours",
        "gw.losses.cross_entropy gets probabilities",
        "train.py",
        (
            (
                "train.py",
                "gw.losses.cross_entropy(logits.flatten(0, 1),",
                "gw.losses.cross_entropy(logits.flatten(0, 1).softmax(-1),",
            ),
        ),
        "GW620",
        "gw.losses.cross_entropy(logits.flatten(0, 1).softmax(-1),",
    ),
    Plant(
        "graphs kept",
        "losses are kept with their graphs",
        "plain.py",
        (
            ("plain.py", "total = total + loss.detach()", "total = total + loss"),
            ("command.py", "self.losses.append(float(loss))", "self.losses.append(loss)"),
        ),
        "GW404",
        "self.losses.append(loss)",
        steps=24,
    ),
    Plant(
        "clipped too late",
        "gradients are clipped behind the step",
        "plain.py",
        (
            ("plain.py", _CLIP, ""),
            ("plain.py", "        self.optimizer.step()\n", "        self.optimizer.step()\n" + _CLIP),
        ),
        "GW605",
        "clip_grad_norm_",
    ),
    Plant(
        "schedule too fast",
        "the schedule moves with each micro-batch",
        "plain.py",
        (
            ("plain.py", "        self.schedule.step()\n", ""),
            ("plain.py", _STEP, _STEP + "                self.schedule.step()\n"),
        ),
        "GW606",
        "self.schedule.step()",
        ("--accumulation-steps", "2"),
    ),
    Plant(
        "row without a token",
        "attention masks a token's own place too: the first row is all -inf",
        "plain.py",
        (
            (
                "model.py",
                _SDPA,
                "        score = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)\n"
                "        later = torch.ones(time, time, dtype=torch.bool).triu()\n"
                '        heads = score.masked_fill(later, float("-inf")).softmax(-1) @ v\n',
            ),
        ),
        "GW511",
        'heads = score.masked_fill(later, float("-inf"))',
    ),
    Plant(
        "loss made anew",
        "the loss is made anew from its value",
        "plain.py",
        (
            (
                "plain.py",
                _STEP,
                "                loss = torch.tensor(loss.item(), requires_grad=True)\n" + _STEP,
            ),
        ),
        "GW621",
        "loss = torch.tensor(loss.item(), requires_grad=True)",
    ),
    Plant(
        "eval left on",
        "the model is put into eval mode for a look at the validation loss, and left there",
        "plain.py",
        (
            ("model.py", "        return x + self.down(", "        return x + self.drop(self.down("),
            ("model.py", "self.norm_perceptron(x))))", "self.norm_perceptron(x)))))"),
            (
                "model.py",
                "        self.down = nn.Linear(4 * width, width, bias=False)\n",
                "        self.down = nn.Linear(4 * width, width, bias=False)\n        self.drop = nn.Dropout(0.1)\n",
            ),
            (
                "command.py",
                '        """Of micro-batches that are the same each time."""\n',
                '        """Of micro-batches that are the same each time."""\n        model.eval()\n',
            ),
        ),
        "GW625",
        "model.eval()",
    ),
    Plant(
        "anomaly mode",
        "anomaly mode is left on",
        "plain.py",
        (
            (
                "plain.py",
                "    with started(asked) as run:\n",
                "    torch.autograd.set_detect_anomaly(True)\n    with started(asked) as run:\n",
            ),
        ),
        "GW313",
        "torch.autograd.set_detect_anomaly(True)",
    ),
)
