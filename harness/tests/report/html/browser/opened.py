"""A report in a real browser: opened from disk, with the network off, and with all that must never happen noted."""

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request

LOCAL = ("file:", "data:", "blob:", "about:")
"""Where a report may take something from: its own file, and what is written in it."""

GRAVE = ("serious", "critical")
"""The impacts of axe-core that a report may not have."""


@dataclass(slots=True)
class Opened:
    """A page of the browser."""

    page: Page
    problems: list[str] = field(default_factory=list)

    def as_new(self, width: int, height: int, scheme: str) -> None:
        """Set what an earlier test may have changed."""
        self.page.set_default_timeout(20_000)
        self.page.set_viewport_size({"width": width, "height": height})
        theme: Literal["dark", "light"] = "dark" if scheme == "dark" else "light"
        self.page.emulate_media(media="screen", color_scheme=theme, reduced_motion="reduce")

    def leave(self) -> None:
        """Show an empty page, and forget what the report has stored and what was noted of it."""
        self.page.evaluate("localStorage.clear(); sessionStorage.clear()")
        self.page.goto("about:blank")
        self.problems.clear()

    def width_beyond_window(self) -> int:
        """By how many pixels the page is wider than the window, so that all of it scrolls sideways."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def charts_fit(self) -> None:
        """Wait until every chart is drawn as wide as its place, which takes a moment after the window has changed."""
        self.page.wait_for_function(_CHARTS_FIT)

    def unfold(self, rows: int = 2) -> None:
        """Open what is folded; of the results of a check the first few, as all of them are made alike."""
        self.page.evaluate(
            """rows => document.querySelectorAll("details").forEach((each) => {
              if (!each.matches(".results details.row") || rows-- > 0) each.open = true;
            })""",
            rows,
        )

    def scripts_from_text(self) -> list[str]:
        """Planted scripts that ran, and elements that would run them on a click, an error or a focus."""
        found: list[str] = self.page.evaluate(_ALIVE)
        return found

    def grave_violations(self, *rules: str) -> list[str]:
        """What axe-core finds that keeps people from using the page: rule, impact and the first three elements."""
        options: dict[str, Any] = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
        found: list[dict[str, Any]] = Axe().run(self.page, options=options).response["violations"]
        return [
            f"{each['id']} ({each['impact']}): {[node['html'][:200] for node in each['nodes'][:3]]}"
            for each in found
            if each["impact"] in GRAVE
        ]


_ALIVE = """
[
  ...window.ran.map((number) => `ran: ${number}`),
  ...[...document.querySelectorAll("*")].flatMap((element) => [...element.attributes].filter((each) =>
    each.name.startsWith("on") ||
    (/^\\s*javascript:/i.test(each.value) && ["href", "src", "action", "formaction"].includes(each.name))
  ).map((each) => `${element.localName} ${each.name}: ${each.value.slice(0, 80)}`)),
  ...[...document.querySelectorAll("script:not([type='application/json'])")].filter((each) =>
    /^\\s*planted\\(/.test(each.textContent)).map(() => "a script element")
]
"""

_CHARTS_FIT = """() => [...document.querySelectorAll("section.document:not([hidden]) .plot svg")].every((each) =>
  each.getBoundingClientRect().width <= each.closest(".plot").clientWidth + 1)"""

_NOTED = "window.ran = []; window.planted = (number) => { window.ran.push(number); };"
"""What planted markup calls, wherever a browser takes it for a script."""


def new_window(browser: Browser) -> Opened:
    """A new page in a context without network; requests beyond the file are refused, and all that is wrong is noted."""
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"], offline=True)
    context.add_init_script(_NOTED)
    opened = Opened(context.new_page())
    note = opened.problems.append

    def on_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            note(f"console {message.type}: {message.text}")

    def on_request(request: Request) -> None:
        if not request.url.startswith(LOCAL):
            note(f"request: {request.url}")

    def on_dialog(dialog: Dialog) -> None:
        note(f"dialog: {dialog.message}")
        dialog.dismiss()

    context.route(re.compile("^(?!file:|data:|blob:|about:)"), lambda route: route.abort())
    opened.page.on("console", on_console)
    opened.page.on("pageerror", lambda error: note(f"script: {error}"))
    opened.page.on("request", on_request)
    opened.page.on("dialog", on_dialog)
    return opened
