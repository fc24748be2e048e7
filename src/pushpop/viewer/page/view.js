// Where everything goes on the canvas.

const FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";

// Sizes that follow from the width, the number of steps and the zoom.
function measure(trace, layout, width, zoom, context) {
  const gutter = trace.memory === "deque" ? 52 : 40;
  const steps = trace.steps.length;
  const room = width - gutter - 8;
  const fit = room / steps;
  const readable = fit >= 15 || steps > 120;
  const widest = widestColumn(steps);
  const column = Math.min(widest, Math.max(zoom || (readable ? fit : 22), Math.min(fit, widest)));
  context.font = `12px ${FONT}`;
  const shown = new Set(trace.steps.flatMap((s) => [s.symbol, s.output ? s.output.symbol : ""]));
  const longest = Math.max(8, ...[...shown].map((symbol) => context.measureText(symbol).width));
  const text = column >= 14;
  const turned = text && longest + 6 > column;
  const token = !text ? 12 : turned ? Math.min(longest, 92) + 12 : 22;
  const hasOutput = trace.steps.some((step) => step.output);
  const rows = { input: { top: 6, height: token } };
  let y = 6 + token + 4;
  if (hasOutput) {
    rows.output = { top: y, height: token };
    rows.chance = { top: y + token + 3, height: 16 };
    y += token + 3 + 16;
  }
  const range = layout.high - layout.low;
  const tallest = width < 600 ? 300 : 400;
  const unit = Math.min(widest * 0.85, tallest / Math.max(range, 1));
  const hasMemory = trace.memory !== "none";
  rows.memory = { top: y + 12, height: hasMemory ? range * unit : 0 };
  y = rows.memory.top + rows.memory.height + (hasMemory ? 14 : 0);
  rows.gates = gateRows(trace.memory).map((row) => {
    const placed = { ...row, top: y, height: 46 };
    y += 52;
    return placed;
  });
  return {
    gutter, column, fit, text, turned, rows, unit, width, height: y + 2, steps,
    total: gutter + column * steps + 8, x: 0,
  };
}

// Few steps may be drawn large.
function widestColumn(steps) {
  return Math.max(52, Math.min(130, 1000 / steps));
}

// What is drawn in the rows of gates: indices into a step's push and pop.
function gateRows(memory) {
  if (memory === "none") return [];
  if (memory !== "deque") return [{ name: "", end: 0 }];
  return [{ name: "top", end: 0 }, { name: "bottom", end: 1 }];
}

const yOf = (view, layout, position) =>
  view.rows.memory.top + (layout.high - position) * view.unit;
// Narrow columns begin and end on whole pixels, or their bars would shimmer.
const xOf = (view, t) => {
  const x = view.gutter + t * view.column - view.x;
  return view.column < 8 ? Math.round(x) : x;
};
const widthOf = (view, from, until) => Math.max(xOf(view, until) - xOf(view, from), 1);

// The cell under a point of the canvas, or null, and the step there.
function cellAt(trace, layout, view, px, py) {
  const t = Math.floor((px - view.gutter + view.x) / view.column);
  if (px < view.gutter || t < 0 || t >= view.steps) return { t: null, cell: null };
  const position = layout.high - (py - view.rows.memory.top) / view.unit;
  for (let i = layout.spans.length - 1; i >= 0; i -= 1) {
    const span = layout.spans[i];
    if (span.from <= t && t < span.until && span.lo <= position && position <= span.hi) {
      return { t, cell: span.cell };
    }
  }
  return { t, cell: null };
}
