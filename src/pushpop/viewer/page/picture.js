// The interval picture on a canvas: symbols along the top, bands below, gates at the foot.

const SPACIOUS = 84; // pixels of a column that has room for numbers

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
        widthOf(view, t, t + 1) - 2 * inset, height);
    }
  }
}

function drawSymbol(context, symbol, hue, t, row, view, theme, right) {
  const x = xOf(view, t);
  const inset = view.column > 6 ? 1.5 : 0;
  const wrong = right === false;
  context.fillStyle = wrong ? theme.paper
    : hue === null ? theme.line : colourOf(hue, true, theme.dark);
  const width = widthOf(view, t, t + 1) - 2 * inset;
  if (view.column <= 10) {
    context.fillRect(x + inset, row.top, width, row.height);
    context.fillStyle = theme.wrong;
    if (wrong) context.fillRect(x + inset, row.top + row.height / 3, width, row.height / 3);
    return;
  }
  context.beginPath();
  context.roundRect(x + inset, row.top, width, row.height, 4);
  context.fill();
  if (wrong) {
    context.strokeStyle = theme.wrong;
    context.lineWidth = 1.5;
    context.stroke();
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
      const width = widthOf(view, t, t + 1) - 2 * inset;
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
