"""A WGAN-GP draws digits: 8 x 8 pixels, learnt from half of scikit-learn's 1797, judged by the other half.

A critic scores images, the generator is to score as real ones do. The difference of the mean scores is a distance only
if the critic's slope is at most 1, which the gradient penalty holds it to (Gulrajani et al. 2017, "Improved training of
Wasserstein GANs", arXiv:1704.00028). The same networks are trained without it, too, and with clipped weights, which is
how Arjovsky et al. 2017 did it.

    python examples/wgan_gp/train.py [--steps 3000] [--seed 0] [--plot FILE.png] [--results FILE.json]
"""

import argparse
import importlib.util
import json
import os
import sys

import torch
from torch import nn

import gradwright as gw

BATCH, LATENT, CRITIC_STEPS, LEARNING_RATE, CLIPPED_TO = 64, 16, 3, 2e-3, 0.1


def network(inputs, outputs, activation, *last, width=128):
    hidden = [nn.Linear(inputs, width), activation, nn.Linear(width, width), activation]
    return nn.Sequential(*hidden, nn.Linear(width, outputs), *last)


def critic_loss(critic, real, fake, penalty):
    loss = gw.losses.wgan_critic_loss(critic(real), critic(fake))
    if penalty:
        loss = loss + gw.penalties.gradient_penalty(critic, real, fake, weight=10.0)
    return loss


def train(images, unseen, steps, held="by the penalty"):
    """(generator, curve): the critic's distance between real and generated, of images it learns from and of others.

    ``images``, ``unseen``: [N, 64].  ``held``: the critic's slope, "by the penalty", "by clipping" or "by nothing".
    """
    generator = network(LATENT, 64, nn.ReLU(), nn.Tanh())
    critic = network(64, 1, nn.LeakyReLU(0.2))
    making, judging = (
        torch.optim.Adam(one.parameters(), LEARNING_RATE, betas=(0.0, 0.9), fused=True) for one in (generator, critic)
    )
    curve = []
    for step in range(steps):
        for optimizer in (making, judging):
            optimizer.param_groups[0]["lr"] = LEARNING_RATE * (1 - step / steps)
        for _ in range(CRITIC_STEPS):
            real = images[torch.randint(len(images), (BATCH,))]
            fake = generator(torch.randn(BATCH, LATENT)).detach()
            judging.zero_grad()
            critic_loss(critic, real, fake, held == "by the penalty").backward()
            judging.step()
            if held == "by clipping":
                with torch.no_grad():
                    for weight in critic.parameters():
                        weight.clamp_(-CLIPPED_TO, CLIPPED_TO)
        making.zero_grad()
        gw.losses.wgan_generator_loss(critic(generator(torch.randn(BATCH, LATENT)))).backward()
        making.step()
        if step % 25 == 0:
            with torch.no_grad():
                made = critic(generator(torch.randn(len(unseen), LATENT))).mean()
                curve.append((step, *((critic(real).mean() - made).item() for real in (images, unseen))))
    return generator, curve


def drawn_from(generator, count):
    with torch.no_grad():
        return generator(torch.randn(count, LATENT))


def shown(title, rows):
    columns = list(next(iter(rows.values())))
    print(f"\n{title:36}" + "".join(f"{column.replace('_', ' '):>20}" for column in columns))
    for name, row in rows.items():
        print(f"  {name:34}" + "".join(f"{row[column]!s:>20}" for column in columns))


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is too few: give 1 or more")
    return number


def file_to_write(text):
    """Asked before the training, not behind it."""
    folder = os.path.join(os.path.dirname(text) or ".", "")
    if os.path.isdir(text) or not os.access(text if os.path.exists(text) else folder, os.W_OK):
        raise argparse.ArgumentTypeError(f"can't write to {text!r}: give a file, in a folder that can be written to")
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=positive, default=3000, help="of the generator (3000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=file_to_write, metavar="FILE.png", help="digits, and the critic's curve")
    parser.add_argument("--results", type=file_to_write, metavar="FILE.json", help="the tables")
    options = parser.parse_args()
    needed = {"sklearn": "scikit-learn"} | ({"matplotlib": "matplotlib"} if options.plot else {})
    missing = [package for module, package in needed.items() if not importlib.util.find_spec(module)]
    if missing:
        print(f"wgan_gp/train.py needs {' and '.join(missing)}: pip install {' '.join(missing)}", file=sys.stderr)
        sys.exit(2)
    from judged import Judge, digits
    from step_cost import compared

    torch.set_num_threads(1)  # for so small networks more of them only get in each other's way
    images, unseen, judge = *digits(), Judge()
    torch.manual_seed(options.seed)
    noise = 2 * torch.rand(len(unseen), 64) - 1
    spread = torch.distributions.MultivariateNormal(images.mean(0), images.T.cov() + 1e-6 * torch.eye(64))
    gaussian = spread.sample((len(unseen),)).clamp(-1, 1)
    seen = {"real ones, learnt from": images, "noise": noise, "a Gaussian with their covariance": gaussian}
    for held in ("by nothing", "by clipping", "by the penalty"):
        torch.manual_seed(options.seed)
        generator, curve = train(images, unseen, options.steps, held)
        seen[f"WGAN, critic held {held}"] = samples = drawn_from(generator, len(unseen))
    quality = {name: judge(some) for name, some in seen.items()}
    costs = compared(images[:BATCH], samples[:BATCH])
    shown("held against unseen real digits", quality)
    shown(f"a critic's step, batch of {BATCH}", costs)
    if options.plot:
        from drawn import draw

        draw(options.plot, unseen, samples, curve)  # of the last, held by the penalty
    if options.results:
        tables = {"WGAN-GP, digits": quality, "WGAN-GP, a critic's step": costs}
        notes = [
            f"WGAN-GP: seed {options.seed}, {options.steps} steps of the generator, {CRITIC_STEPS} of the critic each. "
            f"Confident: a classifier trained on real digits ({judge.accuracy:.1%} right on unseen ones) gives a class "
            "more than 90 %. Rarest class: its share of the samples, by that classifier. Precision: samples that lie "
            "among unseen real ones, recall: real ones that lie among samples (Kynkäänniemi et al. 2019, 3 neighbours, "
            "pixels). Times ours: CPU time of one thread, the median of the ratios within a turn."
        ]
        with open(options.results, "w") as file:
            json.dump({"tables": tables, "notes": notes}, file)


if __name__ == "__main__":
    main()
