"""What does not learn: parameters that no optimizer has, that no gradient reaches, modules in the wrong mode."""

from corpora.training_scripts.plant import Plant

NOT_IN_THE_OPTIMIZER = [
    Plant(
        "not in the optimizer",
        "transfer_learning",
        "the head is replaced after the optimizer was made",
        (
            (
                "model.fc = nn.Linear(32, 2)\nmodel.backbone.eval()\n"
                "optimizer = torch.optim.SGD(model.fc.parameters(), lr=0.1, momentum=0.9)\n",
                "model.backbone.eval()\noptimizer = torch.optim.SGD(model.fc.parameters(), lr=0.1, momentum=0.9)\n"
                "model.fc = nn.Linear(32, 2)\n",
            ),
        ),
        ("GW623",),
        ("optimizer = torch.optim.SGD(model.fc", "model.fc = nn.Linear(32, 2)"),
    ),
    Plant(
        "not in the optimizer",
        "gpt_small",
        "blocks in a plain list",
        (
            (
                "self.h = nn.ModuleList([Block(config) for _ in range(config.n_layer)])",
                "self.h = [Block(config) for _ in range(config.n_layer)]",
            ),
        ),
        ("GW623",),
        ("self.h = [Block(", "return torch.optim.AdamW(groups", "optimizer = model.configure_optimizers("),
    ),
    Plant(
        "not in the optimizer",
        "multi_task",
        "the learned weights of the losses are forgotten",
        (
            (
                "torch.optim.Adam([*net.parameters(), *weights.parameters()], lr=5e-3)",
                "torch.optim.Adam(net.parameters(), lr=5e-3)",
            ),
        ),
        ("GW623",),
        ("optimizer = torch.optim.Adam(net", "net, weights = MultiTaskNet()"),
    ),
    Plant(
        "not in the optimizer",
        "seq2seq_attention",
        "the encoder's parameters twice, the decoder's never",
        (("torch.optim.Adam(decoder.parameters(), lr=8e-3)", "torch.optim.Adam(encoder.parameters(), lr=8e-3)"),),
        ("GW623",),
        ("decoder_optimizer = torch.optim.Adam(", "encoder_optimizer = torch.optim.Adam(", "encoder, decoder = "),
    ),
    Plant(
        "not in the optimizer",
        "actor_critic",
        "the critic's head is forgotten",
        (
            (
                "torch.optim.RMSprop(agent.parameters(), lr",
                "torch.optim.RMSprop([*agent.body.parameters(), *agent.actor.parameters()], lr",
            ),
        ),
        ("GW623",),
        ("optimizer = torch.optim.RMSprop(", "agent = ActorCritic("),
    ),
    Plant(
        "not in the optimizer",
        "ppo",
        "a tensor that requires a gradient but is no Parameter",
        (
            (
                "self.actor_logstd = nn.Parameter(torch.zeros(1, 1))",
                "self.actor_logstd = torch.zeros(1, 1, requires_grad=True)",
            ),
        ),
        ("GW623",),
        ("self.actor_logstd = torch.zeros(", "optimizer = optim.Adam(agent"),
    ),
    Plant(
        "not in the optimizer",
        "lora_finetune",
        "the optimizer is made before the adapters are",
        (
            (
                "    add_lora(model)\n    trainable = [p for p in model.parameters() if p.requires_grad]\n"
                "    optimizer = torch.optim.AdamW(trainable, lr=1e-2)\n",
                "    trainable = [p for p in model.parameters() if p.requires_grad]\n"
                "    optimizer = torch.optim.AdamW(trainable, lr=1e-2)\n    add_lora(model)\n",
            ),
        ),
        ("GW623",),
        ("optimizer = torch.optim.AdamW(trainable", "    add_lora(model)\n"),
    ),
    Plant(
        "not in the optimizer",
        "matrix_factorisation",
        "the model is made anew after the optimizer",
        (
            (
                "loss_func = nn.MSELoss()\n",
                "loss_func = nn.MSELoss()\nmodel = MatrixFactorization(rank=4)\n",
            ),
        ),
        ("GW623",),
        ("optimizer = torch.optim.Adam(model", "model = MatrixFactorization(rank=4)"),
    ),
]

