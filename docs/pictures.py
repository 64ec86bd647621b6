"""Makes the pictures in `docs/pictures`: recordings of the command, screenshots, and diagrams. `make pictures` runs it.

A recording is an SVG of a terminal whose rows appear and disappear. Browsers set to reduced motion show only its end.
"""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

import openpyxl
import pyte
from PIL import Image

HERE = Path(__file__).parent / "pictures"
# The folder of the package's commands.
BIN = Path(sys.argv[1]).absolute()
ADDRESS = "127.0.0.1:8080"
# Recordings show another service than the sandbox. Its address is longer, so the command gets fewer columns.
SHOWN = {b"http://127.0.0.1:8080": b"https://deals.example.com", b"agents-127.0.0.1-8080": b"agents-deals.example.com"}
COLUMNS, ROWS = 80, 28
COMMAND_COLUMNS = COLUMNS - max(len(shown) - len(own) for own, shown in SHOWN.items())
# The size of a character, in pixels.
WIDTH, HEIGHT = 8.4, 18
FONT = "font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:14px"
COLOURS = {
    "default": "#d8dee6",
    "green": "#7ee787",
    "brown": "#e3b341",
    "red": "#ff9d94",
    "cyan": "#7bd4e6",
    "blue": "#82b7ff",
}
AGENTS = "Ada Lovelace,Grace Hopper,Jean Bartik,Alan Turing,Mary Jackson,Emmy Noether,Sofia Kovalevsky,Marie Curie,Lise Meitner"
AGENTS += ",Hedy Lamarr,Katherine Johnson,Dorothy Vaughan,Annie Easley,Edith Clarke,Barbara Liskov,Margaret Hamilton"

Row = tuple[tuple[int, str, str, bool], ...]


