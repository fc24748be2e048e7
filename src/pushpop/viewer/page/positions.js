// A memory with positions: at each lies a mixture of the values written. Every value's part is a
// band, as thick as it weighs. How they are drawn, found under the pointer and told of.

const NAMED = 0.5; // the weight from which on a symbol stands at a position
const OUTLINED = 0.1; // the weight from which on a chosen value is outlined
const FAINTEST = 0.01; // smaller weights are not in a trace
const LISTED = 13; // positions in the list beside the picture

const POSITIONS = {
  layOut: layOutPositions,

  draw(context, trace, layout, view, theme, first, last) {
    drawLines(context, layout, view, theme);
    drawMixtures(context, trace, layout, view, theme, first, last);
    context.strokeStyle = theme.ink;
    context.lineWidth = view.column > 8 && view.unit > 14 ? 1.5 : 0.75;
    context.globalAlpha = 0.75;
    context.strokeRect(xOf(view, 0), yOf(view, layout, 0.5), view.column * view.steps, view.unit);
    context.globalAlpha = 1;
    if (view.text) drawWeights(context, trace, layout, view, theme, first, last);
  },

  // What is read at a step, and wherever the chosen value is.
  drawCursor(context, layout, view, theme, t, chosen) {
    context.strokeStyle = theme.ink;
    if (chosen !== null && layout.lives[chosen.cell]) {
      context.lineWidth = 1.5;
      for (const part of layout.lives[chosen.cell]) {
        context.strokeRect(xOf(view, part.t), yOf(view, layout, part.hi),
          widthOf(view, part.t, part.t + 1), Math.max((part.hi - part.lo) * view.unit, 1));
      }
    }
    context.lineWidth = 3;
    context.strokeRect(xOf(view, t), yOf(view, layout, 0.5), Math.max(view.column, 2), view.unit);
  },

  // The position, and the value in it that is pointed at or else the largest.
  find(trace, layout, t, at) {
    const place = layout.steps[t].find(({ position }) => position === Math.round(at));
    if (!place) return null;
    const part = place.parts.find(({ lo, hi }) => lo <= at && at <= hi) || place.parts[0];
    return { t, position: place.position, cell: part ? part.cell : null };
  },

  legend(trace) {
    const { reach } = trace;
    const beyond = reach === null ? "" : `, and positions beyond ±${reach}`;
    return [make("span", {}, make("i", { class: "key read" }), "position 0, which is read"),
      make("span", {}, make("i", { class: "key held" }), "held, as thick as it weighs"),
      make("span", { text: `left out: weights below ${FAINTEST}${beyond}` })];
  },

  // What lies at a position, and where the value that is pointed at was written.
  tellChosen(panel, { position, cell }, t) {
    const { trace, layout } = panel;
    const place = layout.steps[t].find((one) => one.position === position);
    const lines = [
      `position ${signed(position)} after step ${t + 1}: ${panel.sum(shares(place))}` +
        `${place.rest >= 0.005 ? ` + ${decimals(place.rest)} of others` : ""}`,
    ];
    if (cell === null) return lines.map((text) => make("div", { text }));
    const { symbol, step, strength, gone } = trace.cells[cell];
    lines.push(`written at step ${step + 1} with weight ${decimals(strength)}`,
      gone === null ? "still there at the end" : `gone at step ${gone + 1}`,
      readsText(layout.reads[cell]));
    return [panel.chip(symbol, hueFor(trace, cell)), ...lines.map((text) => make("div", { text }))];
  },

  tell(panel, t) {
    const { trace } = panel;
    const all = panel.layout.steps[t];
    const near = [...all].sort((a, b) => Math.abs(a.position) - Math.abs(b.position))
      .slice(0, LISTED).sort((a, b) => b.position - a.position);
    const list = make("ol", { class: "cells places" }, ...near.map((place) => placeRow(panel, place, t)));
    if (all.length > near.length) {
      list.append(make("li", { class: "more", text: `… ${all.length - near.length} farther off …` }));
    }
    const text = all.length ? "Memory after the step, by position; 0 is read" : "The memory is empty";
    return make("div", { class: "memory" }, make("h3", { text }), list,
      make("p", { class: "sum" }, "read = ",
        make("code", { text: panel.sum(trace.steps[t].reads[0]) })));
  },
};

// Where every part of a mixture lies: position p is the line from p - 0.5 to p + 0.5, or a part of
// it that is as long as what lies there weighs.
function layOutPositions(trace) {
  const lives = trace.cells.map(() => []);
  const reads = trace.cells.map(() => []);
  let low = 0;
  let high = 0;
  const steps = trace.steps.map((step, t) => {
    step.reads[0].forEach(([cell, weight]) => reads[cell].push([t, "", weight]));
    return step.places.map(([position, total, found]) => {
      low = Math.min(low, position);
      high = Math.max(high, position);
      const scale = 1 / Math.max(1, total);
      let lo = position - 0.5;
      const parts = found.map(([cell, weight]) => {
        const part = { t, cell, weight, lo, hi: lo + weight * scale };
        lo = part.hi;
        if (weight >= OUTLINED) lives[cell].push(part);
        return part;
      });
      const rest = Math.max(0, total - found.reduce((sum, [, weight]) => sum + weight, 0));
      return { position, total, parts, rest, lo, hi: lo + rest * scale };
    });
  });
  return { steps, lives, reads, low: low - 0.5, high: high + 0.5 };
}

