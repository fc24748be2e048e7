// Colours, of the page and of symbols.

const COLOURS = new Map();
const ON_BRIGHT = "#14151a"; // text on a bright band, in light and in dark

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
  const key = `${hue} ${bright} ${dark}`;
  if (!COLOURS.has(key)) {
    const chroma = hue === null ? 0.005 : bright ? 0.14 : dark ? 0.06 : 0.05;
    COLOURS.set(key, fromOklch(bright ? (dark ? 0.74 : 0.8) : dark ? 0.37 : 0.925, chroma, hue || 0));
  }
  return COLOURS.get(key);
}

// As `colours.rgb` in Python. Browsers know oklch() too, but take four times as long to read it.
function fromOklch(light, chroma, hue) {
  const angle = (hue * Math.PI) / 180;
  const [a, b] = [chroma * Math.cos(angle), chroma * Math.sin(angle)];
  const l = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (light - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  const parts = linear.map((x) => {
    const inside = Math.min(1, Math.max(0, x));
    const shown = inside <= 0.0031308 ? 12.92 * inside : 1.055 * inside ** (1 / 2.4) - 0.055;
    return Math.round(255 * shown).toString(16).padStart(2, "0");
  });
  return `#${parts.join("")}`;
}

function hueFor(trace, cell) {
  const { symbol, part } = trace.cells[cell];
  return part === "start" || part === "separator" ? null : hueOfSymbol(trace, symbol);
}

function hueOfSymbol(trace, symbol) {
  return Object.hasOwn(trace.hues, symbol) ? trace.hues[symbol] : null;
}
