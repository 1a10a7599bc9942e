"""The page in a real browser: no errors, controls that work, the numbers of the JSON on the screen."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sim.page.document import page as page_of
from tests.sim.pages import GIB, MIB, STAR, document, made, simulated
from tests.sim.test_page import HOSTILE, hostile

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = next((path for name in ("chromium", "chromium-browser") if (path := shutil.which(name))), None)
NO_CHROMIUM = "no Chromium here (Debian: apt-get install chromium)"

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests of this module."""
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright here (pip install playwright)")
    with playwright.sync_playwright() as driver:
        # Root, as which CI runs, may not use Chromium's sandbox.
        running = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


class Opened:
    """A page in the browser, with all that its console said."""

    def __init__(self, browser: Browser, file: Path, text: str, **options: Any) -> None:
        file.write_text(text, encoding="utf-8")
        self.page: Page = browser.new_page(viewport={"width": 1400, "height": 900}, **options)
        self.said: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(f"dialog {dialog.message}"))
        self.page.goto(file.as_uri())

    def text(self, selector: str) -> str:
        return self.page.inner_text(selector)

    def time(self) -> float:
        found: float = self.page.evaluate("toposcope.time")
        return found


@pytest.fixture
def lesson(browser: Browser, tmp_path: Path) -> Iterator[Opened]:
    """Ring beside parameter server on eight H100."""
    opened = Opened(browser, tmp_path / "lesson.html", made())
    yield opened
    assert opened.said == []
    opened.page.close()


def test_it_shows_the_numbers_of_the_json(lesson: Opened) -> None:
    largest = [row for row in document()["rows"] if row["num_bytes"] == GIB]
    for number, row in enumerate(largest):
        panel = lesson.page.locator(f'[data-run="{number}"]')
        assert panel.locator("h2").inner_text() == row["algorithm"]
        shown = panel.locator("dd").all_inner_texts()
        assert float(shown[0].split()[0]) / 1e3 == pytest.approx(row["time_s"], rel=1e-3)
        assert float(shown[1].split()[0]) * 1e9 == pytest.approx(row["busbw_bytes_per_s"], rel=1e-3)
        assert shown[2] in (row["limiting_link"], f"{row['limiting_link'].replace('->', '-')}, both ways")
    cells = lesson.page.locator("#results td[data-key=time_us]").all_inner_texts()
    assert [float(cell.replace(",", "")) for cell in cells] == [
        pytest.approx(row["time_s"] * 1e6, abs=0.005) for row in document()["rows"]
    ]


def test_it_plays_and_pauses(lesson: Opened) -> None:
    lesson.page.click("#play")
    assert lesson.text("#play") == "Pause"
    lesson.page.wait_for_function("toposcope.time > 0")
    lesson.page.click("#play")
    before = lesson.time()
    lesson.page.wait_for_timeout(100)
    assert lesson.time() == before > 0
    assert lesson.text("#play") == "Play"


def test_it_plays_to_the_end_and_then_anew(lesson: Opened) -> None:
    lesson.page.evaluate("toposcope.seek(0.999 * toposcope.whole)")
    lesson.page.select_option("#speed", "4")
    lesson.page.click("#play")
    lesson.page.wait_for_function("!toposcope.isPlaying")
    assert lesson.time() == lesson.page.evaluate("toposcope.whole")
    lesson.page.keyboard.press("Space")
    lesson.page.wait_for_function("toposcope.time < 0.5 * toposcope.whole")