// A thin line under each position, where there is room for it.
function drawLines(context, layout, view, theme) {
  if (view.unit < 8) return;
  context.fillStyle = theme.line;
  for (let p = layout.low; p <= layout.high; p += 1) {
    context.fillRect(view.gutter, yOf(view, layout, p) - 0.5, view.width, 0.5);
  }
}

function drawMixtures(context, trace, layout, view, theme, first, last) {
  const colours = [false, true].map((bright) => [...trace.cells.keys()]
    .map((cell) => colourOf(hueFor(trace, cell), bright, theme.dark)));
  const grey = [false, true].map((bright) => colourOf(null, bright, theme.dark));
  const gap = view.unit > 14 ? 1.5 : 0; // above a position that is full
  for (let t = first; t < last; t += 1) {
    const x = xOf(view, t);
    const width = widthOf(view, t, t + 1) + (view.column > 8 ? 0.35 : 0);
    const band = (lo, hi, position, colour) => {
      const floor = yOf(view, layout, position - 0.5);
      const squeeze = (view.unit - gap) / view.unit;
      const top = floor - (hi - position + 0.5) * view.unit * squeeze;
      context.fillStyle = colour;
      context.fillRect(x, top, width, (hi - lo) * view.unit * squeeze);
    };
    for (const { position, parts, rest, lo, hi } of layout.steps[t]) {
      const bright = Number(position === 0);
      for (const part of parts) band(part.lo, part.hi, position, colours[bright][part.cell]);
      if (rest > 0) band(lo, hi, position, grey[bright]);
    }
  }
}

// The symbol of what makes most of a position, with its weight where there is room for it.
function drawWeights(context, trace, layout, view, theme, first, last) {
  context.textBaseline = "middle";
  context.textAlign = "center";
  for (let t = first; t < last; t += 1) {
    for (const { position, parts } of layout.steps[t]) {
      if (!parts.length || parts[0].weight < NAMED) continue;
      const { cell, weight, lo, hi } = parts[0];
      const height = (hi - lo) * view.unit;
      if (height < 10) continue;
      context.font = `${Math.min(12, height)}px ${FONT}`;
      const { symbol } = trace.cells[cell];
      const amount = view.column >= SPACIOUS ? ` ${weight.toFixed(2)}` : "";
      const room = view.column - 4 - context.measureText(amount).width;
      const text = `${view.column > 40 ? fitted(context, symbol, room) : symbol}${amount}`;
      if (context.measureText(text).width + 4 > view.column) continue;
      context.fillStyle = position === 0 && theme.dark ? ON_BRIGHT : theme.ink;
      context.fillText(text, xOf(view, t + 0.5), yOf(view, layout, (lo + hi) / 2) + 0.5);
    }
  }
}

// A position in the list: its number, what it is made of, how much that is.
function placeRow(panel, place, t) {
  const { trace, theme } = panel;
  const track = make("span", { class: "track mixed" });
  for (const { cell, weight } of place.parts) {
    const bar = make("span", { class: "bar" });
    const hue = hueFor(trace, cell);
    if (hue !== null) bar.style.background = colourOf(hue, true, theme.dark);
    bar.style.width = `${((100 * weight) / Math.max(1, place.total)).toFixed(2)}%`;
    track.append(bar);
  }
  const rest = make("span", { class: "bar others" });
  rest.style.width = `${((100 * place.rest) / Math.max(1, place.total)).toFixed(2)}%`;
  track.append(rest);
  const names = place.parts.slice(0, 2).map(({ cell }) => trace.cells[cell].symbol);
  const row = make("li", { class: place.position === 0 ? "seen" : "" },
    make("code", { text: signed(place.position) }), track,
    make("span", { class: "number", text: decimals(place.total) }),
    make("code", { text: names.join(" ") + (place.parts.length > 2 || place.rest >= 0.005 ? " …" : "") }));
  row.addEventListener("pointerenter", () => {
    panel.chosen = { t, position: place.position, cell: place.parts.length ? place.parts[0].cell : null };
    panel.mark();
  });
  row.addEventListener("pointerleave", () => { panel.chosen = null; panel.mark(); });
  return row;
}

function shares(place) {
  return place.parts.map(({ cell, weight }) => [cell, weight]);
}

// A position with a minus that is as wide as a figure.
function signed(position) {
  return position > 0 ? `+${position}` : String(position).replace("-", "−");
}
