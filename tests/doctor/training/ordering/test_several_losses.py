"""Several backwards for a step that are no micro-batches: players, heads, models, moves."""

from collections.abc import Callable

import pytest
from tests.doctor.training.ordering.step_scripts import HEAD

CLEAN = {
    "two players": (HEAD, """
        maker, judge_ = net(3, 6), net()
        for_maker, for_judge = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge_.parameters())
        ones, zeros = torch.ones(8, 1), torch.zeros(8, 1)
        for real, _ in rows:
            judge_.zero_grad()
            F.binary_cross_entropy_with_logits(judge_(real), ones).backward()
            fake = maker(torch.randn(8, 3))
            F.binary_cross_entropy_with_logits(judge_(fake.detach()), zeros).backward()
            for_judge.step()
            maker.zero_grad()
            F.binary_cross_entropy_with_logits(judge_(fake), ones).backward()
            for_maker.step()
        """),
    "two players and one helper": (HEAD, """
        maker, judge_ = net(3, 6), net()
        for_maker, for_judge = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge_.parameters())
        def back(score, goal):
            loss = F.binary_cross_entropy_with_logits(score, torch.full_like(score, goal))
            loss.backward()
        for real, _ in rows:
            fake = maker(torch.randn(8, 3))
            for_judge.zero_grad()
            back(judge_(real), 1.0)
            back(judge_(fake.detach()), 0.0)
            for_judge.step()
            for_maker.zero_grad()
            back(judge_(fake), 1.0)
            for_maker.step()
        """),
    "two halves in a loop": (HEAD, """
        maker, judge_ = net(3, 6), net()
        for_judge = torch.optim.Adam(judge_.parameters())
        for real, _ in rows:
            fake = maker(torch.randn(8, 3))
            for_judge.zero_grad()
            for data, goal in ((real, 1.0), (fake.detach(), 0.0)):
                score = judge_(data)
                loss = F.binary_cross_entropy_with_logits(score, torch.full_like(score, goal))
                loss.backward()
            for_judge.step()
        """),
    "domains that are listed": (HEAD, """
        domains = {"plain": torch.randn, "even": torch.rand}
        def train():
            for _ in rows:
                optimizer.zero_grad()
                for i, (name, make) in enumerate(domains.items()):
                    part = make(8, 6)
                    F.mse_loss(model(part), part.sum(1, keepdim=True)).backward()
                optimizer.step()
        train()
        """),
    "several losses": (HEAD, """
        for part in rows:
            optimizer.zero_grad()
            loss_of(part).backward()
            model(part[0]).abs().mean().backward()
            optimizer.step()
        """),
    "several heads in a loop": (HEAD, """
        trunk, heads = nn.Linear(6, 8), nn.ModuleList([nn.Linear(8, 1) for _ in range(3)])
        optimizer = torch.optim.Adam([*trunk.parameters(), *heads.parameters()])
        for part in rows:
            optimizer.zero_grad()
            for head in heads:
                F.mse_loss(head(trunk(part[0]).tanh()), part[1]).backward()
            optimizer.step()
        """),
    "several models in a loop": (HEAD, """
        models = nn.ModuleList([net() for _ in range(3)])
        optimizer = torch.optim.Adam(models.parameters())
        for given, wanted in rows:
            optimizer.zero_grad()
            for one in models:
                F.mse_loss(one(given), wanted).backward()
            optimizer.step()
        """),
    "the steps of one sequence": (HEAD, """
        cell, out = nn.RNNCell(6, 8), nn.Linear(8, 1)
        optimizer = torch.optim.Adam([*cell.parameters(), *out.parameters()])
        for _ in range(3):
            optimizer.zero_grad()
            state = torch.zeros(8, 8)
            for given, wanted in rows:
                state = cell(given, state)
                F.mse_loss(out(state), wanted).backward(retain_graph=True)
            optimizer.step()
        """),
    "the moves of an episode": (HEAD, """
        actor, critic = net(6, 2), net()
        optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()])
        for episode in range(4):
            optimizer.zero_grad()
            for state in torch.randn(6, 6):
                value = critic(state)
                scores = torch.distributions.Categorical(logits=actor(state))
                move = scores.sample()
                loss = -scores.log_prob(move) * (1 - value.detach()).sum() + F.smooth_l1_loss(value, torch.ones(1))
                loss.backward()
            optimizer.step()
        """),
    "policy gradients, an episode at a time": (HEAD, """
        for episode in range(4):
            optimizer.zero_grad()
            for state, reward in rows:
                loss = -(torch.distributions.Normal(model(state), 1.0).log_prob(reward) * reward).sum()
                loss.backward()
            optimizer.step()
        """),
    "Q-learning with a target network": (HEAD, """
        import copy
        target = copy.deepcopy(model)
        for i, (state, reward) in enumerate(rows * 3):
            if i < 2:
                continue
            with torch.no_grad():
                wanted = reward + 0.9 * target(state)
            loss = F.smooth_l1_loss(model(state), wanted)
            optimizer.zero_grad()
            loss.backward()
            clip_grad_value_(model.parameters(), 1.0)
            optimizer.step()
            if i % 4 == 0:
                target.load_state_dict(model.state_dict())
        """),
}  # fmt: skip


@pytest.mark.parametrize("what", CLEAN)
def test_it_is_right_and_nothing_is_said(what: str, nothing_said: Callable) -> None:
    nothing_said(*CLEAN[what])
