"""A real `turnwise explore` in a process of its own, and a real Chromium that looks at it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

_ADDRESS = re.compile(r" on (http://\S+)")

CHROMIUM = os.environ.get("TURNWISE_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome") or ""
"""The browser that tests drive."""


class Explorer:
    """An explorer that runs: its address with the token, its url without, and what it said on standard error."""

    def __init__(self, process: subprocess.Popen[str], address: str, log: list[str]) -> None:
        self.process, self.address, self.log = process, address, log
        parts = urlsplit(address)
        self.url = f"{parts.scheme}://{parts.netloc}"

    def memory(self) -> int:
        """Return the bytes of memory that the server holds."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024

    def peak_memory(self) -> int:
        """Return the bytes of memory that the server held at most."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) * 1024


@contextmanager
def explored(*arguments: str, env: dict[str, str] | None = None) -> Iterator[Explorer]:
    """Run `turnwise explore` with some options on a free port, until the block is left."""
    import turnwise

    source = str(Path(turnwise.__file__).parents[1])
    command = [sys.executable, "-c", "from turnwise.cli import main; main()", "explore", "--port", "0", *arguments]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": source, **(env or {})}
    )
    assert process.stderr is not None
    log: list[str] = []
    reader = threading.Thread(target=lambda: log.extend(process.stderr or ()), daemon=True)
    try:
        found = None
        for line in process.stderr:
            log.append(line)
            if found := _ADDRESS.search(line):
                break
        assert found, "".join(log)
        reader.start()
        yield Explorer(process, found[1], log)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if reader.is_alive():
            reader.join(10)
        process.stderr.close()


@contextmanager
def chromium():
    """Give a Chromium without a window, driven by Playwright."""
    from playwright.sync_api import sync_playwright

    assert CHROMIUM, "no Chromium: apt-get install chromium, or name one in TURNWISE_CHROMIUM"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """Addresses that a page asked for, and errors and warnings that it wrote to the console or threw."""

    def __init__(self, page) -> None:
        self.errors: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("websocket", lambda socket: self.asked.append(socket.url))

    def hosts(self) -> set[str]:
        """Return the hosts that were asked, those of data and blobs of the page itself left out."""
        return {urlsplit(url).netloc for url in self.asked} - {""}
