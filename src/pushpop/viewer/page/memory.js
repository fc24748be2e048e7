// What pushes and pops do to cells: the equations for the playground, and where cells lie on the
// line of intervals.

// Take `amount` off the cells [{strength}] from one end, bottom to top in the list.
function pop(cells, end, amount) {
  const order = end === "top" ? [...cells].reverse() : cells;
  let passed = 0;
  for (const cell of order) {
    const before = cell.strength;
    cell.strength = Math.max(0, before - Math.max(0, amount - passed));
    passed += before;
  }
}

// How much of each cell lies within one unit of strength from an end: [[cell, weight]].
function readWeights(cells, end) {
  const order = end === "top" ? [...cells].reverse() : cells;
  const found = [];
  let passed = 0;
  for (const cell of order) {
    const weight = Math.min(cell.strength, Math.max(0, 1 - passed));
    if (weight > 0) found.push([cell.number, weight]);
    passed += cell.strength;
  }
  return found;
}

// A trace, as `pushpop trace` writes it, of a memory {memory, push_ends, read_ends} worked by hand:
// steps [{push, pop}], a number an end in each.
function simulate({ memory, push_ends, read_ends }, steps) {
  const cells = [];
  const told = [];
  let live = [];
  let bottom = 0;
  steps.forEach((step, t) => {
    const before = new Map(live.map((cell) => [cell.number, cell.strength]));
    read_ends.forEach((end, which) => {
      const held = total(live);
      pop(live, end, step.pop[which]);
      if (end === "bottom") bottom += held - total(live);
    });
    const changed = live
      .filter((cell) => cell.strength !== before.get(cell.number))
      .map((cell) => [cell.number, cell.strength]);
    live.filter((cell) => cell.strength === 0).forEach((cell) => { cells[cell.number].gone = t; });
    live = live.filter((cell) => cell.strength > 0);
    push_ends.forEach((end, which) => {
      const strength = step.push[which];
      const symbol = push_ends.length > 1 ? `${end[0]}${t + 1}` : `v${t + 1}`;
      const cell = { number: cells.length, strength };
      cells.push({ symbol, part: "source", step: t, end, strength, gone: null });
      changed.push([cell.number, strength]);
      if (strength === 0) return;
      if (end === "top") live.push(cell);
      else {
        live.unshift(cell);
        bottom -= strength;
      }
    });
    told.push({
      symbol: `v${t + 1}`, part: "source", gates: [...step.push, ...step.pop], push: step.push,
      pop: step.pop, places: [], bottom,
      top: bottom + total(live), changed, attention: [], output: null,
      reads: read_ends.map((end) => readWeights(live, end)),
    });
  });
  const hues = {};
  for (const one of [...cells, ...told.map((step, t) => ({ symbol: step.symbol, step: t }))]) {
    hues[one.symbol] = hueOf(one.step, steps.length);
  }
  const named = (sort, ends) => (ends.length > 1 ? ends.map((end) => `${sort} ${end}`) : [sort]);
  return {
    model: "", memory, picture: "intervals", note: "", push_ends, read_ends, reach: null,
    gate_names: [...named("push", push_ends), ...named("pop", read_ends)], task: null, source: [], target: null, output: [], finished: true,
    right: null, separators: [" ", " "], remark: "", steps: told, cells, hues,
  };
}

function total(cells) {
  return cells.reduce((sum, cell) => sum + cell.strength, 0);
}

// Blue for what came first, over green and yellow to pink for what came last.
function hueOf(place, count) {
  return (265 - (285 * place) / Math.max(1, count - 1) + 720) % 360;
}

// Where every cell lies: spans of time in which it did not change, and the windows of the reads.
function layOut(trace) {
  const spans = [];
  const open = new Map();
  const lives = trace.cells.map(() => ({ spans: [], reads: [] }));
  const windows = [];
  let low = 0;
  let high = 1;
  const pushEnds = trace.push_ends;
  const readEnds = trace.read_ends;
  trace.steps.forEach((step, t) => {
    const atTop = step.push[pushEnds.indexOf("top")] || 0;
    const atBottom = step.push[pushEnds.indexOf("bottom")] || 0;
    const cutTop = step.top - atTop;
    const cutBottom = step.bottom + atBottom;
    for (const [cell, strength] of step.changed) {
      const old = open.get(cell);
      let lo, hi;
      if (old) {
        old.until = t;
        lo = Math.max(old.lo, cutBottom);
        hi = Math.min(old.hi, cutTop);
      } else {
        const end = trace.cells[cell].end;
        lo = end === "top" ? cutTop : step.bottom;
        hi = end === "top" ? step.top : cutBottom;
      }
      if (strength === 0) {
        open.delete(cell);
        continue;
      }
      const span = { cell, from: t, until: trace.steps.length, lo, hi, strength };
      open.set(cell, span);
      spans.push(span);
      lives[cell].spans.push(span);
    }
    windows.push(step.reads.map((read, which) => {
      const end = readEnds[which];
      const edge = end === "top" ? step.top - 1 : step.bottom + 1;
      const parts = read.map(([cell, weight]) => {
        lives[cell].reads.push([t, end, weight]);
        const span = open.get(cell);
        const lo = end === "top" ? Math.max(span.lo, edge) : span.lo;
        const hi = end === "top" ? span.hi : Math.min(span.hi, edge);
        return { cell, lo, hi, weight };
      });
      const bounds = end === "top"
        ? [Math.max(step.bottom, edge), step.top] : [step.bottom, Math.min(step.top, edge)];
      return { end, parts, lo: bounds[0], hi: bounds[1] };
    }));
    low = Math.min(low, step.bottom);
    high = Math.max(high, step.top);
  });
  return { spans, lives, windows, low, high };
}
