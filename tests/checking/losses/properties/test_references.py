"""Where a loss parts from one that is known."""

import torch
import torch.nn.functional as F

import gradwright as gw

TITLE = "compared with references"


def capped(prediction, target):
    error = (prediction - target).abs()
    return torch.where(error <= 1, 0.5 * error**2, 2 * error - 1.5).mean()


def only_finding(loss, **references):
    (finding,) = (f for f in gw.check_loss(loss, references=references).findings if f.code == "GW508")
    return finding


def test_the_region_and_what_it_is_there_are_told(faults):
    assert faults(capped, references={"huber": F.huber_loss}) == {("GW508", "region", TITLE)}
    finding = only_finding(capped, huber=F.huber_loss)
    assert finding.evidence["region"] == "|e| > 1"
    assert "equals huber for |e| <= 1 and parts from it for |e| > 1: there it is 2 |e| - 1.5" in finding.message


def test_a_region_of_one_sign_is_told():
    def one_sided(prediction, target):
        error = prediction - target
        return torch.where(error < -2, 4 - 4 * (error + 2), error**2).mean()

    assert only_finding(one_sided, mse=F.mse_loss).evidence["region"] == "e < -2"


def test_a_factor_and_a_loss_that_has_nothing_in_common_are_told():
    assert (
        "it is 2 times huber throughout"
        in only_finding(lambda p, t: 2 * F.huber_loss(p, t), huber=F.huber_loss).message
    )
    assert (
        "nowhere are they equal"
        in only_finding(lambda p, t: torch.log1p((p - t) ** 2 / 2).mean(), l1=F.l1_loss).message
    )


def test_the_same_loss_written_otherwise_is_the_same(faults):
    def huber(prediction, target):
        error = (prediction - target).abs()
        return torch.where(error <= 1, 0.5 * error**2, error - 0.5).mean()

    assert faults(huber, references={"huber": F.huber_loss, "smooth l1": F.smooth_l1_loss}) == set()
    assert (
        faults(lambda logits, t: -logits.log_softmax(1)[torch.arange(len(t)), t].mean(), references=[F.cross_entropy])
        == set()
    )


def test_a_faulty_loss_is_described_by_what_it_looks_like():
    def without_offset(prediction, target):
        error = (prediction - target).abs()
        return torch.where(error <= 1, 0.5 * error**2, error).mean()

    (finding,) = (f for f in gw.check_loss(without_offset).findings if f.code == "GW508")
    assert finding.severity == "info" and "|e| > 1" in finding.message
    assert not any(f.code == "GW508" for f in gw.check_loss(capped).findings)


def test_a_reference_that_takes_something_else_is_not_checked():
    report = gw.check_loss(F.mse_loss, references={"nll": F.nll_loss})
    assert report.ok and any("nll" in line.what for line in report.not_checked)
