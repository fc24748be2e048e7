// What a model that attends to its source looks at when it writes: a row a source symbol, below the
// memory.

const ATTENTION_TALLEST = 150;
const ATTENTION_NAMES = 9; // pixels of a row from which on it has a name

function attends(trace) {
  return trace.steps.some((step) => step.attention && step.attention.length);
}

function attentionHeight(trace) {
  return attends(trace) ? Math.min(16 * trace.source.length, ATTENTION_TALLEST) : 0;
}

// Where the source symbol's row is.
function attentionRow(trace, view, place) {
  const { top, height } = view.rows.attention;
  const tall = height / trace.source.length;
  return { top: top + place * tall, height: tall };
}

function drawAttention(context, trace, view, theme, first, last) {
  if (!view.rows.attention.height) return;
  const { top, height } = view.rows.attention;
  const start = trace.steps.findIndex((step) => step.output);
  context.fillStyle = theme.line;
  context.globalAlpha = 0.25;
  context.fillRect(xOf(view, start), top, (view.steps - start) * view.column, height);
  for (let t = Math.max(first, start); t < last; t += 1) {
    for (const [place, weight] of trace.steps[t].attention) {
      const row = attentionRow(trace, view, place);
      context.fillStyle = colourOf(hueOfSymbol(trace, trace.source[place]), true, theme.dark);
      context.globalAlpha = Math.min(1, 0.12 + 0.88 * weight);
      context.fillRect(xOf(view, t), row.top, widthOf(view, t, t + 1), Math.max(row.height - 0.5, 0.5));
    }
  }
  context.globalAlpha = 1;
  const tall = height / trace.source.length;
  if (tall < ATTENTION_NAMES) return;
  context.font = `${Math.min(12, tall)}px ${FONT}`;
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.fillStyle = theme.ink;
  trace.source.forEach((symbol, place) => {
    const row = attentionRow(trace, view, place);
    context.fillText(symbol, xOf(view, start) - 5, row.top + row.height / 2 + 0.5);
  });
}

// The largest weights at a step, for the list beside the picture.
function tellAttention(panel, step) {
  const { trace } = panel;
  const largest = [...step.attention].sort((a, b) => b[1] - a[1]).slice(0, 3);
  const line = make("p", { class: "sum attends" }, "attends to ");
  largest.forEach(([place, weight], k) => {
    line.append(k ? ", " : "",
      panel.chip(trace.source[place], hueOfSymbol(trace, trace.source[place])),
      ` (symbol ${place + 1}) ${decimals(weight)}`);
  });
  return line;
}
