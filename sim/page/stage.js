"use strict";
// The machine: links coloured by their load, and chunks on their way over them.

// Words are never smaller, in CSS pixels.
const LEAST_WORDS = 9;

class Stage {
  constructor(figure, run) {
    this.run = run;
    // A machine of too many parts has no picture.
    this.svg = figure && figure.querySelector("svg");
    if (!this.svg) return;
    this.canvas = figure.querySelector("canvas");
    this.paths = new Map();
    for (const group of this.svg.querySelectorAll("g.connection")) {
      const path = group.querySelector("path");
      if (path) this.paths.set(group.dataset.id, path);
    }
    this.strokes = new Map();
    run.links.forEach((link, index) => {
      const path = this.paths.get(link.stroke);
      if (path) this.strokes.set(path, [...(this.strokes.get(path) || []), index]);
    });
    this.boxes = new Map();
    for (const group of this.svg.querySelectorAll("g.device")) {
      const box = group.getBBox();
      if (!this.boxes.has(group.dataset.id)) {
        this.boxes.set(group.dataset.id, { x: box.x + box.width / 2, y: box.y + box.height / 2 });
      }
    }
    this.lines = new Map();
    this.shown = new Map();
  }

  draw(time, active) {
    if (!this.svg) return;
    for (const [path, links] of this.strokes) {
      const load = Math.round(20 * Math.min(1, Math.max(...links.map((link) => this.run.load(link, time))))) * 5;
      if (this.shown.get(path) !== load) {
        this.shown.set(path, load);
        path.style.setProperty("--load", `${load}%`);
      }
    }
    this.drawChunks(time, active);
  }

  drawChunks(time, active) {
    const view = this.svg.viewBox.baseVal;
    const place = this.svg.getBoundingClientRect();
    const around = this.canvas.getBoundingClientRect();
    const scale = Math.min(place.width / view.width, place.height / view.height);
    const context = clear(this.canvas);
    const left = place.left - around.left + (place.width - scale * view.width) / 2;
    const top = place.top - around.top + (place.height - scale * view.height) / 2;
    const numbered = active.length <= 64 && scale > 0.45;
    const side = numbered ? 22 * Math.min(1, Math.max(scale, 0.75)) : Math.max(5, 11 * scale);
    context.font = `700 ${Math.round(side * 0.5)}px system-ui, sans-serif`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (const row of active) {
      const { start, landed, chunk, value } = this.run.rows;
      const point = this.pointOn(row, (time - start[row]) / (landed[row] - start[row]));
      if (!point) continue;
      const [x, y] = [left + scale * (point.x - view.x), top + scale * (point.y - view.y)];
      context.fillStyle = chunkColour(chunk[row], this.run.num_chunks);
      context.strokeStyle = "#1f2328";
      context.beginPath();
      context.roundRect(x - side / 2, y - side / 2, side, side, side / 5);
      context.fill();
      if (numbered) {
        context.stroke();
        context.fillStyle = "#111";
        context.fillText(value[row], x, y + 0.5);
      }
    }
  }

  pointOn(row, share) {
    const { src, dst, route } = this.run.rows;
    const key = `${src[row]}:${dst[row]}`;
    if (!this.lines.has(key)) this.lines.set(key, this.line(src[row], dst[row], this.run.routes[route[row]]));
    const line = this.lines.get(key);
    if (!line) return null;
    let left = share * line.length;
    for (let part = 1; part < line.points.length; part++) {
      const [a, b] = [line.points[part - 1], line.points[part]];
      const long = Math.hypot(b.x - a.x, b.y - a.y);
      if (left <= long || part === line.points.length - 1) {
        const along = long ? Math.min(1, left / long) : 0;
        return { x: a.x + along * (b.x - a.x), y: a.y + along * (b.y - a.y) };
      }
      left -= long;
    }
    return line.points[0];
  }

  // The way of a transfer: from box to box along the strokes of its links, each in the direction that comes nearer.
  line(src, dst, route) {
    const begin = this.boxes.get(this.run.agent_ids[src]);
    const end = this.boxes.get(this.run.agent_ids[dst]);
    if (!begin) return null;
    const points = [];
    for (const link of route) {
      const path = this.paths.get(this.run.links[link].stroke);
      if (!path) continue;
      const along = samples(path);
      const here = points[points.length - 1] || begin;
      if (distance(here, along[along.length - 1]) < distance(here, along[0])) along.reverse();
      points.push(...along);
    }
    // Chunks leave and enter at the edges of boxes, so that names stay readable.
    if (!points.length) points.push(begin, end || begin);
    let length = 0;
    for (let part = 1; part < points.length; part++) length += distance(points[part - 1], points[part]);
    return { points, length };
  }
}

function samples(path) {
  const length = path.getTotalLength();
  const parts = /[CQA]/.test(path.getAttribute("d")) ? 12 : 1;
  return Array.from({ length: parts + 1 }, (_, part) => path.getPointAtLength((length * part) / parts));
}

function distance(a, b) {
  return Math.hypot(a.x - b.x, a.y - b.y);
}

// A canvas at the screen's own resolution, empty; all coordinates are CSS pixels.
function clear(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
  const context = canvas.getContext("2d");
  // A new size empties it too; on paper clearRect would wipe out what lies below the canvas.
  const isPrinted = document.documentElement.dataset.theme === "light";
  if (isPrinted || canvas.width !== width || canvas.height !== height) {
    [canvas.width, canvas.height] = [width, height];
  } else {
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, width, height);
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}