def test_keys_step_through_the_ring(lesson: Opened) -> None:
    """Chunk 0 of rank 0 grows rank by rank; both halves are named, and the server's push goes on meanwhile."""
    grown = []
    for step in range(14):
        lesson.page.keyboard.press("ArrowRight")
        cells = lesson.page.locator('[data-run="0"] .holdings tbody tr').all()
        grown.append([row.locator("td").nth(0).inner_text() for row in cells])
        now = lesson.text('[data-run="0"] .now')
        if step < 13:
            half = "reduce-scatter: receive, reduce, send" if step < 6 else "all-gather: receive, copy, send"
            assert half in now
            assert f"Step {step + 2} of 14" in now
        assert "push: all send, the server reduces" in lesson.text('[data-run="1"] .now')
    sums = [row[rank] for row, rank in zip(grown, range(1, 8), strict=False)]
    assert sums == ["3", "6", "10", "15", "21", "28", "36"]
    assert set(grown[-1]) == {"36"}
    whole_s = next(row["time_s"] for row in document()["rows"] if row["num_bytes"] == GIB)
    finished = f"Finished after {whole_s * 1e3:#.4g} ms: every rank holds its result"
    assert finished in lesson.text('[data-run="0"] .now')
    lesson.page.keyboard.press("End")
    assert lesson.page.locator('[data-run="1"] td.done').count() == 8
    lesson.page.keyboard.press("Home")
    assert lesson.time() == 0
    assert lesson.page.locator("td.done").count() == 0


def test_every_control_can_be_reached_and_is_named(lesson: Opened) -> None:
    reached = []
    for _ in range(12):
        lesson.page.keyboard.press("Tab")
        reached.append(lesson.page.evaluate("document.activeElement.id"))
    assert {"play", "back", "forward", "reset", "speed", "time"} <= set(reached)
    for role, name in (("button", "Play"), ("button", "One step forward"), ("slider", "Simulated time")):
        assert lesson.page.get_by_role(role, name=name).count() == 1  # type: ignore[arg-type]
    images = lesson.page.get_by_role("img").all()
    assert all(image.get_attribute("aria-label") or image.locator("title").count() for image in images)
    lesson.page.click("#forward")
    assert "ring: Step 2 of 14" in lesson.text("#said")
    assert "parameter-server: Step 1 of 2" in lesson.text("#said")


def test_the_slider_and_the_timeline_lead_to_a_time(lesson: Opened) -> None:
    lesson.page.locator("#time").fill("500")
    whole = lesson.page.evaluate("toposcope.whole")
    assert lesson.time() == pytest.approx(whole / 2, rel=1e-3)
    box = lesson.page.locator('[data-run="1"] .timeline canvas').bounding_box()
    assert box is not None
    lesson.page.locator('[data-run="1"] .timeline canvas').click(position={"x": box["width"] - 4, "y": 40})
    assert lesson.time() == pytest.approx(whole, rel=1e-2)


def test_links_glow_as_far_as_they_are_loaded(lesson: Opened) -> None:
    """In the push the server's own port is full, and each other port a seventh so; the ring fills all."""
    lesson.page.evaluate("toposcope.seek(0.05 * toposcope.whole)")
    load = (
        'number => [...document.querySelectorAll(`[data-run="${number}"] .stage g.connection path`)]'
        ".map(path => path.style.getPropertyValue('--load'))"
    )
    assert all(int(share.rstrip("%")) >= 80 for share in lesson.page.evaluate(load, 0))
    assert lesson.page.evaluate(load, 1) == ["100%", *["15%"] * 7]


def test_chunks_are_drawn_on_their_way(lesson: Opened) -> None:
    lesson.page.evaluate("toposcope.seek(0.05 * toposcope.whole)")
    painted = (
        "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(value => value)"
    )
    for number in (0, 1):
        canvas = lesson.page.locator(f'[data-run="{number}"] .stage canvas')
        assert canvas.evaluate(painted)


