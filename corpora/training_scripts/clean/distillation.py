"""Knowledge distillation: a student learns from the softened answers of a teacher that is only evaluated."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def mlp(width):
    return nn.Sequential(
        nn.Linear(12, width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 5)
    )


def train_teacher(teacher, x, y):
    teacher.train()
    optimizer = torch.optim.Adam(teacher.parameters(), lr=3e-3)
    for _ in range(30):
        rows = torch.randint(len(x), (64,))
        loss = F.cross_entropy(teacher(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def distill(teacher, student, x, y, T=2.0, soft_weight=0.7):
    teacher.eval()
    student.train()
    optimizer = torch.optim.Adam(student.parameters(), lr=5e-3)
    for step in range(40):
        rows = torch.randint(len(x), (64,))
        with torch.no_grad():
            teacher_logits = teacher(x[rows])
        student_logits = student(x[rows])
        soft_loss = F.kl_div(
            F.log_softmax(student_logits / T, dim=-1),
            F.log_softmax(teacher_logits / T, dim=-1),
            reduction="batchmean",
            log_target=True,
        ) * (T * T)
        hard_loss = F.cross_entropy(student_logits, y[rows])
        loss = soft_weight * soft_loss + (1 - soft_weight) * hard_loss

        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step}: soft {soft_loss.item():.4f}, hard {hard_loss.item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(21)
    x = torch.randn(400, 12)
    y = (x @ torch.randn(12, 5)).argmax(1)
    teacher, student = mlp(64), mlp(16)
    train_teacher(teacher, x, y)
    distill(teacher, student, x, y)
    student.eval()
    with torch.no_grad():
        print("student accuracy", (student(x).argmax(1) == y).float().mean().item())
