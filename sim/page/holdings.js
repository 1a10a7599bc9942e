"use strict";
// What every agent holds of each chunk: a table where it is small, a field of colours where it is large.

const MOST_IN_TABLE = 20;

function holdings(host, run) {
  const isSmall = run.num_chunks <= MOST_IN_TABLE && run.agents.length <= MOST_IN_TABLE;
  return isSmall ? new HoldingsTable(host, run) : new HoldingsField(host, run);
}

class HoldingsTable {
  constructor(host, run) {
    this.run = run;
    this.cells = [];
    const table = element("table");
    const head = table.createTHead().insertRow();
    const corner = element("th", "chunk");
    const longest = Math.max(...run.agents.map((name) => name.length));
    corner.style.width = `${Math.min(16, Math.max(5, 0.66 * longest + 1.5))}em`;
    head.append(corner);
    for (let chunk = 0; chunk < run.num_chunks; chunk++) {
      const title = element("th");
      title.scope = "col";
      const swatch = element("span");
      swatch.className = "swatch";
      title.style.setProperty("--chunk", chunkColour(chunk, run.num_chunks));
      title.append(swatch, String(chunk));
      head.append(title);
    }
    const body = table.createTBody();
    run.agents.forEach((name) => {
      const line = body.insertRow();
      const title = element("th", name);
      title.scope = "row";
      title.title = name;
      line.append(title);
      for (let chunk = 0; chunk < run.num_chunks; chunk++) {
        const cell = line.insertCell();
        cell.style.setProperty("--chunk", chunkColour(chunk, run.num_chunks));
        this.cells.push(cell);
      }
    });
    host.append(table);
  }

  draw(changed) {
    const slots = changed || this.cells.keys();
    for (const slot of slots) {
      const [cell, held] = [this.cells[slot], this.run.held[slot]];
      const total = this.run.total[slot % this.run.num_chunks] || 1;
      cell.textContent = held || "\u00b7";
      cell.style.setProperty("--fill", `${(100 * held) / total}%`);
      cell.classList.toggle("done", this.run.isDone(slot));
    }
  }
}

class HoldingsField {
  constructor(host, run) {
    this.run = run;
    this.canvas = element("canvas");
    this.canvas.setAttribute("role", "img");
    const shape = `${run.agents.length} rows of agents by ${run.num_chunks} columns of chunks`;
    this.canvas.setAttribute("aria-label", `${shape}, each filled as far as its sum has grown`);
    this.high = run.agents.length <= MOST_IN_TABLE ? 20 : Math.max(run.agents.length > 128 ? 1 : 5, Math.min(12, 640 / run.agents.length));
    this.canvas.style.height = `${this.high * run.agents.length}px`;
    host.append(this.canvas);
  }

  draw(changed) {
    if (changed && this.context) {
      for (const slot of changed) this.drawSlot(slot, true);
      return;
    }
    const { run, high } = this;
    const context = clear(this.canvas);
    this.context = context;
    this.left = 92;
    this.wide = (this.canvas.clientWidth - this.left) / run.num_chunks;
    this.drawNames(context, this.left, high);
    for (let slot = 0; slot < run.held.length; slot++) this.drawSlot(slot);
  }

  drawNames(context, left, high) {
    context.font = `${Math.min(11, Math.max(LEAST_WORDS, high - 2))}px system-ui, sans-serif`;
    context.textBaseline = "middle";
    const every = Math.ceil((LEAST_WORDS + 2) / high);
    context.fillStyle = getComputedStyle(this.canvas).color;
    context.textAlign = "right";
    this.run.agents.forEach((name, agent) => {
      if (agent % every) return;
      context.fillText(name, left - 6, agent * high + high / 2, left - 8);
    });
  }

  drawSlot(slot, isAgain = false) {
    const { run, context, high, left, wide } = this;
    const chunk = slot % run.num_chunks;
    const [x, y] = [left + chunk * wide, Math.floor(slot / run.num_chunks) * high];
    const [width, height] = [wide - (wide > 5 ? 1 : 0), high - (high > 3 ? 1 : 0)];
    const grown = run.held[slot] ? Math.max(1, (height * run.held[slot]) / (run.total[chunk] || 1)) : 0;
    if (isAgain) context.clearRect(x, y, width, height);
    context.fillStyle = chunkColour(chunk, run.num_chunks);
    context.globalAlpha = 0.14;
    context.fillRect(x, y, width, height);
    context.globalAlpha = run.isDone(slot) ? 1 : 0.5;
    context.fillRect(x, y + height - grown, width, grown);
    context.globalAlpha = 1;
  }
}

function element(name, text = "") {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}