def test_a_slow_link_stalls_the_ring(browser: Browser, tmp_path: Path) -> None:
    from dataclasses import replace

    from topo.presets import preset

    machine = preset("dgx-h100")
    slow = tuple(
        replace(link, bandwidth_bytes_per_s=link.bandwidth_bytes_per_s / 8) if link.id == "GPU3->NVS0" else link
        for link in machine.links
    )
    text = page_of(*simulated(replace(machine, links=slow), ("ring",), (GIB,)))
    opened = Opened(browser, tmp_path / "slow.html", text)
    opened.page.evaluate("toposcope.seek(0.5 * toposcope.whole)")
    path = '.stage g[data-id="GPU{}->NVS0"] path'
    loads = [
        opened.page.locator(path.format(gpu)).evaluate("path => path.style.getPropertyValue('--load')")
        for gpu in (0, 3)
    ]
    assert loads[1] == "100%"
    assert int(loads[0].rstrip("%")) < 50
    assert opened.said == []
    opened.page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_are_readable_in_both_schemes(browser: Browser, tmp_path: Path, scheme: str) -> None:
    opened = Opened(browser, tmp_path / "x.html", made(), color_scheme=scheme)
    contrast = """selector => {
      const shade = (colour) => {
        const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map((value) => value / 255)
          .map((value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const ink = shade(getComputedStyle(document.querySelector(selector)).color);
      const paper = shade(getComputedStyle(document.body).backgroundColor);
      return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    }"""
    for selector in ("h1", ".lead", ".facts", ".now", "#results td", "dl.parameters dt"):
        assert opened.page.evaluate(contrast, selector) > 4.5, selector
    assert opened.said == []
    opened.page.close()


@pytest.mark.parametrize("machine", ["dgx-h100", "switch:64,bandwidth=200GB/s,latency=1us"])
def test_it_fits_a_narrow_screen(browser: Browser, tmp_path: Path, machine: str) -> None:
    opened = Opened(browser, tmp_path / "x.html", made(machine, ("ring",)))
    opened.page.set_viewport_size({"width": 380, "height": 800})
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 380
    opened.page.close()


WORDS = """() => {
  const sizes = [];
  for (const svg of document.querySelectorAll(".picture svg, .chart svg")) {
    const [view, box] = [svg.viewBox.baseVal, svg.getBoundingClientRect()];
    const scale = Math.min(box.width / view.width, box.height / view.height);
    for (const text of svg.querySelectorAll("text")) {
      if (text.getClientRects().length) sizes.push(scale * parseFloat(getComputedStyle(text).fontSize));
    }
  }
  return sizes;
}"""
"""How high the words of all pictures are on the screen, in CSS pixels."""

ON_CANVAS = """(() => {
  window.drawn = [];
  const draw = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (...what) {
    drawn.push(parseFloat(/([\\d.]+)px/.exec(this.font)[1]));
    return draw.apply(this, what);
  };
})()"""
"""Notes the size of all words that are drawn from now on."""

LEAST_WORDS_PX = 9

PICTURES = [
    ("dgx-h100", 1),
    ("dgx-h100", 4),
    ("dgx-h100", 16),
    ("pcie-8gpu", 2),
    ("gb200-nvl8", 1),
    ("rtxpro6000-2turin", 1),
    ("switch:64,bandwidth=200GB/s,latency=1us", 1),
]


@pytest.mark.parametrize("wide", [380, 1280, 1400])
@pytest.mark.parametrize(("machine", "nodes"), PICTURES)
def test_words_of_pictures_can_be_read(browser: Browser, tmp_path: Path, machine: str, nodes: int, wide: int) -> None:
    opened = Opened(browser, tmp_path / "x.html", made(machine, ("ring",), (MIB,), nodes))
    opened.page.evaluate(ON_CANVAS)
    opened.page.set_viewport_size({"width": wide, "height": 900})
    opened.page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    opened.page.evaluate("toposcope.seek(0.3 * toposcope.whole); toposcope.redraw()")
    words = opened.page.evaluate(WORDS)
    assert words
    assert min(words) >= LEAST_WORDS_PX
    assert min(opened.page.evaluate("drawn")) >= LEAST_WORDS_PX
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= wide
    for frame in opened.page.locator(".viewer").all():
        scrolls = frame.evaluate("it => it.scrollWidth > it.clientWidth || it.scrollHeight > it.clientHeight")
        assert frame.evaluate("it => !it.previousElementSibling.hidden") == scrolls
    assert opened.said == []
    opened.page.close()


