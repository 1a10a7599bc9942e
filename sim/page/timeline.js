"use strict";
// Who sends when, and how full each link is, over the time that all runs share.

const LABELS = 132;
const MOST_STRIPS = 16;
const WIDER_BEYOND = 20;

class Timeline {
  constructor(figure, run, whole, seek) {
    // A run that would be a hairline beside the longest is drawn wider, and says so.
    const times = whole / Math.max(run.duration_us, 1e-9);
    const isWider = times > WIDER_BEYOND;
    Object.assign(this, { run, whole: isWider ? run.duration_us : whole });
    if (isWider) {
      const said = ` Drawn ${Math.round(times)} times as wide as the longest run on this page.`;
      figure.querySelector("figcaption").append(said);
    }
    this.canvas = figure.querySelector("canvas");
    this.head = element("div");
    this.head.className = "head";
    figure.append(this.head);
    this.lane = run.agents.length > 128 ? Math.max(1, 640 / run.agents.length) : run.agents.length > 24 ? 7 : 15;
    this.strip = 13;
    this.strips = run.links.map((_, link) => link).sort((a, b) => run.links[b].mean - run.links[a].mean || a - b);
    this.strips = this.strips.slice(0, MOST_STRIPS);
    this.top = 18;
    this.below = this.top + this.lane * run.agents.length + 24;
    this.height = this.below + this.strip * this.strips.length + 4;
    this.canvas.style.height = `${this.height}px`;
    this.sublanes();
    const at = (event) => {
      const box = this.canvas.getBoundingClientRect();
      seek(((event.clientX - box.left - LABELS) / (box.width - LABELS)) * this.whole);
    };
    this.canvas.addEventListener("pointerdown", at);
    this.canvas.addEventListener("pointermove", (event) => event.buttons && at(event));
  }

  // Transfers that one agent sends at once stand above each other in its lane.
  sublanes() {
    const { rows, count } = this.run;
    const order = Array.from({ length: count }, (_, row) => row).sort((a, b) => rows.start[a] - rows.start[b] || a - b);
    const ends = this.run.agents.map(() => []);
    this.sub = new Uint16Array(count);
    for (const row of order) {
      const busy = ends[rows.src[row]];
      let place = busy.findIndex((end) => end <= rows.start[row] * (1 + 1e-9));
      if (place < 0) place = busy.length;
      busy[place] = rows.sent[row];
      this.sub[row] = place;
    }
    this.depth = ends.map((busy) => Math.max(1, busy.length));
  }

  x(time) {
    return LABELS + (time / this.whole) * (this.canvas.clientWidth - LABELS - 4);
  }

  draw() {
    const context = clear(this.canvas);
    const style = getComputedStyle(document.documentElement);
    const [ink, soft, band, wire, hot] = ["--ink", "--soft", "--band", "--wire", "--hot"].map((name) =>
      style.getPropertyValue(name).trim(),
    );
    context.textBaseline = "middle";
    this.drawPhases(context, band, soft);
    this.drawLanes(context, ink);
    this.drawStrips(context, ink, soft, wire, hot);
  }

  drawPhases(context, band, soft) {
    context.font = "11px system-ui, sans-serif";
    let free = 0;
    this.run.phases.forEach((phase, index) => {
      const [from, to] = [this.x(phase.start_us), this.x(phase.end_us)];
      context.fillStyle = band;
      if (index % 2 === 0) context.fillRect(from, 0, to - from, this.height);
      context.fillStyle = soft;
      context.textAlign = "left";
      const wide = context.measureText(phase.name).width;
      if (wide < to - from || index === this.run.phases.length - 1) {
        const left = Math.max(from + 3, free);
        context.fillText(phase.name, left, 8);
        free = left + wide + 12;
      }
    });
    context.fillRect(this.x(this.run.duration_us), 0, 1, this.height);
  }

  drawLanes(context, ink) {
    const { rows, count, agents } = this.run;
    context.font = `${Math.min(11, Math.max(LEAST_WORDS, this.lane - 3))}px system-ui, sans-serif`;
    context.textAlign = "right";
    context.fillStyle = ink;
    const every = Math.ceil((LEAST_WORDS + 2) / this.lane);
    agents.forEach((name, agent) => {
      if (agent % every === 0) context.fillText(name, LABELS - 6, this.top + (agent + 0.5) * this.lane, LABELS - 10);
    });
    for (let row = 0; row < count; row++) {
      const agent = rows.src[row];
      const tall = (this.lane - Math.min(2, this.lane / 4)) / this.depth[agent];
      const [from, to] = [this.x(rows.start[row]), this.x(rows.sent[row])];
      const y = this.top + agent * this.lane + this.sub[row] * tall;
      context.fillStyle = chunkColour(rows.chunk[row], this.run.num_chunks);
      context.fillRect(from, y, Math.max(to - from - 0.5, 0.7), Math.max(tall - 0.3, 0.5));
    }
  }

  drawStrips(context, ink, soft, wire, hot) {
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = soft;
    context.textAlign = "left";
    const all = this.run.links.length;
    const shown = this.strips.length < all ? `the ${this.strips.length} busiest of ${all} links` : "links";
    context.fillText(`load of ${shown}`, LABELS, this.below - 9);
    this.strips.forEach((link, place) => {
      const y = this.below + place * this.strip;
      context.fillStyle = ink;
      context.textAlign = "right";
      context.fillText(this.run.links[link].id, LABELS - 6, y + this.strip / 2, LABELS - 10);
      const levels = this.run.levels[link];
      context.fillStyle = wire;
      context.globalAlpha = 0.35;
      context.fillRect(this.x(0), y, this.x(this.run.duration_us) - this.x(0), this.strip - 2);
      context.fillStyle = hot;
      levels.forEach((level, bin) => {
        if (!level) return;
        // Whole pixels, so that neighbours neither overlap nor leave a gap.
        const each = this.run.duration_us / levels.length;
        const [from, to] = [bin, bin + 1].map((edge) => Math.round(this.x(edge * each)));
        context.globalAlpha = level / (DIGITS.length - 1);
        context.fillRect(from, y, to - from, this.strip - 2);
      });
      context.globalAlpha = 1;
    });
  }

  move(at) {
    const time = Math.min(at, this.whole);
    this.head.style.left = `${this.canvas.offsetLeft + this.x(time)}px`;
    this.head.style.height = `${this.height}px`;
  }
}
