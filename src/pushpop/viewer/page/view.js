// Where everything goes on the canvas.

const FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
const LABELS = "11px system-ui, sans-serif";

// Sizes that follow from the width, the number of steps and the zoom.
function measure(trace, layout, width, zoom, context, small) {
  const gates = gateRows(trace);
  context.font = LABELS;
  const labels = gates.flatMap((row) => [row.end, ...row.bars.map((bar) => bar.label)]);
  if (attends(trace)) labels.push("attention");
  const words = Math.max(0, ...labels.map((label) => context.measureText(label).width));
  const gutter = Math.min(120, Math.max(40, Math.ceil(words) + 12));
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
  const token = !text ? 12 : turned ? Math.min(longest, 130) + 12 : 22;
  const hasOutput = trace.steps.some((step) => step.output);
  const rows = { input: { top: 6, height: token } };
  let y = 6 + token + 4;
  if (hasOutput) {
    rows.output = { top: y, height: token };
    rows.chance = { top: y + token + 3, height: 16 };
    y += token + 3 + 16;
  }
  const range = layout.high - layout.low;
  const below = Math.max(240, Math.min(460, innerHeight - 540));
  const tallest = small ? 150 : width < 600 ? 260 : below; // most of it above the fold
  const unit = Math.min(widest * 1.3, tallest / Math.max(range, 1));
  const hasMemory = range > 0;
  rows.memory = { top: y + 12, height: hasMemory ? range * unit : 0 };
  y = rows.memory.top + rows.memory.height + (hasMemory ? 14 : 0);
  rows.gates = gates.map((row) => {
    const placed = { ...row, top: y, height: row.bars.length > 1 ? 46 : 24 };
    y += placed.height + 6;
    return placed;
  });
  rows.attention = { top: y + 6, height: attentionHeight(trace) };
  if (rows.attention.height) y += rows.attention.height + 12;
  return {
    gutter, column, fit, text, turned, rows, unit, width, height: y + 2, steps,
    total: gutter + column * steps + 8, x: 0,
  };
}

// Few steps may be drawn large.
function widestColumn(steps) {
  return Math.max(52, Math.min(230, 1000 / steps));
}

// What is drawn in the rows of gates, as `layout.gate_rows` in Python: push above pop for each end
// of a memory of intervals, else a row for each gate.
function gateRows(trace) {
  const bars = trace.gate_names.map((name, gate) =>
    ({ gate, name, label: name, sort: name.split(" ")[0], way: 1 }));
  if (trace.picture !== "intervals") return bars.map((bar) => ({ end: "", bars: [bar] }));
  const { push_ends, read_ends } = trace;
  const at = (end, ends, first, way) => {
    const which = ends.indexOf(end);
    if (which < 0) return [];
    const bar = bars[first + which];
    return [{ ...bar, label: bar.sort, way }];
  };
  const row = (pushed, popped, end) => ({ end, bars: [...at(pushed, push_ends, 0, 1),
    ...at(popped, read_ends, push_ends.length, -1)] });
  if (push_ends.length === 1 && read_ends.length === 1) return [row(push_ends[0], read_ends[0], "")];
  return [...new Set([...push_ends, ...read_ends])].map((end) => row(end, end, end));
}

// The colour of a gate: pushes and pops have one of their own.
const gateSort = (sort) => (sort === "push" || sort === "pop" ? sort : "soft");

const yOf = (view, layout, position) =>
  view.rows.memory.top + (layout.high - position) * view.unit;
// Narrow columns begin and end on whole pixels, or their bars would shimmer.
const xOf = (view, t) => {
  const x = view.gutter + t * view.column - view.x;
  return view.column < 8 ? Math.round(x) : x;
};
const widthOf = (view, from, until) => Math.max(xOf(view, until) - xOf(view, from), 1);

// As much of a text as there is room for.
function fitted(context, text, room) {
  const letter = context.measureText("m").width;
  const most = Math.floor(room / letter);
  return context.measureText(text).width <= room || most < 1 ? text : `${text.slice(0, most - 1)}…`;
}

// What is under a point of the canvas, or null, and the step there.
function pointAt(trace, layout, view, px, py) {
  const t = Math.floor((px - view.gutter + view.x) / view.column);
  if (px < view.gutter || t < 0 || t >= view.steps) return { t: null, found: null };
  const position = layout.high - (py - view.rows.memory.top) / view.unit;
  const inside = position >= layout.low && position <= layout.high;
  return { t, found: inside ? pictureOf(trace).find(trace, layout, t, position) : null };
}
