// A memory without a model: sliders push and pop, and the picture follows.

const MOST_STEPS = 40;
// The paper's memories, each with gates to start with: steps of [push, pop], a number an end.
const PLAYABLE = [
  { memory: "stack", push_ends: ["top"], read_ends: ["top"],
    example: [[[0.8], [0]], [[0.5], [0.1]], [[0.9], [0.9]]],
    note: "It starts with the example of the paper's figure 1(a)." },
  { memory: "queue", push_ends: ["top"], read_ends: ["bottom"],
    example: [[[0.8], [0]], [[0.5], [0.1]], [[0.9], [0.9]]],
    note: "The gates of figure 1(a), on a queue." },
  { memory: "deque", push_ends: ["top", "bottom"], read_ends: ["top", "bottom"],
    example: [[[0.8, 0.3], [0, 0]], [[0.5, 0.6], [0.1, 0]], [[0.9, 0.2], [0.9, 0.5]]],
    note: "Both ends at work." },
];

class Playground {
  constructor() {
    [this.played] = PLAYABLE;
    this.panel = new Panel(simulate(this.played, [{ push: [0], pop: [0] }]));
    this.player = new Player([this.panel]);
    this.build();
    this.reset();
  }

  build() {
    const kinds = make("fieldset", { class: "kinds" }, make("legend", { text: "Memory" }));
    for (const one of PLAYABLE) {
      const radio = make("input", { type: "radio", name: "kind", value: one.memory });
      radio.checked = one === this.played;
      radio.addEventListener("change", () => { this.played = one; this.reset(); });
      kinds.append(make("label", {}, radio, one.memory));
    }
    const button = (text, act) => make("button", { type: "button", text, onclick: act });
    this.add = button("Add a step", () => {
      const ends = this.steps[0].push.length;
      this.steps.push({ push: Array(ends).fill(0.7), pop: Array(ends).fill(0.2) });
      this.list(this.steps.length - 1);
    });
    this.remove = button("Remove the last", () => { this.steps.pop(); this.list(); });
    this.rows = make("ol", { class: "sliders" });
    this.note = make("p", { class: "faint" });
    this.root = make("div", { class: "playground" },
      make("div", { class: "controls" },
        make("p", {}, "Push and pop by hand: every step first pops, then pushes a value, then reads ",
          "what lies within one unit of strength from the end. Bands are values, as thick as they ",
          "are strong."),
        make("div", { class: "line" }, kinds),
        make("div", { class: "line" }, this.add, this.remove,
          button("Start again", () => this.reset()),
          button("At random", () => this.scramble())),
        this.note, this.rows),
      this.player.root);
  }

  reset() {
    const { example, note } = this.played;
    this.steps = example.map(([push, pop]) => ({ push: [...push], pop: [...pop] }));
    this.note.textContent = note;
    this.list();
  }

  scramble() {
    const ends = this.steps[0].push.length;
    const draw = () => Array.from({ length: ends }, () => Math.round(Math.random() * 20) / 20);
    this.steps = Array.from({ length: Math.max(this.steps.length, 8) },
      () => ({ push: draw(), pop: draw().map((u) => u / 2) }));
    this.note.textContent = "";
    this.list();
  }

  list(chosen = this.steps.length - 1) {
    this.add.disabled = this.steps.length >= MOST_STEPS;
    this.remove.disabled = this.steps.length <= 1;
    this.rows.replaceChildren(...this.steps.map((step, t) => {
      const row = make("li", {}, make("span", { class: "count", text: `${t + 1}` }));
      ["top", "bottom"].slice(0, step.push.length).forEach((end, which) => {
        for (const gate of ["pop", "push"]) row.append(this.slider(step, gate, which, end, t));
      });
      return row;
    }));
    this.rows.classList.toggle("wide", this.played.push_ends.length > 1);
    this.update(chosen);
  }

  slider(step, gate, which, end, t) {
    const input = make("input", { type: "range", min: "0", max: "1", step: "0.01", class: gate });
    input.value = String(step[gate][which]);
    const name = this.played.push_ends.length > 1 ? `${gate} ${end}` : gate;
    input.setAttribute("aria-label", `${name} at step ${t + 1}`);
    const shown = make("span", { class: "number", text: decimals(step[gate][which]) });
    input.addEventListener("input", () => {
      step[gate][which] = Number(input.value);
      shown.textContent = decimals(step[gate][which]);
      this.update(t);
    });
    return make("label", {}, make("span", { class: `name ${gate}`, text: name }), input, shown);
  }

  update(chosen) {
    const trace = simulate(this.played, this.steps);
    trace.title = `A ${this.played.memory}, worked by hand`;
    this.panel.show(trace);
    this.player.refresh();
    this.player.goTo(chosen);
  }
}
