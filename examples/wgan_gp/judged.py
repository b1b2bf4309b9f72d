"""How good generated digits are, measured against real ones that no one has learnt from.

No single number says it: a Gaussian with the right mean and covariance has a small Fréchet distance and looks like
nothing; one digit repeated is recognised with confidence. Hence a classifier's opinion, a distance, and both precision
(do samples lie where real digits are?) and recall (are there samples wherever real digits are?).
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier


def _halves():
    data, labels = load_digits(return_X_y=True)
    return train_test_split(data.astype("float32") / 8 - 1, labels, test_size=0.5, random_state=0, stratify=labels)


def digits():
    """(images to learn from, unseen ones): [898, 64] and [899, 64], from -1 to 1."""
    seen, unseen, _, _ = _halves()
    return torch.from_numpy(seen), torch.from_numpy(unseen)


def frechet(a, b):
    """The Fréchet distance of two Gaussians with the means and covariances of ``a`` and ``b`` [N, D]: 0 for equal ones.

    |m_a - m_b|^2 + tr(C_a) + tr(C_b) - 2 tr((C_a C_b)^(1/2))   (Dowson & Landau 1982)
    """
    a, b = a.double(), b.double()
    of_a, of_b = a.T.cov(), b.T.cov()
    root = torch.linalg.eigvals(of_a @ of_b).real.clamp(min=0).sqrt().sum()
    return float((a.mean(0) - b.mean(0)).square().sum() + of_a.trace() + of_b.trace() - 2 * root)


def precision_and_recall(real, made, neighbours=3):
    """Shares of ``made`` within the reach of a real one, and of ``real`` within that of a made one.

    The reach of an image is the distance of its third neighbour of its kind. Kynkäänniemi et al. 2019, "Improved
    precision and recall metric for assessing generative models", here on pixels.
    """
    reach_of_real, reach_of_made = (
        torch.cdist(some, some).kthvalue(neighbours + 1, dim=1).values for some in (real, made)
    )
    apart = torch.cdist(real, made)
    precision = (apart <= reach_of_real[:, None]).any(0).double().mean()
    recall = (apart <= reach_of_made).any(1).double().mean()
    return float(precision), float(recall)


class Judge:
    """A classifier that has learnt real digits, and the unseen ones."""

    def __init__(self):
        seen, unseen, of_seen, of_unseen = _halves()
        self.classifier = MLPClassifier((64,), learning_rate_init=5e-3, random_state=0).fit(seen, of_seen)
        self.accuracy = self.classifier.score(unseen, of_unseen)
        self.unseen = torch.from_numpy(unseen)

    def __call__(self, samples):
        """{column: value} of ``samples`` [N, 64]."""
        share = self.classifier.predict_proba(samples.numpy())
        classes = np.bincount(share.argmax(1), minlength=10) / len(samples)
        precision, recall = precision_and_recall(self.unseen, samples)
        return {
            "confident": f"{(share.max(1) > 0.9).mean():.0%}",
            "classes_of_10": int((classes >= 0.01).sum()),
            "rarest_class": f"{classes.min():.1%}",
            "Frechet_distance": round(frechet(samples, self.unseen), 2),
            "precision": f"{precision:.0%}",
            "recall": f"{recall:.0%}",
        }
