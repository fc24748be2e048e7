// A memory of intervals: every value is a band, as thick as it is strong. How the bands are drawn,
// found under the pointer and told of.

const SPACIOUS = 84; // pixels of a column that has room for numbers
const NEAR = 6; // cells listed at either end of a deep memory

const INTERVALS = {
  layOut,

  draw(context, trace, layout, view, theme, first, last) {
    drawBands(context, trace, layout, view, theme, first, last);
    drawWindows(context, trace, layout, view, theme, first, last);
    if (view.column >= SPACIOUS) drawStrengths(context, trace, layout, view, theme);
    else drawNames(context, trace, layout, view, theme, first, last);
  },

  // The windows of the reads at a step, and the chosen cell's outline.
  drawCursor(context, layout, view, theme, t, chosen) {
    context.strokeStyle = theme.ink;
    if (chosen !== null && layout.lives[chosen]) {
      context.lineWidth = 2;
      for (const span of layout.lives[chosen].spans) {
        context.strokeRect(xOf(view, span.from), yOf(view, layout, span.hi),
          (span.until - span.from) * view.column, Math.max((span.hi - span.lo) * view.unit, 1));
      }
    }
    context.lineWidth = 3;
    for (const window of layout.windows[t]) {
      if (window.hi - window.lo < 1e-6) continue;
      context.strokeRect(xOf(view, t), yOf(view, layout, window.hi), Math.max(view.column, 2),
        Math.max((window.hi - window.lo) * view.unit, 1));
    }
  },

  // The cell at a step and a position, or null.
  find(trace, layout, t, position) {
    for (let i = layout.spans.length - 1; i >= 0; i -= 1) {
      const span = layout.spans[i];
      if (span.from <= t && t < span.until && span.lo <= position && position <= span.hi) {
        return span.cell;
      }
    }
    return null;
  },

  legend: () => [make("span", {}, make("i", { class: "key read" }), "in reach of a read"),
    make("span", {}, make("i", { class: "key held" }), "held"),
    make("span", {}, make("i", { class: "key push" }), "push"),
    make("span", {}, make("i", { class: "key pop" }), "pop")],

  tellChosen: tellCell,
  tell: tellCells,
};

function drawBands(context, trace, layout, view, theme, first, last) {
  const edge = view.unit > 3;
  for (const span of layout.spans) {
    if (span.until <= first || span.from >= last) continue;
    const x = xOf(view, span.from);
    const width = widthOf(view, span.from, span.until);
    const y = yOf(view, layout, span.hi);
    const height = (span.hi - span.lo) * view.unit;
    context.fillStyle = colourOf(hueFor(trace, span.cell), false, theme.dark);
    context.fillRect(x, y, width, Math.max(height, 0.5));
    if (edge && height > 3) {
      context.fillStyle = theme.paper;
      context.fillRect(x, y, width, Math.min(1, height / 5));
    }
  }
}

function drawWindows(context, trace, layout, view, theme, first, last) {
  const gap = view.column > 8 ? 0.5 : 0;
  for (let t = first; t < last; t += 1) {
    const x = xOf(view, t);
    for (const window of layout.windows[t]) {
      for (const part of window.parts) {
        const y = yOf(view, layout, part.hi);
        const height = (part.hi - part.lo) * view.unit;
        context.fillStyle = colourOf(hueFor(trace, part.cell), true, theme.dark);
        context.fillRect(x, y + gap, widthOf(view, t, t + 1) + 2 * gap / 3,
          Math.max(height - gap, 0.5));
      }
    }
  }
  // The outline of what the reads see: a line along the inner edge, and one along the memory's end.
  context.lineWidth = view.column > 8 && view.unit > 14 ? 1.5 : 0.75;
  context.strokeStyle = theme.ink;
  trace.read_ends.forEach((_, which) => {
    for (const side of ["lo", "hi"]) {
      context.beginPath();
      let before = null;
      for (let t = first; t < last; t += 1) {
        const window = layout.windows[t][which];
        if (window.hi - window.lo < 1e-6) {
          before = null;
          continue;
        }
        const y = yOf(view, layout, window[side]);
        if (before === null) context.moveTo(xOf(view, t), y);
        else context.lineTo(xOf(view, t), y);
        context.lineTo(xOf(view, t + 1), y);
        before = y;
      }
      context.globalAlpha = 0.75;
      context.stroke();
      context.globalAlpha = 1;
    }
  });
}

// Every cell's symbol and strength at every step, where there is room for it.
function drawStrengths(context, trace, layout, view, theme) {
  context.textBaseline = "middle";
  context.textAlign = "center";
  for (const span of layout.spans) {
    const height = (span.hi - span.lo) * view.unit;
    if (height < 11) continue;
    context.font = `${Math.min(13, height)}px ${FONT}`;
    for (let t = span.from; t < span.until; t += 1) {
      const amount = span.strength.toFixed(2);
      const room = view.column - 6 - context.measureText(` ${amount}`).width;
      const text = `${fitted(context, trace.cells[span.cell].symbol, room)} ${amount}`;
      const y = yOf(view, layout, (span.lo + span.hi) / 2) + 0.5;
      const bright = brightParts(layout, view, span.cell, t, t + 1);
      drawOnBands(context, text, xOf(view, t + 0.5), y, bright, theme);
    }
  }
}