class Recording:
    """Recording of a terminal: its content over time."""

    def __init__(self, folder: Path, rows: int = ROWS, prompt: str = "$ ") -> None:
        self._folder, self._rows, self._prompt = folder, rows, prompt
        self._screen = pyte.Screen(COLUMNS, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.frames: list[tuple[float, list[Row]]] = []
        self.now = 0.0

    def _write(self, shown: bytes) -> None:
        self._stream.feed(shown)
        rows = [self._row(self._screen.buffer[y]) for y in range(self._rows)]
        if not self.frames or self.frames[-1][1] != rows:
            self.frames.append((self.now, rows))

    @staticmethod
    def _row(line: dict[int, pyte.screens.Char]) -> Row:
        cells = [(x, line[x]) for x in range(COLUMNS)]
        runs: list[tuple[int, str, str, bool]] = []
        for (colour, bold), of in groupby(cells, key=lambda cell: (cell[1].fg, cell[1].bold)):
            run = [*of]
            text = "".join(cell.data for _, cell in run).rstrip()
            if text:
                runs.append((run[0][0], text, COLOURS.get(colour, COLOURS["default"]), bold))
        return tuple(runs)

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def clear(self) -> None:
        self._screen.reset()
        self._write(self._prompt.encode())

    def run(self, command: str, interrupt: str | None = None) -> None:
        """Types a command, and shows it until it ends, or until it has shown a text and is sent Ctrl-C. The question of an
        import is answered with y.
        """
        # Start the recording at the first output, to skip the empty terminal.
        if self.frames:
            for letter in command:
                self.now += 0.03
                self._write(letter.encode())
            self.wait(0.5)
            self._write(b"\r\n")
        else:
            self._stream.feed(f"{self._prompt}{command}\r\n".encode())
        process, terminal = pty.fork()
        if process == 0:
            os.chdir(self._folder)
            os.execvpe(
                "sh", ["sh", "-c", f"exec {command}"], os.environ | {"COLUMNS": str(COMMAND_COLUMNS), "TERM": "xterm"}
            )
        began, at = time.monotonic(), self.now
        while True:
            ready, _, _ = select.select([terminal], [], [], 30)
            try:
                shown = os.read(terminal, 65536) if ready else b""
            except OSError:
                shown = b""
            if not shown:
                break
            for own, other in SHOWN.items():
                shown = shown.replace(own, other)
            self.now = at + time.monotonic() - began if self.frames else at
            self._write(shown)
            if b"[y/N]" in shown:
                os.write(terminal, b"y\n")
            if interrupt and interrupt.encode() in shown:
                self._write(b"^C")
                os.kill(process, signal.SIGINT)
                interrupt = None
        os.waitpid(process, 0)
        os.close(terminal)
        self._write(self._prompt.encode())

    def end_svg(self, name: str) -> None:
        """Writes a picture of the end."""
        self.frames = [(0, self.frames[-1][1])]
        self.svg(name)

    def svg(self, name: str, rest: float = 4) -> None:
        end = self.now + rest
        # The content of each row, with its start and end time.
        spans: dict[tuple[float, float], list[tuple[int, Row]]] = {}
        for y in range(self._rows):
            for row, of in groupby(range(len(self.frames)), key=lambda at: self.frames[at][1][y]):
                first, *_, last = [*of] * 2
                until = self.frames[last + 1][0] if last + 1 < len(self.frames) else end
                if row:
                    spans.setdefault((self.frames[first][0], until), []).append((y, row))
        height = max(y for span in spans.values() for y, _ in span) + 1
        style, body = [f"text{{{FONT}}}g{{visibility:hidden}}"], []
        for number, ((since, until), rows) in enumerate(sorted(spans.items())):
            stays = "" if until < end else ' style="visibility:visible"'
            if since > 0 or until < end:
                shows = f"0%{{visibility:hidden}}{100 * since / end:.2f}%{{visibility:visible}}"
                hides = f"{100 * until / end:.2f}%{{visibility:hidden}}" if until < end else "to{visibility:visible}"
                style.append(
                    f"@keyframes k{number}{{{shows}{hides}}}.k{number}{{animation:k{number} {end:.1f}s step-end infinite}}"
                )
            drawn = "".join(text(*run, y) for y, row in rows for run in row)
            body.append(f'<g class="k{number}"{stays}>{drawn}</g>')
        style.append("@media(prefers-reduced-motion){g{animation:none!important}}")
        terminal(name, height, "".join(body), "".join(style))


def text(x: int, shown: str, colour: str, bold: bool, y: int) -> str:
    weight = ' font-weight="bold"' if bold else ""
    # Some programs that show SVG collapse spaces.
    drawn = escape(shown).replace(" ", "\N{NO-BREAK SPACE}")
    at = f'x="{14 + x * WIDTH:.1f}" y="{44 + y * HEIGHT}"'
    return f'<text {at} fill="{colour}" textLength="{len(shown) * WIDTH:.1f}"{weight}>{drawn}</text>'


def terminal(name: str, rows: int, body: str, style: str) -> None:
    w, h = COLUMNS * WIDTH + 28, rows * HEIGHT + 44
    dots = "".join(f'<circle cx="{16 + 18 * at}" cy="15" r="5" fill="#4b5563"/>' for at in range(3))
    frame = f'<rect width="{w}" height="{h}" rx="8" fill="#161b22"/>{dots}'
    write(
        name,
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="620"><style>{style}</style>{frame}{body}</svg>',
    )


def write(name: str, svg: str) -> None:
    (HERE / name).write_text(svg + "\n", encoding="utf-8")
    print(name, len(svg), "bytes")


@contextmanager
def sandbox() -> Iterator[None]:
    with subprocess.Popen([BIN / "dealkit-server", "--log", "off"], stdout=subprocess.PIPE) as server:
        assert server.stdout and server.stdout.readline()
        try:
            yield
        finally:
            server.terminate()


def an_import() -> None:
    with TemporaryDirectory() as name, sandbox():
        folder = Path(name)
        rows = [f"{agent.split()[0].lower()}@example.com,{agent.replace(' ', ',')}\n" for agent in AGENTS.split(",")]
        (folder / "agents.csv").write_text("email,first_name,last_name\n" + "".join(rows))
        recording = Recording(folder)
        command = "dealkit agents import agents.csv --yes --rate-limit 3 --concurrency 2"
        recording.run(command, interrupt="K7 of 16 agents")
        recording.wait(3)
        recording.clear()
        recording.run(command)
        recording.svg("import.svg")


def an_office_import() -> None:
    """Records the steps of the page "Import a spreadsheet", with the workbook that its readers can download."""
    command = "dealkit agents import roster.xlsx --mapping roster.toml"
    with TemporaryDirectory() as name, sandbox():
        folder = Path(name)
        shutil.copy(HERE.parent / "files/sample-agents.xlsx", folder / "roster.xlsx")

        def record(picture: str, rows: int, command: str) -> None:
            recording = Recording(folder, rows, "PS> ")
            recording.run(command)
            recording.end_svg(picture)

        record("check.svg", ROWS, "dealkit check")
        record("dry-run.svg", 60, f"{command} --dry-run")
        mapping = folder / "roster.toml"
        answers = {"Sales Associate": "AGENT", "Broker": "BROKER_ADMIN"}
        for word, role in answers.items():
            mapping.write_text(mapping.read_text("utf-8").replace(f'"{word}" = "?"', f'"{word}" = "{role}"'), "utf-8")
        record("office-import.svg", ROWS, command)
        rejects = folder / "roster.xlsx.rejects.xlsx"
        workbook = openpyxl.load_workbook(rejects)
        workbook.active["C2"] = "grace@example.com"
        workbook.save(rejects)
        record("corrected-rows.svg", ROWS, command.replace("roster.xlsx", rejects.name))


def screenshot(name: str, page: str, width: int, height: int) -> None:
    with TemporaryDirectory() as folder:
        taken = Path(folder) / "taken.png"
        options = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={width},{height}"]
        chromium = os.environ.get("CHROMIUM", "chromium")
        options += [f"--screenshot={taken}", "--virtual-time-budget=4000", page]
        subprocess.run([chromium, *options], check=True, stderr=subprocess.DEVNULL)
        Image.open(taken).quantize(32).save(HERE / name, optimize=True)
        print(name, (HERE / name).stat().st_size, "bytes")


def the_page() -> None:
    program = """if True:
        from dealkit import Client, DealkitError
        client = Client()
        client.deals.retrieve("d_1")
        client.agents.create(email="ada@example.com", first_name="Ada", last_name="Lovelace", profile={"tier": "A"})
        try: client.deals.retrieve("d_9")
        except DealkitError: pass
    """
    with sandbox():
        subprocess.run([BIN / "python", "-c", program], check=True)
        screenshot("page.png", f"http://{ADDRESS}/__sandbox/docs", 1100, 480)


# Diagrams: boxes by column and row, with how many columns they span, and arrows between them. Their colours are legible on light and
# dark pages.
FILLS = {"plain": "#dbe4ee", "good": "#cdeccf", "wait": "#fbe3b0", "bad": "#f6cfcb"}


def diagram(
    name: str, title: str, boxes: dict[str, tuple[float, float, float, str, str]], arrows: list[str], wide: int = 230
) -> None:
    high, gap_x, gap_y = 56, 26, 24

    def locate(box: str) -> tuple[float, float, float]:
        column, row, span, *_ = boxes[box]
        return 4 + column * (wide + gap_x), 4 + row * (high + gap_y), span * (wide + gap_x) - gap_x

    drawn = []
    for box, (_, _, _, label, kind) in boxes.items():
        x, y, w = locate(box)
        lines = label.split("\n")
        drawn.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{high}" rx="6" fill="{FILLS[kind]}" stroke="#7d8794"/>'
        )
        for at, line in enumerate(lines):
            bold = ' style="font-weight:bold"' if at == 0 and len(lines) > 1 and kind != "plain" else ""
            down = y + high / 2 + 5 + 18 * (at - (len(lines) - 1) / 2)
            drawn.append(f'<text x="{x + w / 2}" y="{down}"{bold}>{escape(line)}</text>')
    for arrow in arrows:
        source, target = arrow.split(" > ")
        (x1, y1, w1), (x2, y2, w2) = locate(source), locate(target)
        if y1 == y2:
            line = (
                (x1 + w1, y1 + high / 2, x2 - 6, y2 + high / 2)
                if x1 < x2
                else (x1, y1 + high / 2, x2 + w2 + 6, y2 + high / 2)
            )
        else:
            middle = max(x1, x2) + (min(x1 + w1, x2 + w2) - max(x1, x2)) / 2
            line = (middle, y1 + high, middle, y2 - 6)
        drawn.append('<path d="M{} {}L{} {}" marker-end="url(#a)"/>'.format(*line))
    w = max(locate(box)[0] + locate(box)[2] for box in boxes) + 4
    h = max(locate(box)[1] for box in boxes) + high + 4
    style = "text{font:14px system-ui,sans-serif;text-anchor:middle;fill:#1c2530}path{stroke:#7d8794;stroke-width:2}"
    head = '<marker id="a" viewBox="0 0 6 6" refX="3" refY="3" markerWidth="5" markerHeight="5" orient="auto"><path d="M0 0L6 3L0 6z" '
    head += 'style="stroke:none;fill:#7d8794"/></marker>'
    label = f'role="img" aria-label="{escape(title)}"'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" {label}><style>{style}</style>{head}'
    write(name, f"{svg}{''.join(drawn)}</svg>")


