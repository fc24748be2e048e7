"""Take a picture of the page of `pushpop serve`: docs/figures/served.png. Needs Chromium.

python docs/figures/served.py
"""

import subprocess
import sys
from io import BytesIO
from pathlib import Path
from shutil import which

from PIL import Image
from playwright.sync_api import sync_playwright

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
COMMAND = (
    sys.executable,
    "-m",
    "pushpop.cli",
    "serve",
    "reverse-stack",
    "copy-queue",
    "--port",
    "0",
)
SIZE = {"width": 1280, "height": 780}
COLOURS = 96  # few enough for a small file


def main() -> None:
    """Serve, look, save."""
    path = next(filter(None, map(which, BROWSERS)), None)
    if path is None:
        print("no picture of the page: no Chromium found")
        return
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            shot = photograph(path, server.stdout.readline().split()[0])
        finally:
            server.terminate()
    picture = Image.open(BytesIO(shot)).convert("RGB")
    few = picture.quantize(COLOURS, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    few.save(Path(__file__).with_name("served.png"), optimize=True)
    print("drew served.png")


def photograph(browser: str, address: str) -> bytes:
    """The page with its first trace."""
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = found.new_page(viewport=SIZE, color_scheme="light")
        page.goto(f"{address}/#model=reverse-stack&input=a1+a2+a3+a4+a5+a6+a7+a8&step=12")
        page.wait_for_selector(".verdict .right")
        page.wait_for_function("document.querySelector('.what .count').textContent.includes('12')")
        shot = page.screenshot()
        found.close()
    return shot


if __name__ == "__main__":
    main()
