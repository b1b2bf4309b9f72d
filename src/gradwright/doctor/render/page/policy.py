"""What the page may do, as the browser enforces it: run the scripts written here, and nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable


def policy(scripts: Iterable[str]) -> str:
    """A content security policy: no request of any kind, no eval; a script only if its text has one of these hashes.

    Style may stand in the page (bars have their width there); images are those that the page makes itself.
    """
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in scripts)
    rules = (
        "default-src 'none'",
        f"script-src {hashes}",
        "style-src 'unsafe-inline'",
        "img-src data: blob:",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return "; ".join(rules)


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