def a_deal() -> None:
    boxes = {
        "deal": (0, 0, 5, "Deal\nid, status, phase, expiry_date, created_at, metadata, external_id", "good"),
        "contract": (0, 1, 1, "listing_contract\nside, sale_price,\ncommissions, dates", "wait"),
        "application": (1, 1, 1, "application\nstatus, dates,\nrequested_amount", "wait"),
        "quotes": (2, 1, 1, "quotes (list)\nestimated percent\nand amount", "wait"),
        "contacts": (3, 1, 1, "contacts (list)\nid, type", "wait"),
        "sides": (4, 1, 1, "sides (list)\ngross_commission,\nagent_units, …", "wait"),
        "address": (0, 2, 1, "address, agent\ncity, state, …;\nemail, names", "plain"),
        "offers": (1, 2, 1, "offers (list)\npercent_of_\ncommission, …", "plain"),
        "fields": (3, 2, 1, "fields (list)\nlabel, type, value", "plain"),
    }
    arrows = ["deal > contract", "deal > application", "deal > quotes", "deal > contacts", "deal > sides"]
    arrows += ["contract > address", "application > offers", "contacts > fields", "sides > contacts"]
    diagram("deal.svg", "The parts of a deal. A side names its contact in contact_id", boxes, arrows, wide=150)


