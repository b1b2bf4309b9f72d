"""What every test of a property asks: what was found, and by which property."""

import pytest

import gradwright as gw


@pytest.fixture
def faults():
    """``(code, cause, property)`` of every error and warning."""

    def of(loss, *args, **options):
        report = gw.check_loss(loss, *args, **options)
        return {(f.code, f.cause, f.check) for f in report.findings if f.severity != "info"}

    return of