NEVER_REACHED = [
    Plant(
        "never reached",
        "autoencoder",
        "the code is detached: the encoder never learns",
        (("code = self.encoder(x)", "code = self.encoder(x).detach()"),),
        ("GW624",),
        (
            "code = self.encoder(x).detach()",
            "optimizer = torch.optim.AdamW(",
            "loss.backward()",
            "self.encoder = nn.Sequential(",
        ),
    ),
    Plant(
        "never reached",
        "resnet_small",
        "the stem runs under no_grad",
        (
            (
                "        x = self.layers(self.stem(x))\n",
                "        with torch.no_grad():\n            x = self.stem(x)\n        x = self.layers(x)\n",
            ),
        ),
        ("GW624",),
        (
            "with torch.no_grad():\n            x = self.stem(x)",
            "x = self.stem(x)",
            "optimizer = torch.optim.SGD(",
            "self.stem = nn.Sequential(",
        ),
    ),
    Plant(
        "never reached",
        "gpt_small",
        "a norm that the forward forgets",
        (("logits = self.lm_head(self.ln_f(x))", "logits = self.lm_head(x)"),),
        ("GW624",),
        (
            "self.ln_f = nn.LayerNorm(",
            "logits = self.lm_head(x)",
            "return torch.optim.AdamW(groups",
            "optimizer = model.configure_optimizers(",
        ),
    ),
    Plant(
        "never reached",
        "multi_task",
        "the second loss is computed and left out",
        (("        loss = weights(loss_class, loss_value)\n", "        loss = loss_class\n"),),
        ("GW624",),
        ("loss = loss_class\n", "self.regressor = nn.Linear(", "optimizer = torch.optim.Adam(", "loss.backward()"),
    ),
    Plant(
        "never reached",
        "contrastive_infonce",
        "features through .data: the backbone never learns",
        (("self.projector(self.backbone(x))", "self.projector(self.backbone(x).data)"),),
        ("GW624",),
        (
            "return self.projector(self.backbone(x).data)",
            "self.backbone = nn.Sequential(",
            "optimizer = torch.optim.SGD(",
            "loss.backward()",
        ),
    ),
    Plant(
        "never reached",
        "graph_convolution",
        "a layer's output goes through NumPy",
        (
            (
                "x = F.relu(self.gc1(x, adjacency))",
                "x = F.relu(torch.from_numpy(self.gc1(x, adjacency).detach().numpy()))",
            ),
        ),
        ("GW624",),
        ("x = F.relu(torch.from_numpy(", "self.gc1, self.gc2 = ", "optimizer = torch.optim.Adam(", "loss.backward()"),
    ),
    Plant(
        "never reached",
        "custom_function",
        "a backward that returns None for the weight",
        (("            grad_w = ctx.alpha * (grad_output.t() @ x)\n", "            pass\n"),),
        ("GW624", "GW101", "GW210"),
        (
            "def backward(ctx, grad_output):\n        x, w = ctx",
            "return grad_x, grad_w, None",
            "self.weight = nn.Parameter(",
            "class ScaledLinear(",
        ),
    ),
    Plant(
        "never reached",
        "transfer_learning",
        "frozen by accident: the new head as well",
        (
            (
                "for p in model.backbone.parameters():\n    p.requires_grad = False\nmodel.fc = nn.Linear(32, 2)\n",
                "model.fc = nn.Linear(32, 2)\nfor p in model.parameters():\n    p.requires_grad = False\n",
            ),
        ),
        ("GW612", "GW624"),
        ("p.requires_grad = False", "        loss.backward()", "optimizer = torch.optim.SGD("),
    ),
]

MODE = [
    Plant(
        "mode left wrong",
        "mlp_regression",
        "train() once: from the second epoch on dropout is off",
        (("for epoch in range(8):\n    model.train()\n", "model.train()\nfor epoch in range(8):\n"),),
        ("GW625",),
        ("    model.eval()", "outputs = model(inputs)", "model.train()", "loss.backward()"),
    ),
    Plant(
        "mode left wrong",
        "resnet_small",
        "accuracy() leaves eval() behind: BatchNorm stands still",
        (("    model.train()\n    order", "    order"),),
        ("GW625",),
        ("    model.eval()", "logits = model(train_x[index])", "loss.backward()"),
    ),
    Plant(
        "mode left wrong",
        "cnn_images",
        "no eval() in test(): dropout is on",
        (("    model.eval()\n    with torch.no_grad():\n        output", "    with torch.no_grad():\n        output"),),
        ("GW625",),
        ("output = model(images)", "def test(model", "with torch.no_grad():"),
    ),
    Plant(
        "mode left wrong",
        "distillation",
        "the teacher answers with dropout",
        (("    teacher.eval()\n", ""),),
        ("GW625",),
        ("teacher_logits = teacher(x[rows])", "    teacher.train()"),
    ),
    Plant(
        "mode left wrong",
        "early_stopping",
        "validate() does not go back to train()",
        (
            (
                "        loss = loss_fn(model(x), y).item()\n    model.train()\n",
                "        loss = loss_fn(model(x), y).item()\n",
            ),
        ),
        ("GW625",),
        ("    model.eval()", "        loss = loss_fn(model(x[rows]), y[rows])", "        loss.backward()"),
    ),
    Plant(
        "mode left wrong",
        "graph_convolution",
        "F.dropout without training=: on in evaluation",
        (("F.dropout(x, 0.3, training=self.training)", "F.dropout(x, 0.3)"),),
        ("GW625",),
        ("x = F.dropout(x, 0.3)", "predicted = model(features, adjacency)"),
    ),
    Plant(
        "mode left wrong",
        "ema_weights",
        "the averaged copy is evaluated in train()",
        (("copy.deepcopy(model).eval()", "copy.deepcopy(model)"),),
        ("GW625",),
        ("accuracy = (ema.module(x)", "self.module = copy.deepcopy(model)"),
    ),
    Plant(
        "mode left wrong",
        "transformer_classifier",
        "the test at the end without eval()",
        (("    model.eval()\n", ""),),
        ("GW625",),
        ('print("accuracy", (model(tokens)', "    model.train()"),
    ),
]

PLANTS = [*NOT_IN_THE_OPTIMIZER, *NEVER_REACHED, *MODE]