def the_end_of_a_create() -> None:
    rows = [
        ("a response with the agent", "created\nkeep its id", "done", "good"),
        ("invalid, or no connection", "not_sent\nthere is no agent", "correct it, send it again", "good"),
        ("a 4xx except 408", "rejected\nthere is no agent", "correct it, send it again", "good"),
        ("a 2xx that cannot be read", "succeeded\nthere is an agent", "do not send it again", "bad"),
        (
            "a timeout, a 408 or 5xx,\na connection that broke",
            "unknown\nperhaps there is an agent",
            "1. Look it up\nat the service",
            "wait",
        ),
    ]
    boxes, arrows = {}, []
    for at, (what, outcome, then, kind) in enumerate(rows):
        boxes |= {
            f"a{at}": (0, at, 1, what, "plain"),
            f"b{at}": (1, at, 1, outcome, kind),
            f"c{at}": (2, at, 1, then, kind),
        }
        arrows += [f"a{at} > b{at}", f"b{at} > c{at}"]
    boxes |= {"resolve": (2, 5, 1, "2. Resolve it\nits id, or that there is none", "wait")}
    boxes |= {"again": (1, 5, 1, "3. Run the job again\nsent only if there is none", "wait")}
    arrows += ["c4 > resolve", "resolve > again"]
    diagram("create.svg", "How a create can end, and what to do", boxes, arrows)


def the_architecture() -> None:
    boxes = {
        "rust": (0, 0, 1, "Rust programs", "plain"),
        "python": (1, 0, 1, "Python programs", "plain"),
        "command": (2, 0, 1, "the command dealkit", "plain"),
        "bindings": (1, 1, 2, "bindings\nthe Python package: converts, and restates no rule", "wait"),
        "sdk": (
            0,
            2,
            3,
            "sdk, the crate dealkit\nclient, bulk, ledger, calls, http, model, rules, json, value",
            "good",
        ),
        "service": (0, 3, 1.5, "the service\nover HTTPS", "plain"),
        "server": (1.5, 3, 1.5, "server, the sandbox\nuses the sdk's models and rules", "wait"),
    }
    arrows = [
        "rust > sdk",
        "python > bindings",
        "command > bindings",
        "bindings > sdk",
        "sdk > service",
        "sdk > server",
    ]
    diagram("architecture.svg", "The parts of dealkit, and who uses whom", boxes, arrows)


def main() -> None:
    os.environ |= {"DEALKIT_BASE_URL": f"http://{ADDRESS}", "DEALKIT_SERVICE_KEY": "sandbox-key"}
    os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    makers: list[Callable[[], None]] = [
        an_import,
        an_office_import,
        the_page,
        a_deal,
        the_end_of_a_create,
        the_architecture,
    ]
    for make in makers:
        if len(sys.argv) < 3 or make.__name__ in sys.argv[2:]:
            make()


if __name__ == "__main__":
    main()
