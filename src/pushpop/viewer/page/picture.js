// The picture on a canvas: symbols along the top, the memory below, gates at the foot.

const NO_PICTURE = {
  layOut: () => ({ low: 0, high: 0 }),
  draw: () => {},
  drawCursor: () => {},
  find: () => null,
  legend: (trace) => [make("span", { text: trace.note })],
};
const PICTURES = { none: NO_PICTURE, intervals: INTERVALS, positions: POSITIONS };

// How the trace's memory is drawn and told of.
function pictureOf(trace) {
  return PICTURES[trace.picture];
}

function drawPicture(context, trace, layout, view, theme) {
  context.clearRect(0, 0, view.width, view.height);
  const first = Math.max(0, Math.floor(view.x / view.column) - 1);
  const last = Math.min(view.steps, Math.ceil((view.x + view.width) / view.column) + 1);
  context.save();
  context.beginPath();
  context.rect(view.gutter - 1, 0, view.width - view.gutter + 1, view.height);
  context.clip();
  pictureOf(trace).draw(context, trace, layout, view, theme, first, last);
  drawGates(context, trace, view, theme, first, last);
  drawAttention(context, trace, view, theme, first, last);
  drawSymbols(context, trace, view, theme, first, last);
  context.restore();
  drawGutter(context, trace, layout, view, theme);
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
  context.fillStyle = wrong ? theme.wrong : hue === null ? theme.ink : ON_BRIGHT;
  context.font = `12px ${FONT}`;
  context.textBaseline = "middle";
  context.save();
  context.translate(x + view.column / 2, row.top + row.height / 2);
  if (view.turned) context.rotate(-Math.PI / 2);
  const room = (view.turned ? row.height : view.column) - 6;
  context.textAlign = "center";
  const shown = fitted(context, symbol, room);
  context.fillText(shown, 0, 0.5, room);
  if (wrong) {
    const half = Math.min(room, context.measureText(shown).width) / 2 + 2;
    context.fillRect(-half, -0.5, 2 * half, 1.5);
  }
  context.restore();
}

function drawGates(context, trace, view, theme, first, last) {
  const inset = view.column > 6 ? view.column * 0.2 : 0;
  for (const row of view.rows.gates) {
    const two = row.bars.some((bar) => bar.way < 0);
    const zero = two ? row.top + row.height / 2 : row.top + row.height - 1;
    const full = two ? row.height / 2 - 2 : row.height - 3;
    context.fillStyle = theme.line;
    context.fillRect(view.gutter, zero - 0.5, view.width, 1);
    for (const { gate, sort, way } of row.bars) {
      context.fillStyle = theme[gateSort(sort)];
      for (let t = first; t < last; t += 1) {
        const height = trace.steps[t].gates[gate] * full;
        context.fillRect(xOf(view, t) + inset, way > 0 ? zero - 1 - height : zero + 1,
          widthOf(view, t, t + 1) - 2 * inset, height);
      }
    }
  }
}

function drawGutter(context, trace, layout, view, theme) {
  context.font = LABELS;
  context.textAlign = "right";
  context.textBaseline = "middle";
  const x = view.gutter - 7;
  const label = (text, y, colour) => {
    context.fillStyle = colour;
    context.fillText(text, x, y, x - 4);
  };
  const { input, output, chance, memory, gates, attention } = view.rows;
  label("in", input.top + input.height / 2, theme.soft);
  if (output) {
    label("out", output.top + output.height / 2, theme.soft);
    label("p", chance.top + chance.height - 6, theme.soft);
  }
  for (const row of gates) {
    const two = row.bars.length > 1;
    for (const { label: text, sort, way } of row.bars) {
      label(text, row.top + row.height * (two ? 0.5 - 0.33 * way : 0.55), theme[gateSort(sort)]);
    }
    if (row.end) label(row.end, row.top + row.height * 0.5, theme.soft);
  }
  if (attention.height) label("attention", attention.top + attention.height / 2, theme.soft);
  if (layout.high <= layout.low) return;
  const stride = [1, 2, 5, 10, 20, 50, 100, 200, 500].find((s) => s * view.unit >= 22) || 1000;
  context.fillStyle = theme.line;
  for (let p = Math.ceil(layout.low / stride) * stride; p <= layout.high + 1e-9; p += stride) {
    const y = yOf(view, layout, p);
    label(String(p), y, theme.soft);
    context.fillStyle = theme.line;
    context.fillRect(view.gutter - 4, y - 0.5, 4, 1);
  }
  context.fillRect(view.gutter - 1, memory.top, 1, memory.height);
}

// What changes with every step or hover: the column of the step, what is read, what is pointed at.
function drawCursor(context, trace, layout, view, theme, t, chosen) {
  context.clearRect(0, 0, view.width, view.height);
  context.save();
  context.beginPath();
  context.rect(view.gutter - 2, 0, view.width - view.gutter + 2, view.height);
  context.clip();
  const x = xOf(view, t);
  const wide = Math.max(view.column, 2);
  context.fillStyle = theme.focus;
  context.globalAlpha = 0.1;
  context.fillRect(x, 0, wide, view.height);
  context.globalAlpha = 1;
  context.fillRect(x - 1, 0, 2, view.height);
  context.fillRect(x + wide - 1, 0, 2, view.height);
  pictureOf(trace).drawCursor(context, layout, view, theme, t, chosen);
  context.restore();
}
