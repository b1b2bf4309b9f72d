"""A real Chromium, driven over standard input and output: one JSON line asks for a page, one answers.

A process of its own: Playwright leaves an event loop running in the thread it is used in, and the tests of a worker
share that thread; nor do the tests' own forks see anything of it.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

# Without the background-networking flags Chromium looks for its maker's hosts at every start.
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


def look(browser: Browser, asked: dict[str, Any]) -> dict[str, Any]:
    seen: dict[str, Any] = {"results": [], "console": [], "requests": [], "dialogs": [], "errors": []}
    context = browser.new_context(
        viewport={"width": asked["width"], "height": 800},
        color_scheme=asked["scheme"],
        java_script_enabled=asked["script"],
        reduced_motion="reduce",
    )

    def dismissed(dialog: Any) -> None:
        seen["dialogs"].append(dialog.message)
        dialog.dismiss()

    page = context.new_page()
    page.on("dialog", dismissed)
    page.on("console", lambda message: seen["console"].append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: seen["errors"].append(str(error)))
    page.on("request", lambda request: seen["requests"].append(request.url))
    page.goto(asked["url"])
    seen["results"] = [step(page, one) for one in asked["steps"]]
    context.close()
    return seen


def step(page: Page, asked: list[str]) -> Any:
    """What a ``js`` step gives; nothing of any other."""
    what, value = asked
    if what == "press":
        return page.keyboard.press(value)
    if what == "type":
        return page.keyboard.type(value)
    if what == "click":
        return page.click(value)
    if what == "media":
        return page.emulate_media(media=value)
    if what == "wait":
        return wait(page, value)
    return page.evaluate(value)


def wait(page: Page, condition: str) -> None:
    """Until it holds. Playwright's own waiting evaluates a string in the page, which the page's policy forbids."""
    for _ in range(400):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise TimeoutError(condition)


def main(executable: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, headless=True, args=list(FLAGS))
        for line in sys.stdin:
            answer: dict[str, Any] = {}
            try:
                answer = look(browser, json.loads(line))
            except Exception as error:  # told to the test that asked
                answer = {"failed": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), flush=True)
        with contextlib.suppress(Exception):
            browser.close()


if __name__ == "__main__":
    main(sys.argv[1])
