// The interval picture on a canvas: symbols along the top, bands below, gates at the foot.

const FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
const SPACIOUS = 84; // pixels of a column that has room for numbers

// Colours as the style sheet has them, so that light and dark are chosen in one place.
function readTheme(element) {
  const style = getComputedStyle(element);
  const get = (name) => style.getPropertyValue(name).trim();
  return {
    dark: get("--scheme") === "dark", ink: get("--ink"), soft: get("--soft"), line: get("--line"),
    paper: get("--paper"), push: get("--push"), pop: get("--pop"), wrong: get("--wrong"),
    focus: get("--focus"),
  };
}

// A symbol's colour: bright inside a read's window, pale outside; grey for what is no symbol.
function colourOf(hue, bright, dark) {
  const chroma = hue === null ? 0.005 : bright ? 0.14 : dark ? 0.06 : 0.05;
  const light = bright ? (dark ? 0.74 : 0.8) : dark ? 0.37 : 0.925;
  return `oklch(${light} ${chroma} ${hue ?? 0})`;
}

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
  const shown = trace.steps.flatMap((s) => [s.symbol, s.output ? s.output.symbol : ""]);
  const longest = Math.max(...shown.map((symbol) => context.measureText(symbol).width), 8);
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
const xOf = (view, t) => view.gutter + t * view.column - view.x;

function drawPicture(context, trace, layout, view, theme) {
  context.clearRect(0, 0, view.width, view.height);
  const first = Math.max(0, Math.floor(view.x / view.column) - 1);
  const last = Math.min(view.steps, Math.ceil((view.x + view.width) / view.column) + 1);
  context.save();
  context.beginPath();
  context.rect(view.gutter - 1, 0, view.width - view.gutter + 1, view.height);
  context.clip();
  if (trace.memory !== "none") {
    drawBands(context, trace, layout, view, theme, first, last);
    drawWindows(context, trace, layout, view, theme, first, last);
    if (view.column >= SPACIOUS) drawStrengths(context, trace, layout, view, theme);
    else drawNames(context, trace, layout, view, theme, first, last);
    drawGates(context, trace, view, theme, first, last);
  }
  drawSymbols(context, trace, view, theme, first, last);
  context.restore();
  drawGutter(context, trace, layout, view, theme);
}

function drawBands(context, trace, layout, view, theme, first, last) {
  const edge = view.unit > 3;
  for (const span of layout.spans) {
    if (span.until <= first || span.from >= last) continue;
    const x = xOf(view, span.from);
    const width = (span.until - span.from) * view.column;
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
        context.fillRect(x, y + gap, view.column + 0.3, Math.max(height - gap, 0.5));
      }
    }
  }
  // The outline of what the reads see: a line along the inner edge, and one along the memory's end.
  context.lineWidth = view.column > 8 && view.unit > 14 ? 1.5 : 0.75;
  context.strokeStyle = theme.ink;
  READ_ENDS[trace.memory].forEach((_, which) => {
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
      const seen = layout.windows[t].some((w) => w.parts.some((p) => p.cell === span.cell &&
        p.hi - p.lo > (span.hi - span.lo) / 2));
      context.fillStyle = theme.dark && seen ? "#14151a" : theme.ink;
      context.fillText(`${trace.cells[span.cell].symbol} ${span.strength.toFixed(2)}`,
        xOf(view, t + 0.5), yOf(view, layout, (span.lo + span.hi) / 2) + 0.5);
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
    const symbol = trace.cells[cell].symbol;
    if (context.measureText(symbol).width + 6 > xOf(view, end) - x) return;
    const inWindow = layout.windows[t].some((w) => w.parts.some((p) => p.cell === cell));
    context.fillStyle = theme.dark && inWindow ? "#14151a" : theme.ink;
    context.fillText(symbol, x, yOf(view, layout, (here.lo + here.hi) / 2) + 0.5);
  });
}

function drawSymbols(context, trace, view, theme, first, last) {
  for (let t = first; t < last; t += 1) {
    const step = trace.steps[t];
    const grey = step.part === "start" || step.part === "separator";
    drawSymbol(context, step.symbol, grey ? null : hueOfSymbol(trace, step.symbol), t, view.rows.input,
      view, theme, null);
    if (step.output) {
      const output = step.output;
      drawSymbol(context, output.symbol, hueOfSymbol(trace, output.symbol), t, view.rows.output, view,
        theme, output.right);
      const row = view.rows.chance;
      const height = Math.max(1, output.probability * row.height);
      context.fillStyle = output.right === false ? theme.wrong : theme.soft;
      const inset = view.column > 6 ? view.column * 0.2 : 0;
      context.fillRect(xOf(view, t) + inset, row.top + row.height - height,
        Math.max(view.column - 2 * inset, 1), height);
    }
  }
}

