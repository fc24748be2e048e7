// Elements and the words in them.

function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "text") element.textContent = value;
    else if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const decimals = (x, places = 2) => x.toFixed(places);
const percent = (p) => (p >= 0.9995 ? "100 %" : p < 0.0005 ? "0 %" : `${(100 * p).toFixed(1)} %`);
const plural = (n, one, many) => `${n} ${n === 1 ? one : many}`;

// A trace for each memory of the model, of which most have one.
const memoriesOf = (trace) => [trace, ...(trace.others || [])];

// "read at steps 3 to 5 and 9, most at step 4 (0.90)", with runs of steps joined.
function readsText(reads) {
  const weighty = reads.filter(([, , weight]) => weight >= 0.005);
  if (!weighty.length) return "never read";
  const steps = [...new Set(weighty.map(([t]) => t + 1))];
  const runs = [];
  for (const step of steps) {
    const run = runs[runs.length - 1];
    if (run && run[1] === step - 1) run[1] = step;
    else runs.push([step, step]);
  }
  const names = runs.map(([a, b]) => (a === b ? `${a}` : b === a + 1 ? `${a}, ${b}` : `${a}–${b}`));
  const shown = names.length > 4 ? `${names.slice(0, 4).join(", ")} …` : names.join(", ");
  const most = weighty.reduce((best, one) => (one[2] > best[2] ? one : best));
  return `read at step${steps.length > 1 ? "s" : ""} ${shown}; ` +
    `most at ${most[0] + 1} (${decimals(most[2])})`;
}

// What stands in a trace besides symbols.
const MARKS = [["<s>", "start", "the start"], ["|||", "separator", "the input ends, the answer begins"]];

function explain(trace) {
  const found = MARKS.filter(([, part]) => trace.steps.some((step) => step.part === part))
    .map(([symbol, , text]) => [symbol, text]);
  const outputs = trace.steps.filter((step) => step.output);
  if (outputs.some((step) => step.output.symbol === "</s>")) found.push(["</s>", "the answer ends"]);
  if (outputs.length) found.push(["p", "how probable the symbol written was"]);
  return found.map(([symbol, text]) => make("span", {}, make("code", { text: symbol }), ` ${text}`));
}
