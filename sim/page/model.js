"use strict";
// What is under way, and what every agent holds, at any time of one run. Times are microseconds.

const COPY = 0;
const DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

class Run {
  constructor(raw) {
    Object.assign(this, raw);
    const rows = raw.rows;
    this.count = rows.start.length;
    this.byLanding = Array.from({ length: this.count }, (_, row) => row).sort(
      (a, b) => rows.landed[a] - rows.landed[b] || a - b,
    );
    this.held = raw.begin.slice();
    this.position = 0;
    this.at = 0;
    this.levels = raw.links.map((link) => Uint8Array.from(link.load, (digit) => DIGITS.indexOf(digit)));
  }

  // The rows under way at a time.
  active(time) {
    const { start, landed } = this.rows;
    const found = [];
    for (let row = 0; row < this.count; row++) {
      if (start[row] <= time && time < landed[row]) found.push(row);
    }
    return found;
  }

  // Brings `held` to a time; returns the slots that changed, or null where all may have.
  hold(time) {
    let changed = [];
    if (time < this.at) {
      this.held = this.begin.slice();
      this.position = 0;
      changed = null;
    }
    this.at = time;
    const { landed, dst, chunk, op, value } = this.rows;
    while (this.position < this.count && landed[this.byLanding[this.position]] <= time) {
      const row = this.byLanding[this.position++];
      const slot = dst[row] * this.num_chunks + chunk[row];
      this.held[slot] = op[row] === COPY ? value[row] : this.held[slot] + value[row];
      if (changed) changed.push(slot);
    }
    return changed;
  }

  isDone(slot) {
    return this.wanted[slot] === "1" && this.held[slot] === this.total[slot % this.num_chunks];
  }

  // The share of a link's rate in use: at a time, or on average while nothing runs.
  load(link, time) {
    if (!(time > 0 && time < this.duration_us)) return this.links[link].mean;
    const levels = this.levels[link];
    const bin = Math.min(levels.length - 1, Math.floor((time / this.duration_us) * levels.length));
    return levels[bin] / (DIGITS.length - 1);
  }

  // A sentence on what happens.
  describe(time, active) {
    if (time <= 0) return "At rest. Links are coloured by their average load over the whole run.";
    if (time >= this.duration_us) return `Finished after ${duration(this.duration_us)}: ${this.result(time)}.`;
    if (!active.length) return time < this.first_us ? "Launching." : "Between two transfers.";
    const steps = active.map((row) => this.rows.step[row]);
    const [first, last] = [Math.min(...steps) + 1, Math.max(...steps) + 1];
    const step = first === last ? `Step ${first}` : `Steps ${first} to ${last}`;
    const under = active.length === 1 ? "1 transfer" : `${active.length} transfers`;
    const phases = this.phases.filter((phase) => active.some((row) => this.rows.op[row] === phase.op));
    const words = phases.map((phase) => `${phase.name}: ${phase.action}`).join("; ");
    return `${step} of ${this.num_steps}, ${words} (${under} under way).`;
  }

  result() {
    const done = this.held.filter((_, slot) => this.isDone(slot)).length;
    const wanted = [...this.wanted].filter((mark) => mark === "1").length;
    return done === wanted ? `every rank holds its result` : `${done} of ${wanted} results are there`;
  }
}

// The times at which something of any run lands, for stepping; those that no eye tells apart in any run are one.
function keyTimes(runs) {
  const near = Math.min(...runs.map((run) => run.duration_us)) * 1e-4;
  const all = runs.flatMap((run) => run.rows.landed.concat(run.duration_us)).sort((a, b) => a - b);
  const found = [];
  for (const time of all) {
    if (!found.length || time - found[found.length - 1] > near) found.push(time);
    else found[found.length - 1] = time;
  }
  return found;
}

function duration(microseconds) {
  if (!microseconds) return "0 us";
  const steps = [[1e6, "s"], [1e3, "ms"], [1, "us"]];
  const [size, unit] = steps.find(([each]) => microseconds >= each) || [1e-3, "ns"];
  return `${(microseconds / size).toPrecision(4)} ${unit}`;
}

function chunkColour(chunk, count) {
  // Neighbours differ in lightness too, so that they can be told apart without their hue.
  const hue = (25 + (360 * chunk) / Math.max(count, 1)) % 360;
  return `oklch(${chunk % 2 ? 0.68 : 0.78} 0.14 ${hue.toFixed(1)})`;
}