function drawSymbol(context, symbol, hue, t, row, view, theme, right) {
  const x = xOf(view, t);
  const inset = view.column > 6 ? 1.5 : 0;
  const wrong = right === false;
  context.fillStyle = wrong ? theme.paper
    : hue === null ? theme.line : colourOf(hue, true, theme.dark);
  context.beginPath();
  context.roundRect(x + inset, row.top, Math.max(view.column - 2 * inset, 1), row.height,
    view.column > 10 ? 4 : 0);
  context.fill();
  if (wrong) {
    context.strokeStyle = context.fillStyle = theme.wrong;
    context.lineWidth = 1.5;
    if (view.column > 10) context.stroke();
    else context.fillRect(x, row.top + row.height / 3, Math.max(view.column, 1), row.height / 3);
  }
  if (!view.text) return;
  context.fillStyle = wrong ? theme.wrong : hue === null ? theme.ink : "#14151a";
  context.font = `12px ${FONT}`;
  context.textBaseline = "middle";
  context.save();
  context.translate(x + view.column / 2, row.top + row.height / 2);
  if (view.turned) context.rotate(-Math.PI / 2);
  const room = (view.turned ? row.height : view.column) - 6;
  context.textAlign = "center";
  context.fillText(symbol, 0, 0.5, room);
  if (wrong) {
    const half = Math.min(room, context.measureText(symbol).width) / 2 + 2;
    context.fillRect(-half, -0.5, 2 * half, 1.5);
  }
  context.restore();
}

function drawGates(context, trace, view, theme, first, last) {
  const inset = view.column > 6 ? view.column * 0.2 : 0;
  for (const row of view.rows.gates) {
    const middle = row.top + row.height / 2;
    const half = row.height / 2 - 2;
    context.fillStyle = theme.line;
    context.fillRect(view.gutter, middle - 0.5, view.width, 1);
    for (let t = first; t < last; t += 1) {
      const step = trace.steps[t];
      const x = xOf(view, t) + inset;
      const width = Math.max(view.column - 2 * inset, 1);
      context.fillStyle = theme.push;
      context.fillRect(x, middle - 1 - step.push[row.end] * half, width, step.push[row.end] * half);
      context.fillStyle = theme.pop;
      context.fillRect(x, middle + 1, width, step.pop[row.end] * half);
    }
  }
}

function drawGutter(context, trace, layout, view, theme) {
  context.font = `11px system-ui, sans-serif`;
  context.textAlign = "right";
  context.textBaseline = "middle";
  const x = view.gutter - 7;
  const label = (text, y, colour) => {
    context.fillStyle = colour;
    context.fillText(text, x, y);
  };
  const { input, output, chance, memory, gates } = view.rows;
  label("in", input.top + input.height / 2, theme.soft);
  if (output) {
    label("out", output.top + output.height / 2, theme.soft);
    label("p", chance.top + chance.height - 6, theme.soft);
  }
  if (trace.memory === "none") return;
  const range = layout.high - layout.low;
  const stride = [1, 2, 5, 10, 20, 50, 100, 200, 500].find((s) => s * view.unit >= 22) || 1000;
  context.fillStyle = theme.line;
  for (let p = Math.ceil(layout.low / stride) * stride; p <= layout.high + 1e-9; p += stride) {
    const y = yOf(view, layout, p);
    label(String(p), y, theme.soft);
    context.fillStyle = theme.line;
    context.fillRect(view.gutter - 4, y - 0.5, 4, 1);
  }
  if (range > 0) context.fillRect(view.gutter - 1, memory.top, 1, memory.height);
  for (const row of gates) {
    label("push", row.top + row.height * 0.17, theme.push);
    if (row.name) label(row.name, row.top + row.height * 0.5, theme.soft);
    label("pop", row.top + row.height * 0.83, theme.pop);
  }
}

// What changes with every step or hover: the column of the step, its windows, a cell's outline.
function drawCursor(context, trace, layout, view, theme, t, chosen) {
  context.clearRect(0, 0, view.width, view.height);
  context.save();
  context.beginPath();
  context.rect(view.gutter - 2, 0, view.width - view.gutter + 2, view.height);
  context.clip();
  const x = xOf(view, t);
  const wide = Math.max(view.column, 2);
  if (chosen !== null && layout.lives[chosen]) {
    context.strokeStyle = theme.ink;
    context.lineWidth = 2;
    for (const span of layout.lives[chosen].spans) {
      context.strokeRect(xOf(view, span.from), yOf(view, layout, span.hi),
        (span.until - span.from) * view.column, Math.max((span.hi - span.lo) * view.unit, 1));
    }
  }
  context.fillStyle = theme.focus;
  context.globalAlpha = 0.1;
  context.fillRect(x, 0, wide, view.height);
  context.globalAlpha = 1;
  context.fillRect(x - 1, 0, 2, view.height);
  context.fillRect(x + wide - 1, 0, 2, view.height);
  for (const window of trace.memory === "none" ? [] : layout.windows[t]) {
    if (window.hi - window.lo < 1e-6) continue;
    context.strokeStyle = theme.ink;
    context.lineWidth = 3;
    context.strokeRect(x, yOf(view, layout, window.hi), wide,
      Math.max((window.hi - window.lo) * view.unit, 1));
  }
  context.restore();
}

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

function hueFor(trace, cell) {
  const { symbol, part } = trace.cells[cell];
  return part === "start" || part === "separator" ? null : hueOfSymbol(trace, symbol);
}

function hueOfSymbol(trace, symbol) {
  return Object.hasOwn(trace.hues, symbol) ? trace.hues[symbol] : null;
}
