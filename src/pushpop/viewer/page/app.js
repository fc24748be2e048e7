// Starts the page: one trace or several from the file, or the server's models and a playground.

class Workbench {
  constructor() {
    this.player = new Player();
    this.generated = null; // the pair that was generated last, as long as it is not edited
    this.asked = 0;
    this.build();
  }

  build() {
    this.model = make("select", { id: "model" });
    this.other = make("select", { id: "other" }, make("option", { value: "", text: "nothing" }));
    this.task = make("select", { id: "task" });
    this.length = make("input", { id: "length", type: "number", min: "1", max: "500", value: "12" });
    this.seed = make("input", { id: "seed", type: "number", min: "0", value: "0" });
    this.input = make("textarea", { id: "input", rows: "2", spellcheck: "false",
      autocapitalize: "off", autocomplete: "off", "aria-describedby": "hint" });
    this.hint = make("p", { id: "hint", class: "faint" });
    this.error = make("p", { id: "error", class: "error", role: "alert", hidden: "" });
    this.result = make("div", { class: "results" });
    const field = (label, input, kind = "") =>
      make("label", { class: `field ${kind}` }, make("span", { text: label }), input);
    this.form = make("form", { class: "workbench" },
      make("div", { class: "line" }, field("Model", this.model), field("Compare with", this.other),
        field("Task", this.task), field("Length", this.length, "short"),
        field("Seed", this.seed, "short"),
        make("button", { type: "button", id: "generate", text: "Generate",
          onclick: () => this.generate() })),
      make("div", { class: "line" }, field("Input, symbols separated by spaces", this.input, "long"),
        make("button", { type: "submit", id: "run", class: "main", text: "Trace" })),
      this.hint, this.error);
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.run();
    });
    this.input.addEventListener("input", () => { this.generated = null; });
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey) {
        event.preventDefault();
        this.run();
      }
    });
    this.model.addEventListener("change", () => this.choose());
    this.other.addEventListener("change", () => this.run());
    this.root = make("div", {}, this.form, this.result, this.player.root);
    this.player.root.hidden = true;
  }

  async start() {
    const listed = await this.ask("api/models");
    if (!listed) return;
    this.models = listed.models;
    for (const { name, memory } of this.models) {
      const text = `${name} (${memory === "none" ? "no memory" : memory})`;
      this.model.append(make("option", { value: name, text }));
      this.other.append(make("option", { value: name, text }));
    }
    for (const task of listed.tasks) this.task.append(make("option", { value: task, text: task }));
    this.length.max = String(listed.longest);
    if (!this.models.length) {
      this.say("This server has no models: start it with pushpop serve MODEL. " +
        "The playground works without one.");
      this.form.querySelectorAll("button, select, input, textarea")
        .forEach((control) => { control.disabled = true; });
      return;
    }
    await this.choose();
  }

  chosen() {
    return this.models.find(({ name }) => name === this.model.value);
  }

  // Another model: an input of its own task, unless the visitor has typed one that it can read.
  async choose() {
    const { task, symbols, example } = this.chosen();
    this.hint.textContent = `It knows ${plural(symbols, "symbol", "symbols")}, such as ${example}.`;
    if (task) {
      this.task.value = task;
      await this.generate();
    } else if (this.input.value) await this.run();
  }

  async generate() {
    const wanted = { task: this.task.value, length: Number(this.length.value),
      seed: Number(this.seed.value) };
    const pair = await this.ask("api/generate", wanted);
    if (!pair) return;
    this.input.value = pair.source.join(" ");
    this.generated = { ...pair, task: wanted.task };
    await this.run();
  }

  async run() {
    const mine = (this.asked += 1);
    const names = [...new Set([this.model.value, this.other.value].filter(Boolean))];
    const { generated } = this;
    const found = [];
    for (const model of names) {
      const { task } = this.models.find(({ name }) => name === model);
      // A model of another task is not wrong to give another answer.
      const target = generated && (!task || task === generated.task) ? generated.target : null;
      const trace = await this.ask("api/trace", { model, input: this.input.value, target });
      if (mine !== this.asked) return; // the visitor has asked for something else meanwhile
      if (!trace) return;
      found.push(trace);
    }
    this.say("");
    this.result.replaceChildren(...found.map((trace) => make("p", { class: "result" },
      make("span", { class: "who", text: found.length > 1 ? `${trace.model} writes ` : "writes " }),
      make("output", { text: trace.output.join(" ") || "nothing" }))));
    const old = this.player.panels;
    if (old.length === found.length) {
      old.forEach((panel, which) => panel.show(found[which]));
      this.player.refresh();
    } else this.player.setPanels(found.map((trace) => new Panel(trace)));
    this.player.root.hidden = false;
    old.forEach((panel) => panel.resize());
    const writing = Math.max(0, found[0].steps.findIndex((step) => step.output));
    this.player.goTo(writing);
  }

  async ask(address, body) {
    this.form.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(address, body && {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
      });
      const data = await answer.json();
      if (answer.ok) return data;
      this.say(data.error || `the server answered ${answer.status}`);
    } catch {
      this.say("The server does not answer: is pushpop serve still running?");
    } finally {
      this.form.removeAttribute("aria-busy");
    }
    return null;
  }

  say(text) {
    this.error.textContent = text;
    this.error.hidden = !text;
  }
}

