"""A learner's file is begun, and never written to again. No torch."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from gradwright.errors import GradwrightError


def begin(path: Path, text: str) -> None:
    """Write ``text`` to a file that is not there: whole, or not at all; what is there by now stays as it is.

    Raises: FileExistsError; GradwrightError, if it can't be written.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        part.write_text(text, encoding="utf-8")
        try:
            os.link(part, path)  # unlike a move, it never takes the place of a file
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            with open(path, "x", encoding="utf-8") as stream:
                stream.write(text)
    except FileExistsError:
        raise
    except OSError as error:
        raise GradwrightError(f"{path} can't be written: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)
