# SPDX-License-Identifier: Apache-2.0
"""Chromium without a screen, by Selenium: what a page shows, says on its console and asks for."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

TIMEOUT_S = 30.0
SIZE = (1360, 900)


def programs() -> tuple[str, str] | None:
    """Chromium and its driver; None where one is missing (tests/packages-browser.txt)."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    return (chromium, driver) if chromium and driver else None


class Browser:
    """One window, light until it is told otherwise."""

    def __init__(self) -> None:
        found = programs()
        assert found is not None
        options = webdriver.ChromeOptions()
        options.binary_location = found[0]
        # The tests' own pages, as root in a container where its own walls are not to be had.
        for flag in (
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--hide-scrollbars",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            f"--window-size={SIZE[0]},{SIZE[1]}",
        ):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = webdriver.ChromeService(executable_path=found[1])
        self.driver = webdriver.Chrome(options=options, service=service)
        self.scheme("light")

    def close(self) -> None:
        """Ends Chromium."""
        self.driver.quit()

    def scheme(self, name: str) -> None:
        """What the reader prefers: "light" or "dark"."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def open(self, url: str) -> None:
        """Goes to an address; another view of the same page loads nothing anew."""
        self.driver.get(url)

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns."""
        return self.driver.execute_script(script, *arguments)

    def wait(self, what: Callable[[], Any]) -> Any:
        """The first true value, within the time that a busy machine may take."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            with contextlib.suppress(StaleElementReferenceException):  # drawn anew meanwhile
                if value := what():
                    return value
            assert time.monotonic() < deadline, self.text("body")
            time.sleep(0.02)

    def all(self, selector: str) -> list[WebElement]:
        """The elements of a selector of CSS."""
        return list(self.driver.find_elements(By.CSS_SELECTOR, selector))

    def one(self, selector: str) -> WebElement:
        """The first of them, once it is there."""
        found: WebElement = self.wait(lambda: self.all(selector))[0]
        return found

    def text(self, selector: str) -> str:
        """What an element shows."""
        return self.one(selector).text

    def title(self, text: str) -> None:
        """Waits until the view of that title is shown."""
        script = """if (document.querySelector("main[aria-busy]")) return "";
                    return document.querySelector("h1")?.textContent ?? "";"""
        self.wait(lambda: self.run(script).startswith(text))

    def press(self, *keys: str) -> None:
        """Keys, one behind the other, wherever the focus is."""
        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def focused(self) -> str:
        """The text of what has the focus."""
        return str(self.run("return document.activeElement.textContent"))

    def complaints(self) -> list[str]:
        """What the console has been told since the last time, but for what was only said."""
        entries = self.driver.get_log("browser")
        return [e["message"] for e in entries if e["level"] in ("SEVERE", "WARNING")]

    def requests(self) -> set[str]:
        """The hosts, with ports, that pages have asked since the last time."""
        hosts = set()
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] != "Network.requestWillBeSent":
                continue
            place = urlsplit(message["params"]["request"]["url"])
            if place.scheme not in ("data", "about", "chrome"):
                hosts.add(place.netloc)
        return hosts

    def picture(self, path: Path, height: int = SIZE[1]) -> bytes:
        """What the window shows from the top of the page on, written as PNG."""
        clip = {"x": 0, "y": 0, "width": SIZE[0], "height": height, "scale": 1}
        arguments = {"format": "png", "clip": clip, "captureBeyondViewport": True}
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", arguments)
        data = base64.b64decode(shot["data"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        if shutil.which("pngquant"):
            command = ["pngquant", "--force", "--strip", "--speed=1", "--ext=.png", str(path)]
            subprocess.run(command, check=True)
        return data


def wanted_pictures() -> Path | None:
    """Where the documents' pictures are to be written (TENSORD_PICTURES); None: nowhere."""
    folder = os.environ.get("TENSORD_PICTURES")
    return Path(folder) if folder else None
