// Starts the page: one trace or several from the file, or the server's models and a playground.

const DOCS = [["viewer.md", "How to read the picture"], ["README.md", "Readme"]];
const PAPER = ["https://arxiv.org/abs/1506.02516", "The paper"];

function startServed(main) {
  const bench = new Workbench();
  const playground = new Playground();
  const pages = { models: bench.root, playground: playground.root };
  const nav = make("div", { class: "tabs", role: "tablist", "aria-label": "pages" });
  // At the head of a wide page, at the foot of a narrow one: the style sheet shows one of them.
  const links = ["links head", "links foot"].map((kind) =>
    make("nav", { class: kind, "aria-label": "more about pushpop" }));
  const open = (name) => {
    for (const tab of nav.children) {
      const mine = tab.dataset.page === name;
      tab.setAttribute("aria-selected", String(mine));
      tab.tabIndex = mine ? 0 : -1;
      pages[tab.dataset.page].hidden = !mine;
    }
    document.querySelector("header.page p").hidden = name !== "models";
    (name === "models" ? bench.player.panels : [playground.panel]).forEach((p) => p.resize());
  };
  for (const [name, text] of [["models", "Models"], ["playground", "Playground"]]) {
    const tab = make("button", { type: "button", role: "tab", id: `tab-${name}`, text,
      "aria-controls": `page-${name}`, onclick: () => {
        if (pages[name].hidden) {
          bench.history.go(name === "models" && bench.shown ? bench.address() : `#${name}`, true);
        }
        open(name);
      } });
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
  bench.ondocs = (docs) => links.forEach((list) => list.replaceChildren(
    ...DOCS.filter(([name]) => docs.includes(name))
      .map(([name, text]) => make("a", { href: `docs/${name}`, text })),
    make("a", { href: PAPER[0], text: PAPER[1], rel: "noreferrer" })));
  bench.ondocs([]);
  document.querySelector("header.page").append(nav, links[0]);
  main.append(...Object.values(pages), links[1]);
  // The back button, or an address that was typed or pasted.
  addEventListener("popstate", () => {
    const wanted = readAddress(location.hash);
    bench.history.forget();
    open(wanted.page);
    if (wanted.page === "models" && (!bench.shown || location.hash !== bench.address())) {
      bench.visit(wanted);
    }
  });
  open(readAddress(location.hash).page);
  takeKeys(bench.player, () => !bench.root.hidden && !nav.contains(document.activeElement));
  takeKeys(playground.player, () => !playground.root.hidden && !nav.contains(document.activeElement));
  window.pushpop = { bench, playground, simulate, layOut, gateRows };
  bench.start();
}

function startTraces(main, traces) {
  const players = traces.map((trace) => {
    const player = new Player(memoriesOf(trace).map((one) => new Panel(one)));
    const writing = trace.steps.findIndex((step) => step.output);
    player.goTo(Math.max(0, writing));
    const block = make("article", {}, player.root);
    if (trace.text) block.prepend(make("p", { class: "about", text: trace.text }));
    if (trace.title || traces.length === 1) player.panels.forEach((one) => one.title.remove());
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