function startServed(main) {
  const bench = new Workbench();
  const playground = new Playground();
  const pages = { models: bench.root, playground: playground.root };
  const nav = make("div", { class: "tabs", role: "tablist", "aria-label": "pages" });
  const open = (name) => {
    for (const tab of nav.children) {
      const mine = tab.dataset.page === name;
      tab.setAttribute("aria-selected", String(mine));
      tab.tabIndex = mine ? 0 : -1;
      pages[tab.dataset.page].hidden = !mine;
    }
    (name === "models" ? bench.player.panels : [playground.panel]).forEach((p) => p.resize());
  };
  for (const [name, text] of [["models", "Models"], ["playground", "Playground"]]) {
    const tab = make("button", { type: "button", role: "tab", id: `tab-${name}`, text,
      "aria-controls": `page-${name}`, onclick: () => { location.hash = name; open(name); } });
    tab.dataset.page = name;
    nav.append(tab);
    pages[name].id = `page-${name}`;
    pages[name].setAttribute("role", "tabpanel");
    pages[name].setAttribute("aria-labelledby", `tab-${name}`);
  }
  nav.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    const next = [...nav.children].find((tab) => tab.getAttribute("aria-selected") !== "true");
    next.focus();
    next.click();
  });
  main.append(nav, ...Object.values(pages));
  const fromAddress = () => open(location.hash === "#playground" ? "playground" : "models");
  addEventListener("hashchange", fromAddress);
  fromAddress();
  takeKeys(bench.player, () => !bench.root.hidden && !nav.contains(document.activeElement));
  takeKeys(playground.player, () => !playground.root.hidden && !nav.contains(document.activeElement));
  window.pushpop = { bench, playground, simulate, layOut, gateRows };
  bench.start();
}

function startTraces(main, traces) {
  const players = traces.map((trace) => {
    const player = new Player([new Panel(trace)]);
    const writing = trace.steps.findIndex((step) => step.output);
    player.goTo(Math.max(0, writing));
    const block = make("article", {}, player.root);
    if (trace.text) block.prepend(make("p", { class: "about", text: trace.text }));
    if (trace.title || traces.length === 1) player.panels[0].title.remove();
    if (trace.title) {
      block.prepend(make("h2", { text: trace.title }));
    }
    main.append(block);
    return player;
  });
  if (players.length === 1) takeKeys(players[0]);
  window.pushpop = { players, simulate, layOut, gateRows };
}

const given = JSON.parse(document.getElementById("data").textContent);
const main = document.querySelector("main");
if (given.traces) startTraces(main, given.traces);
else startServed(main);
