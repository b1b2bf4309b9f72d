"""What autograd refuses, and the custom backwards that are wrong."""

from corpora.training_scripts.plant import Plant

IN_PLACE = [
    Plant(
        "changed in place",
        "logistic_by_hand",
        "a leaf is updated without no_grad",
        (
            (
                "    with torch.no_grad():\n        w -= lr * w.grad\n        b -= lr * b.grad\n"
                "        w.grad.zero_()\n        b.grad.zero_()\n",
                "    w -= lr * w.grad\n    b -= lr * b.grad\n    w.grad.zero_()\n    b.grad.zero_()\n",
            ),
        ),
        ("GW615",),
        ("w -= lr * w.grad",),
    ),
    Plant(
        "changed in place",
        "char_rnn",
        "p.add_ where p.data.add_ was meant",
        (("p.data.add_(p.grad, alpha=-lr)", "p.add_(p.grad, alpha=-lr)"),),
        ("GW615",),
        ("p.add_(p.grad, alpha=-lr)",),
    ),
    Plant(
        "changed in place",
        "style_transfer",
        "the image is clamped with its graph",
        (("    with torch.no_grad():\n        image.clamp_(0, 1)\n", "    image.clamp_(0, 1)\n"),),
        ("GW615",),
        ("    image.clamp_(0, 1)",),
    ),
    Plant(
        "changed in place",
        "vae",
        "std, which exp has saved, is multiplied in place",
        (("        return mu + eps * std\n", "        std *= eps\n        return mu + std\n"),),
        ("GW614",),
        ("std *= eps", "loss.backward()"),
    ),
    Plant(
        "changed in place",
        "seq2seq_attention",
        "attention weights are masked in place after the softmax",
        (
            (
                "        context = weights.unsqueeze(1) @ memory\n",
                "        weights *= mask\n        context = weights.unsqueeze(1) @ memory\n",
            ),
        ),
        ("GW614",),
        ("weights *= mask", "loss.backward()"),
    ),
    Plant(
        "changed in place",
        "normalising_flow",
        "a chunk, one of several views, is changed in place",
        (
            (
                "        return torch.tanh(s) * (1 - self.mask), t",
                "        s.tanh_()\n        return s * (1 - self.mask), t",
            ),
        ),
        ("GW617",),
        ("s.tanh_()",),
    ),
    Plant(
        "changed in place",
        "gan_points",
        "the critic steps before the generator uses its old graph",
        (
            ("output = netD(fake.detach()).view(-1)", "output = netD(fake).view(-1)"),
            ("errD_fake.backward()", "errD_fake.backward(retain_graph=True)"),
            ("    label.fill_(1.0)\n    output = netD(fake).view(-1)\n", "    label.fill_(1.0)\n"),
        ),
        ("GW614",),
        ("errG.backward()", "optimizerD.step()", "output = netD(fake).view(-1)"),
    ),
]

TWICE = [
    Plant(
        "through a graph twice",
        "char_rnn",
        "the hidden state is carried on with its graph",
        (("        hidden = repackage_hidden(hidden)\n", ""),),
        ("GW613", "GW404"),
        ("loss.backward()", "output, hidden = model(data, hidden)"),
    ),
    Plant(
        "through a graph twice",
        "gan_points",
        "the fake is not detached for the critic",
        (("output = netD(fake.detach()).view(-1)", "output = netD(fake).view(-1)"),),
        ("GW613",),
        ("errG.backward()", "errD_fake.backward()"),
    ),
    Plant(
        "through a graph twice",
        "multi_task",
        "two losses on one trunk, a backward each",
        (
            ("        loss = weights(loss_class, loss_value)\n", ""),
            ("        loss.backward()\n", "        loss_class.backward()\n        loss_value.backward()\n"),
        ),
        ("GW613",),
        ("loss_value.backward()", "loss_class.backward()"),
    ),
    Plant(
        "through a graph twice",
        "style_transfer",
        "targets that were computed once, with their graph",
        (
            ("cnn.requires_grad_(False)\n", ""),
            (
                "with torch.no_grad():\n    content_target = features_of(content_image)[-1]\n"
                "    style_targets = [gram_matrix(f) for f in features_of(style_image)]\n",
                "content_target = features_of(content_image)[-1]\n"
                "style_targets = [gram_matrix(f) for f in features_of(style_image)]\n",
            ),
        ),
        ("GW613",),
        ("loss.backward()", "content_target = features_of(", "style_targets = ["),
    ),
]

