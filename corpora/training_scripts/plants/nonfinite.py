"""Where NaN or inf begins: at the edge of a function, by overflow, by a count of nothing, by a mask."""

from corpora.training_scripts.plant import Plant

BEGINS = ("GW511", "GW512")

EDGES = [
    Plant(
        "NaN at an edge",
        "siamese_triplet",
        "the root of a distance of 0, masked away afterwards",
        (
            ("torch.sqrt(((a - b) ** 2).sum(dim=-1) + 1e-8)", "torch.sqrt(((a - b) ** 2).sum(dim=-1))"),
            (
                "between = distance(anchor.unsqueeze(1), positive.unsqueeze(0))",
                "between = distance(anchor.unsqueeze(1), anchor.unsqueeze(0))",
            ),
        ),
        BEGINS,
        ("return torch.sqrt(",),
        says=("sqrt", "root"),
    ),
    Plant(
        "NaN at an edge",
        "matrix_factorisation",
        "torch.where chooses, the root of a negative number is behind it",
        (
            (
                "        loss = loss_func(prediction, rating)\n",
                "        root = torch.where(prediction > 3, torch.sqrt(prediction - 3), torch.zeros_like(prediction))\n"
                "        loss = loss_func(root, (rating - 3).clamp(min=0).sqrt())\n",
            ),
        ),
        BEGINS,
        ("root = torch.where(",),
        says=("where", "exactly 0"),
    ),
    Plant(
        "NaN at an edge",
        "logistic_by_hand",
        "softplus by torch.where: the exponential overflows behind it",
        (
            ("lr = 0.5\n", "lr = 200\n"),
            (
                "loss = (torch.clamp(logits, min=0) - logits * y + torch.log1p(torch.exp(-logits.abs()))).mean()",
                "loss = (torch.where(logits > 20, logits, torch.log1p(torch.exp(logits))) - logits * y).mean()",
            ),
        ),
        BEGINS,
        ("loss = (torch.where(",),
        says=("where", "exactly 0", "exp"),
    ),
    Plant(
        "NaN at an edge",
        "cnn_images",
        "the logarithm of a softmax that is 0",
        (
            ("        x = self.fc2(x)\n", "        x = 2000 * self.fc2(x)\n"),
            ("return F.log_softmax(x, dim=1)", "return torch.log(F.softmax(x, dim=1))"),
        ),
        BEGINS,
        ("return torch.log(F.softmax(",),
        says=("log",),
    ),
    Plant(
        "NaN at an edge",
        "style_transfer",
        "total variation as a power 1/2 on a flat image",
        (
            (
                "    return (image[..., 1:, :] - image[..., :-1, :]).abs().mean() + (image[..., 1:] - "
                "image[..., :-1]).abs().mean()\n",
                "    down = image[..., 1:, :-1] - image[..., :-1, :-1]\n"
                "    right = image[..., :-1, 1:] - image[..., :-1, :-1]\n"
                "    return ((down**2 + right**2) ** 0.5).mean()\n",
            ),
            ("image = content_image.clone()", "image = style_image.clone()"),
        ),
        BEGINS,
        ("return ((down**2 + right**2) ** 0.5).mean()",),
        says=("pow", "power"),
    ),
    Plant(
        "NaN at an edge",
        "contrastive_infonce",
        "acos of a cosine of 1",
        (
            (
                "    similarity = z @ z.t() / temperature\n",
                "    similarity = -torch.acos((z @ z.t()).clamp(-1, 1)) / temperature\n",
            ),
        ),
        BEGINS,
        ("similarity = -torch.acos(",),
        says=("acos",),
    ),
    Plant(
        "NaN at an edge",
        "vae",
        "the logarithm of what is no probability",
        (
            ("return torch.sigmoid(self.fc4(h3))", "return self.fc4(h3)"),
            (
                'bce = F.binary_cross_entropy(recon_x, x, reduction="sum")',
                "bce = -(x * torch.log(recon_x) + (1 - x) * torch.log(1 - recon_x)).sum()",
            ),
        ),
        BEGINS,
        ("bce = -(x * torch.log(recon_x)",),
        says=("log",),
    ),
    Plant(
        "NaN at an edge",
        "wgan_gp",
        "the norm of a zero gradient, by a root",
        (
            (
                "nn.Linear(2, width), nn.Softplus(), nn.Linear(width, width), nn.Softplus(), nn.Linear(width, 1)",
                "nn.Linear(2, width), nn.ReLU(), nn.Linear(width, 4), nn.ReLU(), nn.Linear(4, 1)",
            ),
            ("norms = gradients.norm(2, dim=1)", "norms = gradients.pow(2).sum(dim=1).sqrt()"),
        ),
        BEGINS,
        ("norms = gradients.pow(2).sum(dim=1).sqrt()",),
        says=("sqrt", "root"),
    ),
]

