"""A headless Chromium or Chrome in which the tests look at pages. It is driven over its debugging pipe."""

import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SILENCE = 60  # seconds without an answer after which a page counts as frozen
MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"


def find():
    return next(filter(None, map(shutil.which, (*NAMES, MAC))), None)


class Browser:
    """with Browser() as browser: browser.open(url) ... browser.evaluate(javascript)"""

    def __enter__(self):
        self.profile = tempfile.mkdtemp()
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        # The browser reads commands from descriptor 3 and answers on 4.
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "sh", find(), "--headless=new", "--no-sandbox",
             "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
             f"--user-data-dir={self.profile}", "--remote-debugging-pipe", "about:blank"],
            pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self.reader, self.writer = os.fdopen(ours_in, "rb"), os.fdopen(ours_out, "wb")
        self.count, self.session, self.events, self.rest = 0, None, [], b""
        page = next(t for t in self.send("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.send("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.reader.close()
        self.writer.close()
        shutil.rmtree(self.profile, ignore_errors=True)

    def send(self, method, **params):
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.writer.write(json.dumps(message).encode() + b"\0")
        self.writer.flush()
        while True:
            answer = self.receive()
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def receive(self):
        while b"\0" not in self.rest:
            if not select.select([self.reader], [], [], SILENCE)[0]:
                raise TimeoutError(f"the page has been frozen for {SILENCE} seconds")
            more = os.read(self.reader.fileno(), 1 << 20)
            if not more:
                raise RuntimeError("the browser ended")
            self.rest += more
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def open(self, url, width=1280, height=900, dark=False):
        self.events.clear()
        self.size(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        # A page that differs only in its #hash would not be loaded again.
        self.send("Page.navigate", url="about:blank")
        error = self.send("Page.navigate", url=url).get("errorText")
        if error:
            raise RuntimeError(f"{url}: {error}")
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def size(self, width, height):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 700)

    def evaluate(self, expression):
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"].get("exception", {}).get("description", "JavaScript error"))
        return result["result"].get("value")

    def wait(self, condition, seconds=60):
        end = time.monotonic() + seconds
        while not self.evaluate(f"Boolean({condition})"):
            if time.monotonic() > end:
                raise TimeoutError(f"never came true: {condition}")
            time.sleep(0.05)

    def errors(self):
        """Exceptions, errors and warnings of the page, and errors of the browser."""
        self.evaluate("1")
        return [e["params"] for e in self.events if e.get("method") == "Runtime.exceptionThrown"
                or e.get("method") == "Log.entryAdded" and e["params"]["entry"]["level"] == "error"
                or e.get("method") == "Runtime.consoleAPICalled" and e["params"]["type"] in ("error", "warning")]

    def requests(self):
        """The addresses that the page requested, except data inside the page."""
        self.evaluate("1")
        urls = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [url for url in urls if not url.startswith(("data:", "about:", "blob:"))]
