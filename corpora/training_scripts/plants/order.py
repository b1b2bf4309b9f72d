"""What is done in the wrong order, or not at all: clearing, accumulating, clipping, scheduling, synchronising."""

from corpora.training_scripts.plant import Plant

BACKWARD = "loss.backward()"

ZERO_GRAD_MISSING = [
    Plant(
        "zero_grad missing",
        "mlp_regression",
        "never cleared",
        (("        optimizer.zero_grad()\n        outputs", "        outputs"),),
        ("GW601",),
        (BACKWARD,),
    ),
    Plant(
        "zero_grad missing",
        "cnn_images",
        "never cleared, in train()",
        (("        optimizer.zero_grad()\n        output = model(data)", "        output = model(data)"),),
        ("GW601",),
        (BACKWARD,),
    ),
    Plant(
        "zero_grad missing",
        "logistic_by_hand",
        "no .grad is zeroed after the update by hand",
        (("        w.grad.zero_()\n        b.grad.zero_()\n", ""),),
        ("GW601",),
        (BACKWARD,),
    ),
    Plant(
        "zero_grad missing",
        "logistic_by_hand",
        "the bias's gradient is not zeroed",
        (("        b.grad.zero_()\n", ""),),
        ("GW601",),
        (BACKWARD,),
    ),
    Plant(
        "zero_grad missing",
        "char_rnn",
        "updates by hand through p.data, never cleared",
        (("        model.zero_grad()\n", ""),),
        ("GW601",),
        (BACKWARD,),
    ),
    Plant(
        "zero_grad missing",
        "lbfgs_fit",
        "the closure does not clear",
        (("        optimizer.zero_grad()\n        residual", "        residual"),),
        ("GW601",),
        (BACKWARD,),
    ),
    Plant(
        "zero_grad missing",
        "gan_points",
        "the generator's gradients are never cleared",
        (("    netG.zero_grad()\n", ""),),
        ("GW601",),
        ("errG.backward()",),
    ),
    Plant(
        "zero_grad missing",
        "seq2seq_attention",
        "of two optimizers one is not cleared",
        (("    decoder_optimizer.zero_grad()\n", ""),),
        ("GW601",),
        (BACKWARD,),
    ),
    Plant(
        "zero_grad missing",
        "pinn",
        "never cleared, with create_graph",
        (("    optimizer.zero_grad()\n", ""),),
        ("GW601",),
        (BACKWARD,),
    ),
]

ZERO_GRAD_MISPLACED = [
    Plant(
        "zero_grad misplaced",
        "gpt_small",
        "between backward and step, set to None",
        (
            (
                "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    optimizer.step()\n"
                "    optimizer.zero_grad(set_to_none=True)\n",
                "    optimizer.zero_grad(set_to_none=True)\n"
                "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    optimizer.step()\n",
            ),
        ),
        ("GW602",),
        ("optimizer.zero_grad(set_to_none=True)",),
    ),
    Plant(
        "zero_grad misplaced",
        "resnet_small",
        "between backward and step, set to zero",
        (
            (
                "        optimizer.zero_grad(set_to_none=True)\n        loss.backward()\n",
                "        loss.backward()\n        optimizer.zero_grad(set_to_none=False)\n",
            ),
        ),
        ("GW602",),
        ("optimizer.zero_grad(set_to_none=False)",),
    ),
    Plant(
        "zero_grad misplaced",
        "vae",
        "the step before the backward, cleared in between",
        (
            (
                "        loss.backward()\n        train_loss += loss.item()\n        optimizer.step()\n",
                "        optimizer.step()\n        loss.backward()\n        train_loss += loss.item()\n",
            ),
        ),
        ("GW602",),
        ("optimizer.zero_grad()", "optimizer.step()"),
    ),
    Plant(
        "zero_grad misplaced",
        "mlp_regression",
        "once per epoch, not per batch",
        (
            (
                "    for inputs, targets in train_loader:\n        optimizer.zero_grad()\n",
                "    optimizer.zero_grad()\n    for inputs, targets in train_loader:\n",
            ),
        ),
        ("GW601", "GW602"),
        (BACKWARD, "optimizer.zero_grad()"),
    ),
    Plant(
        "zero_grad misplaced",
        "accumulation",
        "with every micro-batch: the step sees the last alone",
        (("        loss.backward()\n", "        optimizer.zero_grad()\n        loss.backward()\n"),),
        ("GW602", "GW603"),
        ("optimizer.zero_grad()\n        loss.backward()", BACKWARD),
    ),
    Plant(
        "zero_grad misplaced",
        "siamese_triplet",
        "model.zero_grad() between backward and step",
        (
            (
                "        optimizer.zero_grad()\n        loss.backward()\n",
                "        loss.backward()\n        embedder.zero_grad()\n",
            ),
        ),
        ("GW602",),
        ("embedder.zero_grad()",),
    ),
]