NON_SCALAR = [
    Plant(
        "backward of many numbers",
        "mlp_regression",
        'reduction="none" left over',
        (("criterion = nn.MSELoss()", 'criterion = nn.MSELoss(reduction="none")'),),
        ("GW611",),
        ("loss.backward()", "criterion = nn.MSELoss("),
    ),
    Plant(
        "backward of many numbers",
        "focal_by_hand",
        "the mean is forgotten in a loss by hand",
        (
            (
                "return (alpha_t * (1 - p_t) ** self.gamma * bce).mean()",
                "return alpha_t * (1 - p_t) ** self.gamma * bce",
            ),
        ),
        ("GW611",),
        ("            loss.backward()", "return alpha_t * (1 - p_t)"),
    ),
    Plant(
        "backward of many numbers",
        "wgan_gp",
        "the generator's scores, not their mean",
        (
            (
                "generator_loss = -critic(generator(torch.randn(batch, 4))).mean()",
                "generator_loss = -critic(generator(torch.randn(batch, 4)))",
            ),
        ),
        ("GW611",),
        ("generator_loss.backward()", "generator_loss = -critic("),
    ),
]

CALLS = [
    Plant(
        "gradient calls that die",
        "pinn",
        "no create_graph: the second derivative has no graph",
        (("torch.ones_like(u), create_graph=True)[0]", "torch.ones_like(u))[0]"),),
        ("GW612", "GW613", "GW616"),
        ("return torch.autograd.grad(", "u_tt = derivative(u_t, t)", "u_t = derivative(u, t)"),
    ),
    Plant(
        "gradient calls that die",
        "pinn",
        "the slope at 0 asked with respect to other points",
        (("slope_zero = derivative(u_zero, t_zero)", "slope_zero = derivative(u_zero, t)"),),
        ("GW616",),
        ("slope_zero = derivative(", "return torch.autograd.grad("),
    ),
    Plant(
        "gradient calls that die",
        "pinn",
        "points that require no gradient",
        (("    t = (6.28 * torch.rand(64, 1)).requires_grad_(True)\n", "    t = 6.28 * torch.rand(64, 1)\n"),),
        ("GW612", "GW616"),
        ("return torch.autograd.grad(", "u_t = derivative(u, t)", "    t = 6.28 * torch.rand(64, 1)"),
    ),
    Plant(
        "gradient calls that die",
        "fgsm_adversarial",
        "the attacked input is cut off before the model",
        (
            (
                "loss = F.cross_entropy(model(x), y)\n    (gradient,)",
                "loss = F.cross_entropy(model(x.detach()), y)\n    (gradient,)",
            ),
        ),
        ("GW616",),
        ("(gradient,) = torch.autograd.grad(loss, x)", "loss = F.cross_entropy(model(x.detach()), y)"),
    ),
    Plant(
        "gradient calls that die",
        "ppo",
        "values with a graph go to NumPy",
        (
            (
                "        with torch.no_grad():\n"
                "            action, logprob, _, value = agent.get_action_and_value(next_obs)\n"
                "            values[step] = value.flatten()\n",
                "        action, logprob, _, value = agent.get_action_and_value(next_obs)\n"
                "        logprob = logprob.numpy()\n",
            ),
        ),
        ("GW619",),
        ("logprob = logprob.numpy()",),
    ),
]

CUSTOM = [
    Plant(
        "wrong custom backward",
        "custom_function",
        "a sign in the derivative of swish",
        (("(s * (1 + x * (1 - s)))", "(s * (1 + x * (1 + s)))"),),
        ("GW101",),
        (
            "return grad_output * (s * (1 + x * (1 + s)))",
            "def backward(ctx, grad_output):\n        (x,)",
            "class Swish(",
        ),
    ),
    Plant(
        "wrong custom backward",
        "custom_function",
        "what arrives is ignored",
        (("return grad_output * (s * (1 + x * (1 - s)))", "return s * (1 + x * (1 - s))"),),
        ("GW101", "GW105"),
        ("return s * (1 + x * (1 - s))", "def backward(ctx, grad_output):\n        (x,)", "class Swish("),
    ),
    Plant(
        "wrong custom backward",
        "custom_function",
        "a factor is forgotten for one of two inputs",
        (("grad_w = ctx.alpha * (grad_output.t() @ x)", "grad_w = grad_output.t() @ x"),),
        ("GW101",),
        (
            "grad_w = grad_output.t() @ x",
            "return grad_x, grad_w, None",
            "def backward(ctx, grad_output):\n        x, w",
            "class ScaledLinear(",
        ),
    ),
    Plant(
        "wrong custom backward",
        "custom_function",
        "two gradients for three inputs",
        (("return grad_x, grad_w, None", "return grad_x, grad_w"),),
        ("GW201",),
        ("return grad_x, grad_w\n", "def backward(ctx, grad_output):\n        x, w", "class ScaledLinear("),
    ),
    Plant(
        "wrong custom backward",
        "custom_function",
        "the transposed gradient of a square weight",
        (("grad_w = ctx.alpha * (grad_output.t() @ x)", "grad_w = ctx.alpha * (x.t() @ grad_output)"),),
        ("GW101",),
        (
            "grad_w = ctx.alpha * (x.t() @ grad_output)",
            "return grad_x, grad_w, None",
            "def backward(ctx, grad_output):\n        x, w",
            "class ScaledLinear(",
        ),
    ),
]

PLANTS = [*IN_PLACE, *TWICE, *NON_SCALAR, *CALLS, *CUSTOM]
