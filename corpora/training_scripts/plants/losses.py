"""What is wrong with the loss: its input, its shape, its history, its masks."""

from corpora.training_scripts.plant import Plant

SOFTMAX_TWICE = [
    Plant(
        "softmax twice",
        "resnet_small",
        "the model ends in a softmax, the loss is cross entropy",
        (("return self.head(x)", "return torch.softmax(self.head(x), dim=1)"),),
        ("GW620",),
        ("loss = criterion(logits", "return torch.softmax("),
    ),
    Plant(
        "softmax twice",
        "cnn_images",
        "nll_loss of probabilities, not of their logarithms",
        (("return F.log_softmax(x, dim=1)", "return F.softmax(x, dim=1)"),),
        ("GW620",),
        ("loss = F.nll_loss(output, target)", "return F.softmax("),
    ),
    Plant(
        "softmax twice",
        "gan_points",
        "the critic ends in a sigmoid, the loss takes logits",
        (("nn.LeakyReLU(0.2), nn.Linear(32, 1))", "nn.LeakyReLU(0.2), nn.Linear(32, 1), nn.Sigmoid())"),),
        ("GW620",),
        ("errD_real = criterion(", "errD_fake = criterion(", "errG = criterion(", "netD = nn.Sequential("),
    ),
    Plant(
        "softmax twice",
        "amp_scaler",
        "nn.Softmax as the last layer, under autocast",
        (("    nn.Linear(64, 4),\n", "    nn.Linear(64, 4),\n    nn.Softmax(dim=1),\n"),),
        ("GW620",),
        ("loss = criterion(", "nn.Softmax(dim=1)", "logits = model(inputs)"),
    ),
    Plant(
        "softmax twice",
        "distillation",
        "kl_div of probabilities, not of their logarithms",
        (("F.log_softmax(student_logits / T, dim=-1)", "F.softmax(student_logits / T, dim=-1)"),),
        ("GW620",),
        ("soft_loss = F.kl_div(", "F.softmax(student_logits"),
    ),
    Plant(
        "softmax twice",
        "dice_segmentation",
        "a sigmoid before a loss of logits",
        (("loss = bce(logits, batch_masks)", "loss = bce(torch.sigmoid(logits), batch_masks)"),),
        ("GW620",),
        ("loss = bce(",),
    ),
    Plant(
        "softmax twice",
        "vae",
        "the decoder ends in a sigmoid, the reconstruction takes logits",
        (("F.binary_cross_entropy(", "F.binary_cross_entropy_with_logits("),),
        ("GW620",),
        ("bce = F.binary_cross_entropy_with_logits(", "return torch.sigmoid(self.fc4(h3))"),
    ),
    Plant(
        "softmax twice",
        "transformer_classifier",
        "a softmax two calls away from the loss",
        (
            (
                "        logits = model(tokens)\n",
                "        logits = nn.functional.softmax(model(tokens), dim=-1).clamp(min=1e-6)\n",
            ),
        ),
        ("GW620",),
        ("loss = criterion(logits, labels)", "logits = nn.functional.softmax("),
    ),
]

BROADCAST = [
    Plant(
        "loss broadcast",
        "mlp_regression",
        "(n, 1) against (n,) in MSELoss",
        (("outputs = model(inputs).squeeze(1)", "outputs = model(inputs)"),),
        ("GW622", "GW506"),
        ("loss = criterion(outputs, targets)",),
    ),
    Plant(
        "loss broadcast",
        "dqn",
        "(n, 1) against (n,) in SmoothL1Loss",
        (("expected_state_action_values.unsqueeze(1))", "expected_state_action_values)"),),
        ("GW622", "GW506"),
        ("loss = nn.SmoothL1Loss()",),
    ),
    Plant(
        "loss broadcast",
        "ppo",
        "(n, 1) minus (n,), written out",
        (("            newvalue = newvalue.view(-1)\n", ""),),
        ("GW622", "GW506"),
        ("v_loss = 0.5 * ((newvalue",),
    ),
    Plant(
        "loss broadcast",
        "matrix_factorisation",
        "the model gives (n, 1), the ratings are (n,)",
        (("self.mean).squeeze(1)", "self.mean)"),),
        ("GW622", "GW506"),
        ("loss = loss_func(prediction, rating)",),
    ),
    Plant(
        "loss broadcast",
        "huber_by_hand",
        "(n,) minus (n, 1) in a loss by hand",
        (("huber(model(x[indices]), y[indices])", "huber(model(x[indices]).squeeze(1), y[indices])"),),
        ("GW622", "GW506"),
        ("gap = (prediction - target).abs()", "loss = huber("),
    ),
    Plant(
        "loss broadcast",
        "checkpointed_mlp",
        "targets lose their column",
        (("loss_fn(net(inputs[rows]), targets[rows])", "loss_fn(net(inputs[rows]), targets[rows].flatten())"),),
        ("GW622", "GW506"),
        ("loss = loss_fn(",),
    ),
]

