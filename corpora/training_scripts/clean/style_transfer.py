"""An image is optimised, not a network: content and style (Gram matrices) of a fixed random CNN, Adam on pixels."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def gram_matrix(features):
    b, c, h, w = features.size()
    flat = features.view(b, c, h * w)
    return flat @ flat.transpose(1, 2) / (c * h * w)


def total_variation(image):
    return (image[..., 1:, :] - image[..., :-1, :]).abs().mean() + (image[..., 1:] - image[..., :-1]).abs().mean()


torch.manual_seed(29)
cnn = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU()).eval()
cnn.requires_grad_(False)
layers = [1, 3]

grid = torch.linspace(0, 6.28, 16)
content_image = (0.5 + 0.5 * torch.sin(grid)[:, None] * torch.cos(grid)[None, :]).expand(1, 3, 16, 16)
style_image = (torch.arange(16) % 4 < 2).float().expand(1, 3, 16, 16).contiguous()


def features_of(image):
    features, x = [], image
    for i, layer in enumerate(cnn):
        x = layer(x)
        if i in layers:
            features.append(x)
    return features


with torch.no_grad():
    content_target = features_of(content_image)[-1]
    style_targets = [gram_matrix(f) for f in features_of(style_image)]

image = content_image.clone().requires_grad_(True)
optimizer = torch.optim.Adam([image], lr=0.03)

for step in range(50):
    features = features_of(image)
    content_loss = F.mse_loss(features[-1], content_target)
    style_loss = sum(F.mse_loss(gram_matrix(f), target) for f, target in zip(features, style_targets, strict=True))
    loss = content_loss + 50 * style_loss + 0.1 * total_variation(image)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        image.clamp_(0, 1)
    if step % 10 == 0:
        print(f"{step}: content {content_loss.item():.5f}, style {style_loss.item():.6f}")
