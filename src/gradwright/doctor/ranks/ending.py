"""How the script of one rank fared, in words that ranks can be compared by."""

from __future__ import annotations

from gradwright.doctor.session.model import Script


def end_of(script: Script) -> str:
    """In few words, without what differs from run to run.

    >>> end_of(Script(exit_code=-9)), end_of(Script(exit_code=0)), end_of(Script(stopped_early="after 200 steps"))
    ('ended by signal 9', 'exited 0', 'stopped: enough was seen')
    """
    death = script.exception
    if death is not None and death.type != "KeyboardInterrupt":
        return f"died of {death.type}" + (f" at {death.location}" if death.location else "")
    if death is not None:
        return "interrupted"
    if script.stopped_early is not None:
        return f"stopped: {'enough was seen' if ' after' in f' {script.stopped_early}' else script.stopped_early}"
    if script.exit_code is not None and script.exit_code < 0:
        return f"ended by signal {-script.exit_code}"
    return "ended, how is not known" if script.exit_code is None else f"exited {script.exit_code}"
