// A trace on the page: its heading, its picture, what happened at the chosen step, the numbers.

const ROWS = 2000; // of the table of numbers

class Panel {
  constructor(trace, { onstep, heading = "h2" } = {}) {
    this.onstep = onstep || (() => {});
    this.heading = heading;
    this.step = 0;
    this.chosen = null;
    this.zoom = 0;
    this.build();
    this.show(trace);
    const redraw = () => this.redraw();
    new ResizeObserver(() => this.resize()).observe(this.scroller);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  }

  build() {
    this.title = make(this.heading, { class: "title" });
    this.verdict = make("p", { class: "verdict" });
    this.target = make("p", { class: "target" });
    this.remark = make("p", { class: "remark" });
    this.picture = make("canvas", { class: "picture", role: "img" });
    this.cursor = make("canvas", { class: "cursor", "aria-hidden": "true" });
    this.spacer = make("div", { class: "spacer" });
    this.stage = make("div", { class: "stage" }, this.picture, this.cursor);
    this.scroller = make("div", { class: "scroller" }, this.stage, this.spacer);
    this.tip = make("div", { class: "tip", role: "tooltip", hidden: "" });
    const zoom = (text, label, act) =>
      make("button", { type: "button", class: "small", text, "aria-label": label, onclick: act });
    this.legend = make("div", { class: "legend" });
    this.marks = make("div", { class: "marks" });
    this.zoomBar = make("div", { class: "zoom" }, make("div", {}, this.legend, this.marks), make("span", { class: "buttons" },
      zoom("−", "narrower columns", () => this.setZoom(this.view.column / 1.5)),
      zoom("+", "wider columns", () => this.setZoom(Math.max(this.view.column * 1.5, 6))),
      zoom("fit", "fit the whole trace", () => this.setZoom(this.view.fit))));
    this.now = make("div", { class: "now" });
    this.table = make("details", { class: "numbers", ontoggle: () => this.fillTable() },
      make("summary", { text: "The numbers as a table" }), make("div", { class: "table" }));
    this.root = make("section", { class: "panel" },
      make("header", {}, this.title, this.verdict, this.target, this.remark),
      make("div", { class: "split" },
        make("div", { class: "canvases" }, this.scroller, this.tip, this.zoomBar), this.now),
      this.table);
    this.listen();
  }