HISTORY = [
    Plant(
        "loss without history",
        "mlp_regression",
        "re-wrapped: torch.tensor(loss.item(), requires_grad=True)",
        (
            (
                "        loss = criterion(outputs, targets)\n",
                "        loss = torch.tensor(criterion(outputs, targets).item(), requires_grad=True)\n",
            ),
        ),
        ("GW621",),
        ("loss = torch.tensor(", "loss.backward()"),
    ),
    Plant(
        "loss without history",
        "autoencoder",
        "re-wrapped in the old way: Variable(loss.data, requires_grad=True)",
        (
            (
                "        loss = reconstruction_loss + 1e-3 * sparsity\n",
                "        loss = reconstruction_loss + 1e-3 * sparsity\n"
                "        loss = torch.autograd.Variable(loss.data, requires_grad=True)\n",
            ),
        ),
        ("GW621",),
        ("loss = torch.autograd.Variable(", "loss.backward()"),
    ),
    Plant(
        "loss without history",
        "reinforce",
        "a new tensor of the list of losses",
        (
            (
                "policy_loss = torch.cat(policy_loss).sum()",
                "policy_loss = torch.tensor(policy_loss, requires_grad=True).sum()",
            ),
        ),
        ("GW621",),
        ("policy_loss = torch.tensor(", "policy_loss.backward()"),
    ),
    Plant(
        "loss without history",
        "transformer_classifier",
        "detached, and told to require a gradient",
        (("loss = criterion(logits, labels)\n", "loss = criterion(logits, labels).detach().requires_grad_()\n"),),
        ("GW621",),
        ("loss = criterion(logits, labels).detach()", "loss.backward()"),
    ),
    Plant(
        "loss without history",
        "multi_task",
        "torch.tensor(losses): only the weights of the losses still learn",
        (("        losses = torch.stack(losses)\n", "        losses = torch.tensor(losses)\n"),),
        ("GW621", "GW624"),
        ("losses = torch.tensor(losses)", "loss.backward()", "optimizer = torch.optim.Adam("),
    ),
    Plant(
        "loss without history",
        "wgan_gp",
        "no create_graph: the penalty is a constant",
        (("grad_outputs=torch.ones_like(scores), create_graph=True\n", "grad_outputs=torch.ones_like(scores)\n"),),
        ("GW621", "GW624"),
        ("(gradients,) = autograd.grad(", "critic_loss = critic_loss + lambda_gp", "critic_loss.backward()"),
    ),
    Plant(
        "loss without history",
        "normalising_flow",
        "computed under no_grad",
        (("    def log_prob(self, x):\n", "    @torch.no_grad()\n    def log_prob(self, x):\n"),),
        ("GW612", "GW621"),
        ("nll.backward()", "@torch.no_grad()\n    def log_prob", "nll = -flow.log_prob("),
    ),
    Plant(
        "loss without history",
        "dqn",
        "the prediction is detached",
        (
            (
                "policy_net(state_batch).gather(1, action_batch)",
                "policy_net(state_batch).detach().gather(1, action_batch)",
            ),
        ),
        ("GW612", "GW621"),
        ("loss.backward()", "state_action_values = policy_net("),
    ),
    Plant(
        "loss without history",
        "siamese_triplet",
        "a distance by way of NumPy",
        (
            (
                "    return torch.sqrt(((a - b) ** 2).sum(dim=-1) + 1e-8)\n",
                "    return torch.from_numpy(((a - b) ** 2).sum(dim=-1).detach().numpy() ** 0.5)\n",
            ),
        ),
        ("GW612", "GW621"),
        ("loss.backward()", "return torch.from_numpy("),
    ),
    Plant(
        "loss without history",
        "contrastive_infonce",
        "accumulated as numbers, made a tensor again",
        (
            (
                "    loss = info_nce(encoder(augment(x)), encoder(augment(x)))\n",
                "    losses = [info_nce(encoder(augment(half)), encoder(augment(half))).item() for half "
                "in x.split(32)]\n"
                "    loss = torch.tensor(losses).mean()\n",
            ),
        ),
        ("GW612", "GW621"),
        ("loss.backward()", "loss = torch.tensor(losses).mean()", "losses = ["),
    ),
    Plant(
        "loss without history",
        "cnn_images",
        "the loss of predicted classes",
        (
            (
                "        loss = F.nll_loss(output, target)\n        loss.backward()\n",
                "        loss = F.mse_loss(output.argmax(dim=1).float(), target.float())\n        loss.backward()\n",
            ),
        ),
        ("GW612", "GW621"),
        ("loss.backward()", "loss = F.mse_loss("),
    ),
]

_BY_HAND = (
    "        gap = (prediction - rating).abs()\n"
    "        small = (gap < 1).float()\n"
    "        large = 1 - gap\n"
    "        loss = (large * (gap - 0.5) + small * gap.square() / 2).mean()\n"
)
MASKS = [
    Plant(
        "masks that do not complement",
        "huber_by_hand",
        "1 - error where 1 - mask was meant",
        (("linear = 1 - quadratic", "linear = 1 - gap"),),
        ("GW501",),
        ("linear = 1 - gap",),
    ),
    Plant(
        "masks that do not complement",
        "matrix_factorisation",
        "1 - error, written in the loop",
        (("        loss = loss_func(prediction, rating)\n", _BY_HAND),),
        ("GW501",),
        ("large = 1 - gap",),
    ),
    Plant(
        "masks that do not complement",
        "huber_by_hand",
        "1 - mask of a bool",
        (("quadratic = (gap <= delta).float()", "quadratic = gap <= delta"),),
        ("GW618",),
        ("linear = 1 - quadratic",),
    ),
]

PLANTS = [*SOFTMAX_TWICE, *BROADCAST, *HISTORY, *MASKS]
