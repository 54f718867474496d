#!/usr/bin/env python3
"""Checks build/book, page by page:

    make test-book        or: python dev/book/test_book.py [FOLDER]

- links, pictures, scripts and style sheets lead to files of the site, and #anchors to elements;
- no page loads anything from elsewhere; only links may lead to other sites;
- in a browser: pages cause no error and no request outside the site, fit a phone, and the search finds pages.
"""

import re
import sys
import time
import unittest
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]
SITE = Path(sys.argv.pop(1) if len(sys.argv) > 1 else ROOT / "build/book").resolve()
sys.path.insert(0, str(ROOT / "dev/report"))
import browser  # noqa: E402


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loads = {""}, [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href") is not None:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in ("index", "search", "next", "prev"):
            self.loads.append(given.get("href"))
        elif given.get("src"):
            self.loads.append(given["src"])


def read(path):
    return path.read_text(encoding="utf-8")


PAGES = {path: Page(read(path)) for path in sorted(SITE.rglob("*.html")) if path.name != "playground.html"}


def fault(page, link):
    """What is wrong with a link of a page to the site itself; None if nothing."""
    parts = urlsplit(link)
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not target.is_file() or SITE not in target.parents:
        return "no such file"
    if target in PAGES and unquote(parts.fragment) not in PAGES[target].ids:
        return "no such anchor"
    return None


def is_elsewhere(link):
    return urlsplit(link).scheme in ("http", "https", "mailto")


class Files(unittest.TestCase):
    def test_pages(self):
        self.assertGreater(len(PAGES), 200)

    def test_links(self):
        wrong = [f"{page.relative_to(SITE)}: {link}: {why}" for page, parsed in PAGES.items()
                 for link in parsed.links + parsed.loads
                 if not is_elsewhere(link) and not link.startswith(("data:", "about:")) and (why := fault(page, link))]
        self.assertEqual(wrong, [])

    def test_nothing_is_loaded_from_elsewhere(self):
        loads = [(page, load) for page, parsed in PAGES.items() for load in parsed.loads]
        for sheet in SITE.rglob("*.css"):
            loads += [(sheet, link) for link in re.findall(r"url\(['\"]?([^'\")]+)", read(sheet))]
        self.assertEqual([f"{page}: {load}" for page, load in loads
                          if load.startswith("//") or urlsplit(load).scheme not in ("", "data")], [])

    def test_every_page_of_the_course_is_a_chapter(self):
        chapters = PAGES[SITE / "index.html"].links
        pages = [page.relative_to(ROOT).with_suffix(".html") for page in (ROOT / "layers").rglob("*.md")]
        self.assertEqual([str(page) for page in pages if str(page) not in chapters], [])

    def test_no_markup_is_left(self):
        left = [f"{page.relative_to(SITE)}: {found[0]}" for page in PAGES if SITE / "source" not in page.parents
                and (found := re.search(r"@top@|source:\w+/|\$`|<!-- (scene|listing|excerpt)", read(page)))]
        self.assertEqual(left, [])


@unittest.skipUnless(browser.find(), "no Chromium or Chrome")
class InABrowser(unittest.TestCase):
    def setUp(self):
        self.browser = browser.Browser().__enter__()
        self.addCleanup(self.browser.__exit__)

    def look(self, page, **size):
        """Opens a page and returns what is wrong with it."""
        self.browser.open(f"{SITE.as_uri()}/{page}", **size)
        wide = self.browser.evaluate("document.documentElement.scrollWidth > innerWidth")
        loaded = [url for url in self.browser.requests() if not url.startswith(SITE.as_uri()) or "playground" in url]
        return self.browser.errors() + loaded + ["too wide"] * wide

    def test_chapters(self):
        chapters = [str(page.relative_to(SITE)) for page in SITE.glob("layers/**/*.html")]
        wrong = [(page, dark, fault) for page in ["index.html", "dev/studies/README.html", *chapters]
                 for dark in (False, True) for fault in self.look(page, width=390, dark=dark)]
        self.assertEqual(wrong, [])

    def test_widths(self):
        pages = "index.html", "layers/norm/norm.html", "search.html?q=norm", "source/layers/norm/norm.cpp.html"
        wrong = [(page, width, fault) for page in pages for width in (320, 600, 800, 1024, 1100, 1280, 1360, 1920)
                 for fault in self.look(page, width=width)]
        self.assertEqual(wrong, [])

    @unittest.skipUnless((SITE / "playground.html").exists(), "the book has no playground")
    def test_scene(self):
        """A scene in a page trains, has its width, and goes away when it is closed."""
        for width in (390, 1280):
            self.assertEqual(self.look("layers/norm/normalization.html", width=width), [])
            frame = "document.querySelector('details.scene iframe')"
            self.browser.evaluate(f"{frame}.closest('details').open = true")
            self.browser.wait(f"{frame}.src.includes('playground.html#scene=')")
            self.wait_in_frame("optionTable.length > 0")
            self.in_frame("document.querySelector('#run').click()")
            self.wait_in_frame("state.models.every((model) => model.step > 2)")
            self.assertFalse(self.in_frame("document.documentElement.scrollWidth > innerWidth"))
            self.browser.evaluate(f"{frame}.closest('details').open = false")
            self.browser.wait(f"{frame}.src === 'about:blank'")
            self.assertEqual(self.browser.errors(), [])

    def in_frame(self, expression):
        contexts = [event["params"]["context"]["id"] for event in self.browser.events
                    if event.get("method") == "Runtime.executionContextCreated"]
        answer = self.browser.send("Runtime.evaluate", expression=expression, contextId=contexts[-1],
                                   returnByValue=True)
        return answer["result"].get("value")

    def wait_in_frame(self, condition, seconds=60):
        end = time.monotonic() + seconds
        while self.in_frame(f"typeof optionTable !== 'undefined' && ({condition})") is not True:
            self.assertLess(time.monotonic(), end, f"never came true: {condition}")
            time.sleep(0.1)

    def found(self, words):
        """Address and text of each result of a search."""
        self.assertEqual(self.look(f"search.html?q={words}"), [])
        self.browser.wait("/finished/.test(document.querySelector('#search-results').textContent)")
        self.assertEqual(self.browser.errors(), [])
        return self.browser.evaluate("""[...document.querySelectorAll('#search-results li')]
            .map(item => [item.querySelector('a').href, item.querySelector('p')?.textContent ?? ''])""")

    def test_search(self):
        results = self.found("warm-up")
        self.assertTrue(any("layers/norm/normalization.html" in link for link, _ in results))
        self.assertEqual([link for link, text in results if "layers/" in link and len(text) < 100], [])

    def test_search_finds_the_index(self):
        addresses = [urlsplit(link).path for link, _ in self.found("transformer")]
        self.assertEqual([path for path in addresses if not Path(unquote(path)).is_file()], [])


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    failed, skipped = len(result.failures) + len(result.errors), len(result.skipped)
    print(f"{result.testsRun - failed - skipped} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    raise SystemExit(failed > 0)