OVERFLOW = [
    Plant(
        "overflow",
        "normalising_flow",
        "scales without a tanh, grown beyond exp",
        (
            (
                "return torch.tanh(s) * (1 - self.mask), t * (1 - self.mask)",
                "return 400 * s * (1 - self.mask), t * (1 - self.mask)",
            ),
        ),
        BEGINS,
        ("z = x * self.mask + (1 - self.mask) * (x * torch.exp(s) + t)",),
        says=("exp",),
    ),
    Plant(
        "overflow",
        "contrastive_infonce",
        "a softmax by hand at a low temperature",
        (
            ("temperature=0.2", "temperature=0.005"),
            (
                "    return F.cross_entropy(similarity, positives)\n",
                "    weights = torch.exp(similarity)\n"
                "    return -torch.log(weights[torch.arange(2 * batch), positives] / weights.sum(dim=1)).mean()\n",
            ),
        ),
        BEGINS,
        ("weights = torch.exp(similarity)",),
        says=("exp",),
    ),
    Plant(
        "overflow",
        "amp_scaler",
        "a sum of squares in half",
        (
            (
                "            loss = criterion(logits, labels)\n",
                "            wanted = 100 * nn.functional.one_hot(labels, 4).half()\n"
                "            loss = ((logits - wanted) ** 2).sum() / len(labels)\n",
            ),
        ),
        BEGINS,
        ("loss = ((logits - wanted) ** 2).sum()",),
        says=("float16", "half", "65504", "65,504"),
    ),
    Plant(
        "overflow",
        "custom_function",
        "a learning rate that explodes",
        (("torch.optim.Adam(net.parameters(), lr=5e-3)", "torch.optim.SGD(net.parameters(), lr=5.0)"),),
        BEGINS,
        (
            "optimizer = torch.optim.SGD(",
            "loss = nn.functional.mse_loss(",
            "        return x * torch.sigmoid(x)",
            "        return alpha * (x @ w.t())",
            "return grad_output * (s",
            "return self.fc2(h)",
            "h = Swish.apply(self.fc1(x))",
            "h = Swish.apply(ScaledLinear",
        ),
        says=("explo", "grow", "grew", "learning rate"),
    ),
    Plant(
        "overflow",
        "checkpointed_mlp",
        "residuals and a learning rate that explode, under checkpointing",
        (
            (
                "x + self.down(torch.nn.functional.silu(self.up(self.norm(x))))",
                "x + self.down(torch.nn.functional.silu(self.up(x)))",
            ),
            ("torch.optim.AdamW(net.parameters(), lr=1e-3)", "torch.optim.SGD(net.parameters(), lr=20.0)"),
            ("nn.SmoothL1Loss()", "nn.MSELoss()"),
        ),
        BEGINS,
        (
            "optimizer = torch.optim.SGD(",
            "return x + self.down(",
            "x = checkpoint(",
            "loss = loss_fn(",
            "return self.outlet(x)",
            "loss.backward()",
        ),
        says=("explo", "grow", "grew", "learning rate"),
    ),
    Plant(
        "overflow",
        "multi_task",
        "a Poisson loss whose rate is an exponential of anything",
        (
            (
                "values = (x[:, 3] * 2 - x[:, 4] + 0.1 * torch.randn(384)).unsqueeze(1)",
                "values = torch.poisson(torch.exp(x[:, 3:4]))\nx = 1000 * x",
            ),
            (
                "loss_value = mse(predicted, values[rows])",
                "loss_value = (torch.exp(predicted) - values[rows] * predicted).mean()",
            ),
        ),
        BEGINS,
        ("loss_value = (torch.exp(",),
        says=("exp",),
    ),
]

