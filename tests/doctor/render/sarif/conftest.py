"""Reports as SARIF, held against the schema that OASIS publishes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from gradwright.doctor.render.sarif import render
from gradwright.doctor.session.model import Report

SCHEMA = Path(__file__).with_name("sarif-2.1.0.json")


@pytest.fixture(scope="session")
def faults_of() -> Callable[[dict], list[str]]:
    """Where a log is not as the schema wants it."""
    schema = json.loads(SCHEMA.read_text())
    validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    validator.check_schema(schema)
    return lambda log: [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(log)]


@pytest.fixture
def run_of(faults_of) -> Callable[..., dict]:
    """The one run of a report's log, which is valid."""

    def run(report: Report, **options) -> dict:
        text = render(report, **options)
        log = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
        assert faults_of(log) == []
        (only,) = log["runs"]
        return only

    return run