def test_a_picture_that_is_scrolled_takes_its_chunks_along(browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, tmp_path / "x.html", made("dgx-h100", ("ring",), (MIB,), 4))
    opened.page.set_viewport_size({"width": 500, "height": 700})
    frame = opened.page.locator(".stage .viewer")
    for left in (0, 300):
        frame.evaluate(f"it => {{ it.scrollLeft = {left}; }}")
        assert frame.evaluate("it => it.scrollLeft") == left
        boxes = [opened.page.locator(f".stage {part}").bounding_box() for part in ("svg", "canvas")]
        assert boxes[0] == boxes[1]
    assert opened.said == []
    opened.page.close()


def test_a_wide_table_says_that_it_goes_on(browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, tmp_path / "lesson.html", made())
    hint = opened.page.locator("section:has(#results) .sideways")
    assert not hint.is_visible()
    opened.page.set_viewport_size({"width": 400, "height": 800})
    hint.wait_for(state="visible")
    assert "scroll the table sideways" in hint.inner_text()
    last = opened.page.locator("#results td").last
    last.scroll_into_view_if_needed()
    assert last.bounding_box()["x"] < 400  # type: ignore[index]
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 400
    assert opened.said == []


def test_it_prints_light_and_without_controls(browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, tmp_path / "x.html", made(), color_scheme="dark")
    pdf = opened.page.pdf(format="A4")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 4
    opened.page.emulate_media(media="print")
    assert not opened.page.is_visible("#play")
    assert opened.page.is_visible("#clock")
    assert opened.said == []
    opened.page.close()


def test_a_hostile_name_runs_nothing(browser: Browser, tmp_path: Path) -> None:
    text = page_of(*simulated(hostile(HOSTILE), ("ring",), (MIB,)))
    opened = Opened(browser, tmp_path / "x.html", text)
    opened.page.keyboard.press("ArrowRight")
    assert opened.page.locator("script").count() == 2
    assert opened.page.locator("img").count() == 0
    assert opened.page.locator("tbody th").first.inner_text().startswith("</script><script>alert(1)")
    assert opened.said == []
    opened.page.close()


def test_without_its_script_the_numbers_are_there(browser: Browser, tmp_path: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    file = tmp_path / "x.html"
    file.write_text(made())
    plain = context.new_page()
    plain.goto(file.as_uri())
    assert f"{document()['rows'][-1]['time_s'] * 1e6:,.2f}" in plain.inner_text("#results")
    assert "switched off" in plain.inner_text("noscript")
    context.close()


def test_it_opens_within_a_second(browser: Browser, tmp_path: Path) -> None:
    """The best of up to ten, since the machine is shared."""
    for _ in range(10):
        opened = Opened(browser, tmp_path / "x.html", made())
        opened_ms = opened.page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
        opened.page.close()
        if opened_ms < 1000:
            return
    pytest.fail(f"opened in {opened_ms:.0f} ms at last, expected less than 1000 ms once in ten times")


@pytest.mark.parametrize("machine", ["dgx-h100", STAR.replace("8", "64", 1)])
def test_it_draws_thirty_frames_in_a_second(browser: Browser, tmp_path: Path, machine: str) -> None:
    """By its faster frames, since the machine is shared."""
    opened = Opened(browser, tmp_path / "x.html", made(machine))
    frames_ms = opened.page.evaluate(
        "Array.from({length: 100}, (_, at) => { const from = performance.now();"
        " toposcope.seek((at + 1) / 101 * toposcope.whole); return performance.now() - from; })"
    )
    assert opened.said == []
    opened.page.close()
    assert sorted(frames_ms)[len(frames_ms) // 4] < 1000 / 30