  listen() {
    const at = (event) => {
      const box = this.stage.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top];
      return { x, y, ...pointAt(this.trace, this.layout, this.view, x, y) };
    };
    let scrubbing = false;
    this.stage.addEventListener("pointerdown", (event) => {
      const found = at(event);
      if (found.t === null || event.button > 0) return;
      scrubbing = event.pointerType === "mouse";
      this.onstep(found.t);
      this.choose(found.found, found.x, found.y, found.t);
    });
    this.stage.addEventListener("pointermove", (event) => {
      if (event.pointerType !== "mouse") return;
      const found = at(event);
      if (scrubbing && event.buttons && found.t !== null) this.onstep(found.t);
      this.choose(found.found, found.x, found.y, found.t);
    });
    this.stage.addEventListener("pointerup", () => { scrubbing = false; });
    this.stage.addEventListener("pointerleave", (event) => {
      scrubbing = false;
      if (event.pointerType === "mouse") this.choose(null);
    });
    this.scroller.addEventListener("scroll", () => {
      this.view.x = this.scroller.scrollLeft;
      this.choose(null);
      this.redraw();
    });
  }

  show(trace) {
    this.trace = trace;
    this.layout = pictureOf(trace).layOut(trace);
    this.step = Math.min(this.step, trace.steps.length - 1);
    this.chosen = null;
    const memory = trace.memory === "none" ? "no memory" : trace.memory;
    this.title.textContent = trace.title || trace.model || `a ${memory}`;
    this.describe();
    this.resize();
    if (this.table.open) this.fillTable();
  }

  describe() {
    const { trace } = this;
    const scored = trace.steps.filter((step) => step.output && step.output.right !== null);
    const symbols = plural(trace.source.length || trace.output.length, "symbol", "symbols");
    const first = trace.model ? [trace.memory === "none" ? "no memory" : trace.memory, symbols] : [];
    if (trace.number) first.unshift(trace.number);
    if (trace.task) first.unshift(trace.task);
    const state = trace.right === null ? "" : trace.right ? "right" : "wrong";
    this.verdict.replaceChildren(make("span", { text: first.join(" · ") }));
    if (state) this.verdict.append(make("strong", { class: state, text: this.judgement(scored) }));
    if (!trace.finished) this.verdict.append(make("span", { text: "cut off: too long" }));
    this.verdict.hidden = !this.verdict.textContent;
    this.target.hidden = trace.right !== false;
    const text = trace.right === false ? trace.target.join(trace.separators[1]) || "nothing" : "";
    this.target.textContent = text && `expected: ${text}`;
    this.remark.textContent = trace.remark || "";
    this.remark.hidden = !trace.remark;
    this.picture.setAttribute("aria-label",
      `What the memory of ${trace.model || "this playground"} holds after each of ` +
      `${plural(trace.steps.length, "step", "steps")}; the table below has the numbers`);
    this.legend.replaceChildren(...pictureOf(trace).legend(trace));
    this.marks.replaceChildren(...explain(trace));
  }

  // Whether the answer is right, and where it first is not.
  judgement(scored) {
    const { trace } = this;
    if (trace.right) return "✓ all right";
    const wrong = scored.filter((step) => !step.output.right);
    if (!wrong.length) return "✗ wrong: it does not end where it should";
    const place = scored.indexOf(wrong[0]) + 1;
    const { symbol, expected } = wrong[0].output;
    return `✗ ${wrong.length} of ${plural(scored.length, "symbol", "symbols")} wrong, the first is ` +
      `number ${place} (step ${trace.steps.indexOf(wrong[0]) + 1}): ${symbol} for ${expected}`;
  }

  setZoom(column) {
    const middle = (this.step + 0.5) * column - this.view.width / 2;
    const widest = widestColumn(this.view.steps);
    this.zoom = Math.min(widest, Math.max(column, Math.min(this.view.fit, widest)));
    this.resize();
    this.scroller.scrollLeft = middle;
  }

  resize() {
    const width = this.scroller.clientWidth;
    if (!width) return;
    const context = this.picture.getContext("2d");
    const x = this.scroller.scrollLeft;
    const small = width < 600 && Boolean(this.root.closest(".two"));
    this.view = measure(this.trace, this.layout, width, this.zoom, context, small);
    this.view.x = Math.max(0, Math.min(x, this.view.total - width));
    const scale = devicePixelRatio || 1;
    for (const canvas of [this.picture, this.cursor]) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(this.view.height * scale);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${this.view.height}px`;
      canvas.getContext("2d").setTransform(scale, 0, 0, scale, 0, 0);
    }
    this.stage.style.width = `${width}px`;
    this.stage.style.height = `${this.view.height}px`;
    this.spacer.style.width = `${this.view.total}px`;
    const scrolls = this.view.total > width + 1;
    this.scroller.classList.toggle("scrolls", scrolls);
    if (scrolls) this.scroller.setAttribute("tabindex", "-1");
    this.redraw();
  }

  redraw() {
    if (!this.view) return;
    const start = performance.now();
    this.theme = readTheme(this.root);
    drawPicture(this.picture.getContext("2d"), this.trace, this.layout, this.view, this.theme);
    this.drawn = performance.now() - start;
    this.mark();
    this.tell();
  }

  mark() {
    drawCursor(this.cursor.getContext("2d"), this.trace, this.layout, this.view, this.theme,
      this.step, this.chosen);
  }

  goTo(step) {
    this.step = Math.max(0, Math.min(step, this.trace.steps.length - 1));
    if (!this.view) return;
    const { column, gutter, width, total } = this.view;
    if (total > width + 1) {
      const left = this.step * column;
      const scroll = this.scroller.scrollLeft;
      if (left < scroll) this.scroller.scrollLeft = Math.max(0, left - width / 3);
      else if (left + 3 * column > scroll + width - gutter - 8) { // shows what comes next
        this.scroller.scrollLeft = left - width / 2;
      }
    }
    this.mark();
    this.tell();
  }

  choose(chosen, x = 0, y = 0, t = null) {
    if (chosen === null && this.chosen === null) return;
    this.chosen = chosen;
    this.mark();
    this.tip.hidden = chosen === null;
    if (chosen === null) return;
    this.tip.replaceChildren(...pictureOf(this.trace).tellChosen(this, chosen, t));
    const room = this.scroller.clientWidth;
    const wide = Math.min(260, room - 16);
    this.tip.style.maxWidth = `${wide}px`;
    const left = Math.max(4, Math.min(x + 14, room - this.tip.offsetWidth - 4));
    const high = this.tip.offsetHeight;
    this.tip.style.left = `${left}px`;
    this.tip.style.top = `${y + 18 + high > this.view.height ? Math.max(0, y - high - 12) : y + 18}px`;
  }

  chip(symbol, hue) {
    const chip = make("b", { class: "chip", text: symbol });
    if (hue !== null) chip.style.background = colourOf(hue, true, this.theme.dark);
    else chip.classList.add("grey");
    return chip;
  }

  tell() {
    const { trace } = this;
    const t = this.step;
    const step = trace.steps[t];
    const grey = step.part === "start" || step.part === "separator";
    const line = make("p", { class: "what" },
      make("span", { class: "count", text: `Step ${t + 1} of ${trace.steps.length}` }));
    if (trace.model) {
      line.append(" reads ", this.chip(step.symbol, grey ? null : hueOfSymbol(trace, step.symbol)));
    }
    const parts = [line];
    if (step.output) parts.push(this.tellOutput(step.output));
    if (step.attention && step.attention.length) parts.push(tellAttention(this, step));
    if (step.gates.length) parts.push(this.tellGates(step));
    if (trace.picture !== "none") parts.push(pictureOf(trace).tell(this, t));
    this.now.replaceChildren(...parts);
  }

  tellOutput(output) {
    const box = make("div", { class: "output" });
    const said = make("p", { class: "what" }, "writes ",
      this.chip(output.symbol, hueOfSymbol(this.trace, output.symbol)),
      ` with probability ${percent(output.probability)}`);
    if (output.right === null && output.expected !== null) {
      said.append("; what comes is ",
        this.chip(output.expected, hueOfSymbol(this.trace, output.expected)));
    } else if (output.right === false) {
      said.append(make("strong", { class: "wrong", text: " ✗ expected " }),
        this.chip(output.expected, hueOfSymbol(this.trace, output.expected)));
    }
    const list = make("ol", { class: "best", "aria-label": "the likeliest symbols" });
    for (const [symbol, probability] of output.best) {
      const bar = make("span", { class: "bar" });
      bar.style.width = `${(100 * probability).toFixed(2)}%`;
      list.append(make("li", {}, make("code", { text: symbol }),
        make("span", { class: "track" }, bar),
        make("span", { class: "number", text: percent(probability) })));
    }
    box.append(said, list);
    return box;
  }

  tellGates(step) {
    const list = make("dl", { class: "gates" });
    for (const { gate, name, sort } of gateRows(this.trace).flatMap((row) => row.bars)) {
      const amount = step.gates[gate];
      const bar = make("span", { class: `bar ${gateSort(sort)}` });
      bar.style.width = `${100 * amount}%`;
      list.append(make("dt", { text: name.replace(" ", ", ") }),
        make("dd", {}, make("span", { class: "track" }, bar),
          make("span", { class: "number", text: decimals(amount, 3) })));
    }
    return list;
  }

  // A read as the sum that it is: "0.90 v3 + 0.10 v1".
  sum(read) {
    const parts = read.filter(([, weight]) => weight >= 0.005).sort((a, b) => b[1] - a[1]);
    const shown = parts.slice(0, 2 * NEAR)
      .map(([cell, weight]) => `${decimals(weight)} ${this.trace.cells[cell].symbol}`);
    if (parts.length > shown.length) shown.push("…");
    return shown.join(" + ") || "0";
  }

  fillTable() {
    if (!this.table.open) return;
    const { trace } = this;
    const bars = gateRows(trace).flatMap((row) => row.bars);
    const reads = trace.steps[0].reads.map((_, which) =>
      (trace.read_ends.length ? `read at the ${trace.read_ends[which]}` : "read"));
    const heads = ["step", "reads", ...bars.map((bar) => bar.name), ...reads, "writes", "p"];
    const body = make("tbody");
    trace.steps.slice(0, ROWS).forEach((step, t) => {
      const gates = bars.map((bar) => decimals(step.gates[bar.gate], 3));
      const out = step.output
        ? [step.output.symbol + (step.output.right === false ? " ✗" : ""),
          percent(step.output.probability)] : ["", ""];
      const row = [String(t + 1), step.symbol, ...gates, ...step.reads.map((read) => this.sum(read)), ...out];
      body.append(make("tr", {}, ...row.map((text) => make("td", { text }))));
    });
    const head = make("tr", {}, ...heads.map((text) => make("th", { scope: "col", text })));
    this.table.lastChild.replaceChildren(make("table", {}, make("thead", {}, head), body));
  }

  // One line about the step, for those who listen.
  sentence() {
    const step = this.trace.steps[this.step];
    const wrote = step.output ? `, writes ${step.output.symbol}` : "";
    return `step ${this.step + 1}, reads ${step.symbol}${wrote}`;
  }
}
