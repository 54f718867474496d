#!/usr/bin/env python3
"""Write the playground as one file, which works from file:// with no network.

usage: bundle.py ENGINE.wasm OUT.html
"""

import base64
import gzip
import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
STYLES = ("uplot/uPlot.min.css", "style.css")
# All of them share one scope, in this order.
SCRIPTS = ("uplot/uPlot.iife.min.js", "html.js", "scenes.js", "models.js", "plots.js", "drawing.js", "inside.js",
           "form.js", "page.js")
LIMIT = 3_000_000  # bytes


def read(names):
    # A script element ends at the first of these words, even inside a string, and does not at all after the second.
    text = "\n".join((HERE / name).read_text() for name in names)
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def main(wasm, out):
    engine = base64.b64encode(gzip.compress(Path(wasm).read_bytes(), 9, mtime=0)).decode()
    worker = json.dumps((HERE / "worker.js").read_text()).replace("<", "\\u003c")
    parts = {"styles": read(STYLES),
             "scripts": f'"use strict";\nconst kEngine = "{engine}";\nconst kWorker = {worker};\n{read(SCRIPTS)}'}
    page = re.sub(r"/\*\{(\w+)\}\*/", lambda match: parts[match[1]], (HERE / "page.html").read_text())
    size = len(page.encode())
    if size > LIMIT:
        sys.exit(f"{out}: {size:,} bytes, more than {LIMIT:,}")
    Path(out).write_text(page)
    print(f"{out}: {size / 1e6:.2f} MB")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    main(*sys.argv[1:])
