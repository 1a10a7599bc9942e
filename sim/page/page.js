"use strict";
// The clock that all runs share, and its controls.

const SECONDS_AT_SPEED_1 = 24;
const SECONDS_OF_SHORTEST = 3;
const MOST_SECONDS = 240;

class Panel {
  constructor(host, raw, whole, seek) {
    this.run = new Run(raw);
    this.stage = new Stage(host.querySelector(".stage"), this.run);
    this.holdings = holdings(host.querySelector("[data-part=holdings]"), this.run);
    this.timeline = new Timeline(host.querySelector(".timeline"), this.run, whole, seek);
    this.now = host.querySelector(".now");
    this.isFresh = true;
  }

  draw(time) {
    const active = this.run.active(time);
    const changed = this.run.hold(time);
    this.stage.draw(time, active);
    if (this.isFresh || changed === null || changed.length) this.holdings.draw(this.isFresh ? null : changed);
    if (this.isFresh) this.timeline.draw();
    this.timeline.move(time);
    this.sentence = this.run.describe(time, active);
    if (this.now.textContent !== this.sentence) this.now.textContent = this.sentence;
    this.isFresh = false;
  }
}

class Player {
  constructor(raw) {
    this.whole = Math.max(...raw.filter(Boolean).map((run) => run.duration_us), 1e-9);
    const hosts = [...document.querySelectorAll(".panel[data-run]")];
    this.panels = hosts.map((host) => new Panel(host, raw[host.dataset.run], this.whole, (time) => this.seek(time)));
    this.times = keyTimes(this.panels.map((panel) => panel.run));
    const ids = ["play", "back", "forward", "reset", "speed", "time", "clock", "slowdown", "said"];
    this.parts = Object.fromEntries(ids.map((id) => [id, document.getElementById(id)]));
    this.time = 0;
    this.isPlaying = false;
    this.listen();
    this.chooseSpeed();
    this.changeSpeed();
    this.draw();
  }

  listen() {
    const { play, back, forward, reset, speed, time } = this.parts;
    play.addEventListener("click", () => this.toggle());
    back.addEventListener("click", () => this.step(-1));
    forward.addEventListener("click", () => this.step(1));
    reset.addEventListener("click", () => this.seek(0));
    speed.addEventListener("change", () => this.changeSpeed());
    time.addEventListener("input", () => this.seek((time.value / 1000) * this.whole));
    document.addEventListener("keydown", (event) => this.key(event));
    window.addEventListener("resize", () => this.redraw());
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
    window.addEventListener("beforeprint", () => this.theme("light"));
    window.addEventListener("afterprint", () => this.theme(null));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const name = event.target instanceof Element ? event.target.tagName : "";
    if (name === "SELECT" || (name === "INPUT" && event.key !== " ")) return;
    if (event.key === " " && (name === "BUTTON" || name === "SUMMARY")) return;
    const does = {
      " ": () => this.toggle(),
      ArrowLeft: () => this.step(-1),
      ArrowRight: () => this.step(1),
      Home: () => this.seek(0),
      End: () => this.seek(this.whole),
      "+": () => this.changeSpeed(1),
      "-": () => this.changeSpeed(-1),
    }[event.key];
    if (does) {
      event.preventDefault();
      does();
    }
  }

  toggle() {
    if (this.isPlaying) return this.pause();
    if (this.time >= this.whole) this.time = 0;
    this.isPlaying = true;
    this.parts.play.textContent = "Pause";
    this.last = performance.now();
    requestAnimationFrame((now) => this.frame(now));
  }

  pause() {
    this.isPlaying = false;
    this.parts.play.textContent = "Play";
    this.say();
  }

  frame(now) {
    if (!this.isPlaying) return;
    // Time never runs backwards, nor leaps after the page was hidden.
    const passed = Math.min(Math.max(now - this.last, 0), 250) / 1000;
    this.last = Math.max(now, this.last);
    this.time = Math.min(this.whole, this.time + passed * this.perSecond);
    this.draw();
    if (this.time >= this.whole) return this.pause();
    requestAnimationFrame((next) => this.frame(next));
  }

  step(direction) {
    if (this.isPlaying) this.pause();
    const near = this.whole * 1e-9;
    const later = this.times.find((time) => time > this.time + near);
    const earlier = this.times.filter((time) => time < this.time - near).pop();
    this.seek(direction > 0 ? (later ?? this.whole) : (earlier ?? 0));
  }

  seek(time) {
    this.time = Math.min(this.whole, Math.max(0, time));
    this.draw();
    if (!this.isPlaying) this.say();
  }

  // The highest speed, up to 1, at which the shortest run still takes some seconds, and the longest no more than minutes.
  chooseSpeed() {
    const { speed } = this.parts;
    const shortest = Math.min(...this.panels.map((panel) => panel.run.duration_us)) / this.whole;
    const slow = (option) => (shortest * SECONDS_AT_SPEED_1) / Number(option.value) >= SECONDS_OF_SHORTEST;
    const bearable = (option) => Number(option.value) <= 1 && Number(option.value) * MOST_SECONDS >= SECONDS_AT_SPEED_1;
    const options = [...speed.options].filter(bearable);
    speed.value = (options.filter(slow).pop() ?? options[0]).value;
  }

  changeSpeed(by = 0) {
    const { speed, slowdown } = this.parts;
    speed.selectedIndex = Math.min(speed.length - 1, Math.max(0, speed.selectedIndex + by));
    this.perSecond = (this.whole / SECONDS_AT_SPEED_1) * Number(speed.value);
    slowdown.textContent = `1 s here is ${duration(this.perSecond)} of simulated time.`;
  }

  draw() {
    const { time, clock } = this.parts;
    for (const panel of this.panels) panel.draw(this.time);
    time.value = (1000 * this.time) / this.whole;
    clock.textContent = `${duration(this.time)} of ${duration(this.whole)}`;
    time.setAttribute("aria-valuetext", clock.textContent);
  }

  redraw() {
    for (const panel of this.panels) panel.isFresh = true;
    this.draw();
  }

  theme(name) {
    if (name) document.documentElement.dataset.theme = name;
    else delete document.documentElement.dataset.theme;
    this.redraw();
  }

  say() {
    const titles = [...document.querySelectorAll(".panel[data-run] h2")].map((title) => title.textContent);
    this.parts.said.textContent = this.panels.map((panel, index) => `${titles[index]}: ${panel.sentence}`).join(" ");
  }
}

// The hint above each table that is wider than the page, and above each picture that is larger than its frame.
function hintAtWhatScrolls() {
  for (const part of document.querySelectorAll(".scroll, .viewer")) {
    const isTall = part.className === "viewer" && part.scrollHeight > part.clientHeight;
    part.previousElementSibling.hidden = part.scrollWidth <= part.clientWidth && !isTall;
  }
}

window.addEventListener("resize", hintAtWhatScrolls);
document.addEventListener("toggle", hintAtWhatScrolls, true);
hintAtWhatScrolls();

const runs = JSON.parse(document.getElementById("data").textContent).runs;
if (runs.some(Boolean)) window.toposcope = new Player(runs);
