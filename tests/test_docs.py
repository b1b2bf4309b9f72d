"""The blocks of the pages that teach run as they stand, in one sitting per page."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(
    "page", ["accumulation.md", "batch_derivatives.md", "formulas.md", "losses.md", "writing_gradients.md"]
)
def test_every_block_of_a_page_runs(page: str, tmp_path: Path) -> None:
    blocks = BLOCK.findall((DOCS / page).read_text())
    assert blocks
    script = tmp_path / page.replace(".md", ".py")  # a file: what is derived is read from its source
    script.write_text("\n".join(blocks))
    exec(compile(script.read_text(), str(script), "exec"), {"__name__": "page"})
