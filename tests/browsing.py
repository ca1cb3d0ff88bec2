"""A page in a real headless Chromium, for tests; they are skipped where it is not installed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

_FLAGS = (
    "--no-sandbox",  # Chromium refuses its sandbox to root, as whom machines that build run tests
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def opened_browser() -> Iterator[Any]:
    """Start a browser; skip the test where Chromium or playwright is missing."""
    browser_path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser_path is None:
        pytest.skip("Chromium is not here: install Debian's package chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not here: pip install playwright")
    with playwright.sync_playwright() as player:
        browser = player.chromium.launch(executable_path=browser_path, args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened_page(browser: Any) -> Iterator[Any]:
    """Open an empty page with a storage of its own."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(20_000)
    try:
        yield page
    finally:
        context.close()