// A band's symbol, where the band begins and where it is thick enough.
function drawNames(context, trace, layout, view, theme, first, last) {
  context.textBaseline = "middle";
  context.textAlign = "left";
  layout.lives.forEach((life, cell) => {
    const span = life.spans.find((s) => (s.hi - s.lo) * view.unit >= 10);
    if (!span) return;
    const end = life.spans[life.spans.length - 1].until;
    const x = Math.max(xOf(view, span.from) + 4, view.gutter + 4);
    const t = Math.max(span.from, Math.floor((x - view.gutter + view.x) / view.column));
    const here = life.spans.find((s) => s.from <= t && t < s.until);
    if (!here || end <= first || span.from >= last) return;
    const height = (here.hi - here.lo) * view.unit;
    if (height < 10) return;
    context.font = `${Math.min(12, height)}px ${FONT}`;
    const room = xOf(view, end) - x - 6;
    const whole = trace.cells[cell].symbol;
    const symbol = room > 40 ? fitted(context, whole, room) : whole;
    const wide = context.measureText(symbol).width;
    if (wide > room) return;
    const until = Math.min(view.steps, t + 1 + Math.ceil(wide / view.column));
    const bright = brightParts(layout, view, cell, t, until);
    drawOnBands(context, symbol, x, yOf(view, layout, (here.lo + here.hi) / 2) + 0.5, bright, theme);
  });
}

// Where a cell is in reach of a read, from one step up to another: [[x, y, width, height]].
function brightParts(layout, view, cell, from, until) {
  const found = [];
  for (let t = from; t < until; t += 1) {
    for (const window of layout.windows[t]) {
      for (const part of window.parts) {
        if (part.cell !== cell) continue;
        found.push([xOf(view, t), yOf(view, layout, part.hi), widthOf(view, t, t + 1),
          (part.hi - part.lo) * view.unit]);
      }
    }
  }
  return found;
}

// A label that can be read on both: dark on bright parts, and in the page's ink elsewhere.
function drawOnBands(context, text, x, y, bright, theme) {
  context.fillStyle = theme.ink;
  if (!theme.dark || !bright.length) {
    context.fillText(text, x, y);
    return;
  }
  context.save();
  for (const box of bright) { // everywhere but in these
    context.beginPath();
    context.rect(-1e4, -1e4, 3e4, 3e4);
    context.rect(...box);
    context.clip("evenodd");
  }
  context.fillText(text, x, y);
  context.restore();
  context.save();
  context.beginPath();
  for (const box of bright) context.rect(...box);
  context.clip();
  context.fillStyle = ON_BRIGHT;
  context.fillText(text, x, y);
  context.restore();
}

// The cells that have strength after a step, bottom to top.
function liveAt(layout, t) {
  const found = [];
  for (const span of layout.spans) {
    if (span.from <= t && t < span.until) found.push(span);
  }
  return found.sort((a, b) => a.lo - b.lo || a.cell - b.cell);
}

// A cell's token, its life and its reads.
function tellCell(panel, number, t) {
  const cell = panel.trace.cells[number];
  const life = panel.layout.lives[number];
  const span = t === null ? null : life.spans.find((s) => s.from <= t && t < s.until);
  const ends = panel.trace.push_ends.length > 1 ? ` at the ${cell.end}` : "";
  const lines = [
    `pushed at step ${cell.step + 1}${ends} with strength ${decimals(cell.strength)}`,
    span ? `${decimals(span.strength)} of it left after step ${t + 1}` : "",
    cell.gone === null ? "still there at the end" : `gone at step ${cell.gone + 1}`,
    readsText(life.reads),
  ];
  return [panel.chip(cell.symbol, hueFor(panel.trace, number)),
    ...lines.filter(Boolean).map((text) => make("div", { text }))];
}

function tellCells(panel, t) {
  const step = panel.trace.steps[t];
  const all = liveAt(panel.layout, t);
  const cells = all.filter((span) => span.strength >= 0.005).reverse();
  const hidden = all.length - cells.length;
  const weights = step.reads.map((read) => new Map(read));
  const ends = panel.trace.read_ends;
  const list = make("ol", { class: "cells" });
  const add = (span) => {
    const bar = make("span", { class: "bar" });
    bar.style.width = `${(100 * span.strength).toFixed(2)}%`;
    const hue = hueFor(panel.trace, span.cell);
    if (hue !== null) bar.style.background = colourOf(hue, true, panel.theme.dark);
    const reads = ends.flatMap((end, which) => {
      const weight = weights[which].get(span.cell);
      const name = ends.length > 1 ? end : "read";
      return weight >= 0.005 ? [make("span", { text: `${name} ${decimals(weight)}` })] : [];
    });
    const row = make("li", { class: reads.length ? "seen" : "" },
      make("code", { text: panel.trace.cells[span.cell].symbol }),
      make("span", { class: "track" }, bar),
      make("span", { class: "number", text: decimals(span.strength) }),
      make("span", { class: "read" }, ...reads));
    row.addEventListener("pointerenter", () => { panel.chosen = span.cell; panel.mark(); });
    row.addEventListener("pointerleave", () => { panel.chosen = null; panel.mark(); });
    list.append(row);
  };
  if (cells.length > 2 * NEAR + 1) {
    cells.slice(0, NEAR).forEach(add);
    list.append(make("li", { class: "more", text: `… ${cells.length - 2 * NEAR} more …` }));
    cells.slice(-NEAR).forEach(add);
  } else cells.forEach(add);
  const what = ends.length > 1 ? "Memory after the step, top first, and what is read of it"
    : "Memory after the step, top first";
  const text = cells.length ? what : "The memory is empty";
  const box = make("div", { class: "memory" }, make("h3", { text }), list);
  ends.forEach((end, which) => {
    const name = ends.length > 1 ? `read at the ${end}` : "read";
    box.append(make("p", { class: "sum" }, `${name} = `,
      make("code", { text: panel.sum(step.reads[which]) })));
  });
  if (hidden) {
    const kinds = plural(hidden, "cell", "cells");
    box.append(make("p", { class: "faint", text: `and ${kinds} thinner than 0.005` }));
  }
  return box;
}
