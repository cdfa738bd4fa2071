"""The built site in a browser: every page, every link, no error in the console and no request elsewhere.

It needs the site in docs/_build/html, Playwright (``pip install playwright``) and Chromium on the path.
"""

import functools
import http.server
import re
import shutil
import threading
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

import pytest

SITE = Path(__file__).resolve().parents[2] / "docs" / "_build" / "html"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.needs("playwright"),
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="the site is not built"),
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium"),
]


class Page:
    """The links of a page, its anchors, and how many entries of its sidebar are marked as current."""

    def __init__(self, file: Path) -> None:
        text = file.read_text(encoding="utf-8")
        # a parser of HTML finds the same in twenty times the time
        given = [(key, unescape(value)) for key, value in re.findall(r'\s(href|src|id|name)="([^"]*)"', text)]
        self.links = {value for key, value in given if key in ("href", "src")}
        self.anchors = {value for key, value in given if key in ("id", "name")}
        self.current = text.count('aria-current="page" class="current')


@pytest.fixture(scope="module")
def pages() -> dict[str, Page]:
    files = sorted(file for file in SITE.rglob("*.html") if "_static" not in file.relative_to(SITE).parts)
    return {file.relative_to(SITE).as_posix(): Page(file) for file in files}


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server that writes no log."""

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Serve the site, and return its address."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(SITE))) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{served.server_port}/"
        served.shutdown()


@pytest.fixture
def tab() -> Iterator[Any]:
    """Open Chromium, and return a page of it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser.new_page()
        browser.close()


def test_every_link_leads_to_a_file_and_an_anchor(pages: dict[str, Page]) -> None:
    assert len(pages) > 100
    lost = []
    for name, page in pages.items():
        for link in sorted(page.links):
            if link.partition(":")[0] in ("http", "https", "mailto", "data"):
                continue
            target, anchor = urldefrag(unquote(urljoin(f"/{name}", link)))
            file = target.lstrip("/").partition("?")[0]
            if not (SITE / file).is_file() or (anchor and file in pages and anchor not in pages[file].anchors):
                lost.append(f"{name}: {link}")
    assert not lost


def test_the_sidebar_of_a_name_marks_its_own_entry(pages: dict[str, Page]) -> None:
    """Pages of one module share a sidebar, in which the link of the current page leads nowhere else."""
    names = {name: Path(name).name for name in pages if "/generated/" in name}
    assert len(names) > 1000
    assert not [name for name, link in names.items() if pages[name].current != 1 or link in pages[name].links]


SEARCHES = {
    "install": "docs/installation.html",
    "cupy": "docs/gallery/tutorials/02_numpy_to_cupy.html",
    "backward": "agrad.Tensor.html",
    "save model": "docs/nn.html",
    "vmap": "agrad.vmap.html",
    "jit": "agrad.jit.html",
    "custom derivative": "docs/transforms/custom_rules.html",
    "gradient of numpy code": "docs/agrad_numpy.html",
    "train on GPU": "docs/train.html",
}
"""What a new user searches for, and the end of the address of the page that the search shows first."""


def test_searches_find_their_page_first(server: str, tab: Any) -> None:
    first = {}
    for words in SEARCHES:
        tab.goto(f"{server}search.html?q={words.replace(' ', '+')}")
        tab.wait_for_function("document.querySelectorAll('#search-results li').length > 2")
        link = tab.query_selector("#search-results li > a").get_attribute("href")
        first[words] = link.partition("#")[0].partition("?")[0]
    assert not {words: page for words, page in first.items() if not page.endswith(SEARCHES[words])}


EVERY = 10
"""Of the generated pages of the reference, which are all alike, the browser opens one in so many."""


def test_pages_open_without_an_error(pages: dict[str, Page], server: str, tab: Any) -> None:
    generated = [name for name in pages if "/generated/" in name]
    moved = [name for name in pages if 'http-equiv="refresh"' in (SITE / name).read_text(encoding="utf-8")]
    opened = [name for name in pages if name not in generated and name not in moved] + generated[::EVERY]
    errors: list[str] = []
    inside = (server, "data:")
    tab.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.on("request", lambda request: None if request.url.startswith(inside) else errors.append(request.url))
    tab.on("response", lambda response: None if response.status < 400 else errors.append(response.url))
    wide_screen, narrow = ({"width": width, "height": 800} for width in (1280, 400))
    found, wide = [], []
    for name in opened:
        tab.set_viewport_size(wide_screen)
        tab.goto(server + name)
        if name not in generated and name != "index.html":
            # a page is wider than a narrow screen only where something in it does not scroll by itself
            tab.set_viewport_size(narrow)
            if tab.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
                wide.append(name)
        found += [f"{name}: {error}" for error in errors]
        errors.clear()
    assert not found
    assert not wide