NOTHING = [
    Plant(
        "a count of nothing",
        "masked_lm_accumulation",
        "the mean over no masked token",
        (
            ("    rate = 0.1 + 0.3 * torch.rand(1)\n", "    rate = 0.004 * torch.rand(1)\n"),
            ("    masked[:, 0] = True\n", ""),
            ('labels.view(-1), reduction="sum") / count', "labels.view(-1)) / MICRO_BATCHES"),
        ),
        BEGINS,
        ("loss = F.cross_entropy(",),
        says=("ignored", "0 / 0", "no entr", "empty", "count"),
    ),
    Plant(
        "a count of nothing",
        "reinforce",
        "the deviation of a single return",
        (("if done or t >= 40:", "if done or t >= 1:"),),
        BEGINS,
        ("returns = (returns - returns.mean()) / (returns.std() + EPS)",),
        says=("single", "one value", "std"),
    ),
    Plant(
        "a count of nothing",
        "graph_convolution",
        "the mean over a class that no training node has",
        (
            ("train_mask[torch.randperm(nodes)[:24]] = True", "train_mask[torch.arange(24) * 3] = True"),
            (
                "    loss = (node_loss * train_mask).sum() / train_mask.sum()\n",
                "    per_class = [train_mask & (labels == c) for c in range(classes)]\n"
                "    loss = sum((node_loss * mask).sum() / mask.sum() for mask in per_class) / classes\n",
            ),
        ),
        BEGINS,
        ("loss = sum((node_loss * mask).sum() / mask.sum()",),
        says=("0", "count", "divi"),
    ),
    Plant(
        "a count of nothing",
        "contrastive_infonce",
        "a feature vector of zeros, normalised",
        (
            (
                "self.projector = nn.Sequential(nn.ReLU(), nn.Linear(32, dim_out))",
                "self.projector = nn.Sequential(nn.ReLU(), nn.Linear(32, dim_out), nn.ReLU())",
            ),
            ("dim_out=8", "dim_out=3"),
            (
                "z = F.normalize(torch.cat([z1, z2]), dim=1)",
                "z = torch.cat([z1, z2])\n    z = z / z.norm(dim=1, keepdim=True)",
            ),
        ),
        BEGINS,
        ("z = z / z.norm(dim=1, keepdim=True)",),
        says=("0", "norm"),
    ),
    Plant(
        "a count of nothing",
        "transformer_classifier",
        "sequences of nothing but padding",
        (("torch.randint(6, 15, (size, 1)", "torch.randint(0, 15, (size, 1)"),),
        BEGINS,
        ("x = layer(x, src_key_padding_mask=padding)", "pooled = (x * keep).sum(1) / keep.sum(1)"),
        says=("0 / 0", "count"),
    ),
    Plant(
        "a count of nothing",
        "gpt_small",
        "a causal mask without the diagonal: the first row is all -inf",
        (
            (
                "torch.tril(torch.ones(config.block_size, config.block_size))",
                "torch.tril(torch.ones(config.block_size, config.block_size), -1)",
            ),
        ),
        BEGINS,
        ("att = F.softmax(att, dim=-1)",),
        says=("mask", "-inf", "row"),
    ),
    Plant(
        "a count of nothing",
        "seq2seq_attention",
        "the padding mask the wrong way round",
        (("scores.masked_fill(~mask, float", "scores.masked_fill(mask, float"),),
        BEGINS,
        ("weights = F.softmax(scores, dim=-1)",),
        says=("mask", "-inf", "row"),
    ),
]

TIMES_INF = [
    Plant(
        "0 times inf",
        "actor_critic",
        "entropy by hand: 0 log 0 of an action that is masked",
        (
            (
                "torch.distributions.Categorical(logits=self.actor(features))",
                "torch.distributions.Categorical(logits=self.actor(features).masked_fill(torch.arange(3) "
                '== 1, float("-inf")))',
            ),
            (
                "entropies.append(distribution.entropy())",
                "entropies.append(-(distribution.probs * distribution.probs.log()).sum(-1))",
            ),
        ),
        BEGINS,
        ("entropies.append(-(distribution.probs",),
        says=("0 * inf", "inf", "log"),
    ),
    Plant(
        "0 times inf",
        "mlp_regression",
        "missing targets are NaN, and multiplied away",
        (
            ("train_set, val_set", 'target[::50] = float("nan")\ntrain_set, val_set'),
            (
                "        loss = criterion(outputs, targets)\n",
                "        known = (~targets.isnan()).float()\n"
                "        loss = ((outputs - targets) ** 2 * known).mean()\n",
            ),
        ),
        BEGINS,
        ("loss = ((outputs - targets) ** 2 * known).mean()", 'target[::50] = float("nan")'),
        says=("nan", "NaN", "mask", "start"),
    ),
    Plant(
        "0 times inf",
        "seq2seq_attention",
        "a mask of -inf times 0",
        (('scores = scores.masked_fill(~mask, float("-inf"))', 'scores = scores + (~mask).float() * float("-inf")'),),
        BEGINS,
        ("scores = scores + (~mask).float() * float",),
        says=("0 * inf", "inf"),
    ),
]

PLANTS = [*EDGES, *OVERFLOW, *NOTHING, *TIMES_INF]
