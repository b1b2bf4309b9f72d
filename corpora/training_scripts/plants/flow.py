"""Graphs that are kept, gradients that vanish, explode or never come, steps that take longer than they must."""

from corpora.training_scripts.plant import Plant

GRAPH_KEPT = [
    Plant(
        "graph kept over steps",
        "resnet_small",
        "total += loss",
        (("total += loss.item()", "total += loss"),),
        ("GW404",),
        ("total += loss",),
    ),
    Plant(
        "graph kept over steps",
        "autoencoder",
        "a history of losses with their graphs",
        (("history.append(loss.item())", "history.append(loss)"),),
        ("GW404",),
        ("history.append(loss)",),
    ),
    Plant(
        "graph kept over steps",
        "mlp_regression",
        "running_loss += loss * n",
        (("running_loss += loss.item() * inputs.size(0)", "running_loss += loss * inputs.size(0)"),),
        ("GW404",),
        ("running_loss += loss * inputs.size(0)",),
    ),
    Plant(
        "graph kept over steps",
        "matrix_factorisation",
        "an average as it goes, of losses",
        (
            ("loss_func = nn.MSELoss()\n", "loss_func = nn.MSELoss()\naverage = 0.0\n"),
            (
                "        total += loss.item()\n",
                "        total += loss.item()\n        average = 0.9 * average + 0.1 * loss\n",
            ),
        ),
        ("GW404",),
        ("average = 0.9 * average + 0.1 * loss",),
    ),
    Plant(
        "graph kept over steps",
        "char_rnn",
        "retain_graph=True instead of a detached hidden state",
        (
            ("        hidden = repackage_hidden(hidden)\n", ""),
            ("        loss.backward()\n", "        loss.backward(retain_graph=True)\n"),
            ("            p.data.add_(p.grad, alpha=-lr)\n", "            p.data = p.data - lr * p.grad\n"),
        ),
        ("GW404",),
        ("output, hidden = model(data, hidden)", "loss.backward(retain_graph=True)"),
    ),
]

GRADIENT_FLOW = [
    Plant(
        "gradients by layer",
        "checkpointed_mlp",
        "sigmoid after sigmoid, no residual: they vanish",
        (
            (
                "return x + self.down(torch.nn.functional.silu(self.up(self.norm(x))))",
                "return torch.sigmoid(self.down(torch.sigmoid(self.up(x))))",
            ),
        ),
        ("GW630",),
        (
            "return torch.sigmoid(self.down(",
            "loss.backward()",
            "self.inlet = nn.Linear(",
            "x = checkpoint(",
            "net = DeepNet()",
            "x = self.inlet(x)",
            "self.up = nn.Linear(",
            "self.down = nn.Linear(",
        ),
    ),
    Plant(
        "gradients by layer",
        "early_stopping",
        "ten layers of sigmoid: they vanish",
        (
            (
                "model = nn.Sequential(nn.Linear(1, 32), nn.BatchNorm1d(32), nn.Tanh(), nn.Linear(32, "
                "32), nn.Tanh(), nn.Linear(32, 1))\n",
                "layers = [nn.Linear(1, 32), nn.Sigmoid()]\n"
                "for _ in range(9):\n    layers += [nn.Linear(32, 32), nn.Sigmoid()]\n"
                "model = nn.Sequential(*layers, nn.Linear(32, 1))\n",
            ),
        ),
        ("GW630",),
        (
            "layers = [nn.Linear(1, 32)",
            "layers += [",
            "model = nn.Sequential(*layers",
            "        loss.backward()",
            "        loss = loss_fn(model(x[rows]), y[rows])",
        ),
    ),
    Plant(
        "gradients by layer",
        "checkpointed_mlp",
        "weights ten times too large, no norm: they explode",
        (
            (
                "x + self.down(torch.nn.functional.silu(self.up(self.norm(x))))",
                "self.down(torch.nn.functional.silu(self.up(x)))",
            ),
            (
                "    net = DeepNet()\n",
                "    net = DeepNet()\n    for p in net.parameters():\n        nn.init.normal_(p, std=1.0)\n",
            ),
        ),
        ("GW630", "GW631"),
        (
            "return self.down(",
            "nn.init.normal_(p, std=1.0)",
            "loss.backward()",
            "x = checkpoint(",
            "net = DeepNet()",
            "self.inlet = nn.Linear(",
            "x = self.inlet(x)",
            "self.up = nn.Linear(",
            "self.down = nn.Linear(",
        ),
    ),
    Plant(
        "gradients by layer",
        "mlp_regression",
        "a bias that leaves no ReLU alive",
        (("criterion = nn.MSELoss()\n", "nn.init.constant_(model[3].bias, -50.0)\ncriterion = nn.MSELoss()\n"),),
        ("GW630", "GW632"),
        (
            "    nn.Linear(64, 64),\n    nn.ReLU()",
            "nn.init.constant_(model[3].bias",
            "    nn.Linear(64, 64),",
            "loss.backward()",
            "outputs = model(inputs)",
            "model = nn.Sequential(",
        ),
    ),
    Plant(
        "gradients by layer",
        "cnn_images",
        "a step so large that the ReLUs die",
        (
            (
                "optimizer = optim.Adadelta(model.parameters(), lr=1.0)",
                "optimizer = optim.SGD(model.parameters(), lr=3.0)",
            ),
        ),
        ("GW630", "GW632"),
        (
            "optimizer = optim.SGD(",
            "x = F.relu(self.conv1(x))",
            "x = F.relu(self.conv2(x))",
            "x = F.relu(self.fc1(x))",
            "loss.backward()",
            "output = model(data)",
        ),
    ),
    Plant(
        "gradients by layer",
        "early_stopping",
        "inputs of thousands into tanh: every unit saturated",
        (
            ("nn.Linear(1, 32), nn.BatchNorm1d(32), nn.Tanh()", "nn.Linear(1, 32), nn.Tanh()"),
            (
                "    x = 4 * torch.rand(n, 1) - 2\n    return x, torch.sin(3 * x)",
                "    x = 4 * torch.rand(n, 1) - 2\n    return 20000 * x, torch.sin(3 * x)",
            ),
        ),
        ("GW630", "GW632"),
        (
            "model = nn.Sequential(nn.Linear(1, 32), nn.Tanh()",
            "return 20000 * x",
            "        loss.backward()",
            "        loss = loss_fn(model(x[rows]), y[rows])",
        ),
    ),
]

