"""Take the pictures of the program that the pages show: ``python docs/screenshots.py``.

Runs both demos, a comparison and two examples in a temporary folder. Writes the terminal, the report, the page of a pair and
four figures into ``docs/images``. Needs chromium, and playwright from the extra ``dev``.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

import pairframe as pf
from pairframe.report.figures import new_figure, summary_figure

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs/images"
PROGRAM = Path(sys.executable).parent / "pairframe"
COLUMNS = 128
COMMANDS = [
    "pairframe demo",
    "pairframe compare pairframe-demo/masks/embryo_1.tif pairframe-demo/masks/embryo_3.tif --out out --frame-interval 15",
]
EXAMPLES = ["pair_frame", "cohort_analysis"]  # each writes a figure of its name
PAGE = """<body style="margin: 0; background: {background}"><pre style="display: inline-block; margin: 0; padding: 16px;
color: {foreground}; font: 14px/1.25 'DejaVu Sans Mono', monospace">{code}</pre></body>"""


def main() -> None:
    """Run everything, then replace the pictures."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        shown = Text("\n\n").join(_run_in_terminal(command, folder) for command in COMMANDS)
        for example in EXAMPLES:
            subprocess.run(
                [sys.executable, ROOT / f"examples/plot_{example}.py"],
                cwd=folder,
                check=True,
                stdout=subprocess.DEVNULL,
            )
        subprocess.run([PROGRAM, "demo", "--volume", "--quiet", "--out", "volume"], cwd=folder, check=True)
        (folder / "terminal.html").write_text(_html(shown))
        browser = playwright.chromium.launch(executable_path=_chromium(), args=["--no-sandbox", "--disable-gpu"])
        view = browser.new_page(viewport={"width": 1280, "height": 1956})
        view.goto((folder / "terminal.html").as_uri())
        view.locator("pre").screenshot(path=IMAGES / "terminal.png")
        view.goto((folder / "pairframe-demo/report.html").as_uri())
        view.wait_for_selector("html[data-ready]")
        view.locator("body").screenshot(path=IMAGES / "report.png")
        view.get_by_role("link", name="embryo 0 to 1", exact=True).click()
        view.wait_for_selector("html[data-ready]")
        view.screenshot(path=IMAGES / "pair_page.png")  # the upper part of the page
        browser.close()
        for example in EXAMPLES:
            shutil.copy(folder / f"{example}.png", IMAGES)
        (page,) = (folder / "volume/pairs").glob("tube_0_to_1-*/summary.png")
        shutil.copy(page, IMAGES / "volume.png")
        figure = new_figure(9.0, 7.1)  # smaller than in a report, so that its text can be read in the README
        summary_figure(pf.load(folder / "out"), figure).savefig(IMAGES / "summary.png", dpi=140)


def _run_in_terminal(command: str, folder: Path) -> Text:
    """A command and its output in colour, without its progress."""
    terminal, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 60, COLUMNS, 0, 0))
    words = [PROGRAM, *command.split()[1:]]
    environment = os.environ | {"TERM": "xterm-256color"}
    with subprocess.Popen(
        words, cwd=folder, env=environment, stdout=inner, stderr=subprocess.PIPE, text=True
    ) as process:
        os.close(inner)
        printed = b""
        try:
            while piece := os.read(terminal, 65536):
                printed += piece
        except OSError:  # the program has ended and closed the terminal
            os.close(terminal)
        assert process.stderr is not None
        complaint = process.stderr.read()
    if process.returncode != 0:
        raise SystemExit(f"{command}: exit code {process.returncode}\n{complaint}")
    return Text.assemble((f"$ {command}\n", "bold"), Text.from_ansi(printed.decode().replace("\r\n", "\n").rstrip()))


def _html(text: Text) -> str:
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(text, soft_wrap=True)
    return console.export_html(theme=MONOKAI, inline_styles=True, code_format=PAGE)


def _chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        raise SystemExit("no chromium found; install it, for example with: apt install chromium")
    return found


if __name__ == "__main__":
    main()
