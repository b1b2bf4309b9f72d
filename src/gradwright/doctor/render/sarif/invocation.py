"""The run itself: how the script was started and how it ended, what was not looked at."""

from __future__ import annotations

from gradwright.doctor.render.remedies import command_line, typed
from gradwright.doctor.render.sarif.places import Files, Json
from gradwright.doctor.render.sarif.results import located, plain
from gradwright.doctor.render.wording import clean, ending, signal_name
from gradwright.doctor.session.codec import encode
from gradwright.doctor.session.model import MISSING, Report


def invocation(report: Report, files: Files) -> Json:
    """SARIF's ``invocation``. The process is the script's own, for the doctor works in it: its command line, its exit
    code. That a script dies is no failure of the doctor's."""
    script = report.script
    made: Json = {
        "executionSuccessful": all(item.what != MISSING for item in report.not_examined),
        "toolExecutionNotifications": _notifications(report, files),
        "properties": {"seconds": encode(script.seconds), "steps": script.steps, "gradients": script.gradients},
    }
    if script.argv:
        made["commandLine"] = command_line(typed(report) if script.module else script.argv)
        made["arguments"] = list(script.argv)
        made["exitCodeDescription"] = f"the script {ending(script)}"
    if script.exit_code is not None and script.exit_code < 0:
        made["exitSignalNumber"] = -script.exit_code
        made["exitSignalName"] = signal_name(-script.exit_code)
    elif script.exit_code is not None:
        made["exitCode"] = script.exit_code
    if files.cwd:
        made["workingDirectory"] = files.working_directory()
    if script.rank is not None:
        made["properties"]["rank"] = script.rank
    return made


def _notifications(report: Report, files: Files) -> list[Json]:
    made: list[Json] = []
    death = report.script.exception
    if death is not None:
        said = clean(f"{death.type}: {death.message}").removesuffix(":")
        notification: Json = {
            "descriptor": {"id": "script-died"},
            "level": "warning",
            "message": {"text": plain(said)},
            "exception": {"kind": clean(death.type), "message": clean(death.message)},
        }
        place = located(death.location, files) if death.location is not None else {}
        made.append({**notification, **({"locations": [place]} if place else {})})
    for item in report.not_examined:
        said = clean(f"{item.what}: {item.why}" if item.why else item.what)
        made.append(
            {
                "descriptor": {"id": "not-examined"},
                "level": "error" if item.what == MISSING else "note",
                "message": {"text": plain(f"Not examined: {said}")},
            }
        )
    return made