ANOMALY = [
    Plant(
        "anomaly mode left on",
        "resnet_small",
        "set_detect_anomaly(True) at the top",
        (("torch.manual_seed(3)\n", "torch.manual_seed(3)\ntorch.autograd.set_detect_anomaly(True)\n"),),
        ("GW313",),
        ("torch.autograd.set_detect_anomaly(True)",),
    ),
    Plant(
        "anomaly mode left on",
        "gpt_small",
        "detect_anomaly() around the step",
        (
            (
                "    logits, loss = model(X, Y)\n    loss.backward()\n",
                "    with torch.autograd.detect_anomaly():\n        logits, loss = model(X, Y)\n"
                "        loss.backward()\n",
            ),
        ),
        ("GW313",),
        ("with torch.autograd.detect_anomaly():",),
    ),
]

SLOW = [
    Plant(
        "slow Python",
        "huber_by_hand",
        "a loss over elements, one at a time",
        (
            (
                "    gap = (prediction - target).abs()\n    quadratic = (gap <= delta).float()\n"
                "    linear = 1 - quadratic\n"
                "    return (linear * (delta * gap - delta**2 / 2) + quadratic * gap.square() / 2).mean()\n",
                "    total = 0.0\n    for i in range(prediction.shape[0]):\n"
                "        error = (prediction[i, 0] - target[i, 0]).abs()\n"
                "        if error <= delta:\n            total = total + 0.5 * error**2\n"
                "        else:\n            total = total + delta * (error - 0.5 * delta)\n"
                "    return total / prediction.shape[0]\n",
            ),
        ),
        ("GW301", "GW304"),
        (
            "for i in range(prediction.shape[0]):",
            "error = (prediction[i, 0]",
            "total = total + 0.5 * error**2",
            "total = total + delta",
        ),
    ),
    Plant(
        "slow Python",
        "contrastive_infonce",
        "similarities row by row",
        (
            (
                "    similarity = z @ z.t() / temperature\n",
                "    rows = []\n    for i in range(z.size(0)):\n"
                "        rows.append(torch.mv(z, z[i]) / temperature)\n    similarity = torch.stack(rows)\n",
            ),
        ),
        ("GW304", "GW301"),
        ("for i in range(z.size(0)):", "rows.append(torch.mv("),
    ),
    Plant(
        "slow Python",
        "siamese_triplet",
        "a matrix of distances by cat in a loop",
        (
            (
                "    between = distance(anchor.unsqueeze(1), positive.unsqueeze(0))\n",
                "    between = torch.empty(0, len(anchor))\n    for i in range(len(anchor)):\n"
                "        row = distance(anchor[i], positive).unsqueeze(0)\n"
                "        between = torch.cat([between, row])\n",
            ),
        ),
        ("GW304", "GW314"),
        ("for i in range(len(anchor)):", "between = torch.cat(", "row = distance("),
    ),
    Plant(
        "slow Python",
        "normalising_flow",
        "log densities one sample at a time",
        (
            (
                "        nll = -flow.log_prob(two_moons(128)).mean()\n",
                "        points, nll = two_moons(32), 0.0\n        for b in range(32):\n"
                "            nll = nll - flow.log_prob(points[b : b + 1]).sum() / 32\n",
            ),
        ),
        ("GW304", "GW301"),
        ("for b in range(32):", "nll = nll - flow.log_prob("),
    ),
]

PLANTS = [*GRAPH_KEPT, *GRADIENT_FLOW, *ANOMALY, *SLOW]