ACCUMULATION = [
    Plant(
        "accumulation mis-scaled",
        "accumulation",
        "not divided",
        (("loss = criterion(model(inputs), labels) / window", "loss = criterion(model(inputs), labels)"),),
        ("GW603",),
        (BACKWARD, "loss = criterion(model(inputs), labels)"),
    ),
    Plant(
        "accumulation mis-scaled",
        "accumulation",
        "a short last window divided as a full one",
        (("window = min(ACCUMULATE, len(loader) - i // ACCUMULATE * ACCUMULATE)", "window = ACCUMULATE"),),
        ("GW603",),
        (BACKWARD, "loss = criterion(model(inputs), labels)"),
    ),
    Plant(
        "accumulation mis-scaled",
        "accumulation",
        "divided by another number than there are",
        (("window = min(ACCUMULATE, len(loader) - i // ACCUMULATE * ACCUMULATE)", "window = 16"),),
        ("GW603",),
        (BACKWARD, "loss = criterion(model(inputs), labels)"),
    ),
    Plant(
        "accumulation mis-scaled",
        "masked_lm_accumulation",
        "a mean of means over unequal counts of tokens",
        (('labels.view(-1), reduction="sum") / count', "labels.view(-1)) / MICRO_BATCHES"),),
        ("GW603",),
        (BACKWARD, "loss = F.cross_entropy("),
    ),
    Plant(
        "accumulation mis-scaled",
        "masked_lm_accumulation",
        "means that are not divided",
        (('labels.view(-1), reduction="sum") / count', "labels.view(-1))"),),
        ("GW603",),
        (BACKWARD, "loss = F.cross_entropy("),
    ),
    Plant(
        "accumulation mis-scaled",
        "ddp_gloo",
        "not divided, under no_sync",
        (("loss_fn(outputs, targets[rows]) / accumulate", "loss_fn(outputs, targets[rows])"),),
        ("GW603",),
        (BACKWARD, "loss = loss_fn("),
    ),
]

CLIPPING = [
    Plant(
        "clip at the wrong time",
        "amp_scaler",
        "never unscaled",
        (("        scaler.unscale_(optimizer)\n", ""),),
        ("GW604",),
        ("torch.nn.utils.clip_grad_norm_",),
    ),
    Plant(
        "clip at the wrong time",
        "amp_scaler",
        "clipped before it is unscaled",
        (
            (
                "        scaler.unscale_(optimizer)\n"
                "        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)\n",
                "        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)\n"
                "        scaler.unscale_(optimizer)\n",
            ),
        ),
        ("GW604",),
        ("torch.nn.utils.clip_grad_norm_",),
    ),
    Plant(
        "clip at the wrong time",
        "amp_scaler",
        "values of a scaled gradient are clipped",
        (
            (
                "        scaler.unscale_(optimizer)\n"
                "        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)\n",
                "        torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)\n",
            ),
        ),
        ("GW604",),
        ("torch.nn.utils.clip_grad_value_",),
    ),
    Plant(
        "clip at the wrong time",
        "transformer_classifier",
        "before the backward: there is nothing to clip",
        (
            (
                "        loss.backward()\n        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)\n",
                "        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)\n        loss.backward()\n",
            ),
        ),
        ("GW604", "GW605"),
        ("torch.nn.utils.clip_grad_norm_",),
    ),
]

SCHEDULING = [
    Plant(
        "scheduler per micro-batch",
        "accumulation",
        "moves on with each micro-batch",
        (
            (
                "            optimizer.zero_grad()\n            scheduler.step()\n",
                "            optimizer.zero_grad()\n        scheduler.step()\n",
            ),
        ),
        ("GW606",),
        ("scheduler.step()",),
    ),
    Plant(
        "scheduler per micro-batch",
        "ddp_gloo",
        "a scheduler of epochs moves on with each micro-batch",
        (
            (
                "                optimizer.zero_grad()\n        scheduler.step()\n",
                "                optimizer.zero_grad()\n            scheduler.step()\n",
            ),
        ),
        ("GW606",),
        ("scheduler.step()",),
    ),
    Plant(
        "scheduler per micro-batch",
        "bf16_autocast",
        "moves on before the optimizer's first step",
        (
            (
                "            self.optimizer.step()\n            self.scheduler.step()\n",
                "            self.scheduler.step()\n            self.optimizer.step()\n",
            ),
        ),
        ("GW605", "GW606"),
        ("self.scheduler.step()",),
    ),
]

_NO_SYNC = (
    "            with contextlib.nullcontext() if last else ddp_model.no_sync():\n"
    "                outputs = ddp_model(inputs[rows])\n"
    "                loss = loss_fn(outputs, targets[rows]) / accumulate\n"
    "                loss.backward()\n"
)
SYNCHRONISING = [
    Plant(
        "forward outside no_sync",
        "ddp_gloo",
        "only the backward is inside",
        (
            (
                _NO_SYNC,
                "            outputs = ddp_model(inputs[rows])\n"
                "            loss = loss_fn(outputs, targets[rows]) / accumulate\n"
                "            with contextlib.nullcontext() if last else ddp_model.no_sync():\n"
                "                loss.backward()\n",
            ),
        ),
        ("GW607",),
        ("outputs = ddp_model(inputs[rows])", "ddp_model.no_sync()"),
    ),
    Plant(
        "forward outside no_sync",
        "ddp_gloo",
        "no no_sync at all while gradients are accumulated",
        (
            (
                _NO_SYNC,
                "            outputs = ddp_model(inputs[rows])\n"
                "            loss = loss_fn(outputs, targets[rows]) / accumulate\n"
                "            loss.backward()\n",
            ),
        ),
        ("GW607",),
        ("outputs = ddp_model(inputs[rows])", BACKWARD),
    ),
]

PLANTS = [
    *ZERO_GRAD_MISSING,
    *ZERO_GRAD_MISPLACED,
    *ACCUMULATION,
    *CLIPPING,
    *SCHEDULING,
    *SYNCHRONISING,
]
