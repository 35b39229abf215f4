"use strict";
// Text reaches the page through textContent alone: a log may hold anything.
const place = (id) => document.getElementById(id);
const EVERY = 3000; // milliseconds between two looks
// The curves that stand on the page from the beginning: a title, and its metrics.
const CURVES = [
  ["Reward", ["critic/score/mean"]],
  ["Success in training", ["task/success"]],
  ["Legal answers", ["task/legal"]],
  ["Mistakes", ["task/illegal", "task/truncated", "task/overlong"]],
  ["Tokens of a reply", ["response_length/mean"]],
  ["Entropy", ["actor/entropy_loss", "actor/entropy"]],
  ["KL of an update", ["actor/ppo_kl"]],
  ["Gradient norm", ["actor/grad_norm", "critic/grad_norm"]],
  ["Stage of the curriculum", ["curriculum/stage"]],
  ["Seconds of a step", ["timing_s/step"]],
  ["Loss", ["train/loss", "val/loss"]],
];
let shown = decodeURIComponent(location.hash.slice(1)); // the run that is shown
let compared = new Set(); // runs drawn beside it
let added = []; // metrics that the person added
let listed = [];

function make(tag, name, ...inside) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(...inside);
  return element;
}

function svg(tag, attributes, text) {
  const element = document.createElementNS(place("svg").namespaceURI, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

async function ask(address) {
  const response = await fetch(address);
  const said = await response.json();
  if (!response.ok) throw new Error(said.error ?? `the server answered ${response.status}`);
  return said;
}

const short = (value) =>
  value === null || value === undefined
    ? ""
    : Math.abs(value) >= 1000
      ? value.toLocaleString("en", { maximumFractionDigits: 0 })
      : Number(value.toPrecision(3)).toString();

function time(seconds) {
  if (seconds < 90) return `${seconds.toFixed(0)} s`;
  return seconds < 5400 ? `${(seconds / 60).toFixed(0)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

function list() {
  place("list").replaceChildren(
    ...listed.map((run) => {
      const steps = run.kind === "training" ? `step ${run.step}${run.steps ? ` of ${run.steps}` : ""}` : run.kind;
      const result = run.success !== null ? `, success ${short(run.success)}` : "";
      const state = make("span", run.state, run.state);
      const button = make(
        "button",
        "",
        make("span", "name", run.title),
        make("span", "with", `${steps}${result} · `, state),
        make("span", "with", run.name),
      );
      button.type = "button";
      if (run.name === shown) button.setAttribute("aria-current", "true");
      button.addEventListener("click", () => open(run.name));
      const box = make("input", "");
      box.type = "checkbox";
      box.checked = compared.has(run.name);
      box.disabled = run.name === shown || run.kind !== "training";
      box.title = "draw beside the run that is shown";
      box.setAttribute("aria-label", `Compare with ${run.title}, ${run.name}`);
      box.addEventListener("change", () => {
        if (box.checked) compared.add(run.name);
        else compared.delete(run.name);
        look();
      });
      return make("li", "", button, make("label", "", box));
    }),
  );
}

function open(name) {
  shown = name;
  compared.delete(name);
  history.replaceState(null, "", `#${encodeURIComponent(name)}`);
  look();
}

const WIDTH = 320;
const HEIGHT = 150;
const [LEFT, BOTTOM, TOP] = [48, 20, 8]; // LEFT holds seven digits
const DIGIT = 7; // the width of a wide one

// Two to six round values between two bounds, each with a text that differs from its neighbours.
function ticks(low, high) {
  const least = (high - low) / 5;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = power * [1, 2, 5, 10].find((times) => times * power >= least);
  const exponent = Math.floor(Math.log10(step) + 1e-9);
  const largest = Math.max(Math.abs(low), Math.abs(high));
  const text = (value) => {
    if (largest >= 0.001 && largest < 1e6) return value.toLocaleString("en", { minimumFractionDigits: Math.max(0, -exponent) });
    if (!value) return "0";
    return value.toExponential(Math.max(0, Math.floor(Math.log10(Math.abs(value)) + 1e-9) - exponent));
  };
  const made = [];
  // A quotient of decimals may miss a whole number by its last digit.
  for (let count = Math.ceil(low / step - 1e-9); count <= high / step + 1e-9; count++) {
    const value = Number((count * step).toPrecision(12)); // without the rounding of the product
    made.push([value, text(value)]);
  }
  return made;
}

// The bounds of the axis of some values. Values that differ by less than a millionth are one value, because the difference is
// that of sums of floats; the axis of one value reaches half as far as the value to both sides.
function range(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const size = Math.max(Math.abs(low), Math.abs(high));
  if (high - low > 1e-6 * size) return [low, high];
  return size ? [low - size / 2, high + size / 2] : [-0.5, 0.5];
}

// Lines: {label, points}. All share one scale.
function plot(lines) {
  const points = lines.flatMap((line) => line.points);
  const [firstStep, lastStep] = [Math.min(...points.map((at) => at[0])), Math.max(...points.map((at) => at[0]))];
  const [low, high] = range(points.map((at) => at[1]));
  const marks = ticks(low, high);
  const left = Math.max(LEFT, ...marks.map(([, text]) => text.length * DIGIT + 6));
  const x = (step) => left + ((step - firstStep) / Math.max(1, lastStep - firstStep)) * (WIDTH - left - 8);
  const y = (value) => TOP + ((high - value) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const made = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "plot", role: "img" });
  for (const [value, text] of marks) {
    made.append(svg("line", { x1: left, x2: WIDTH - 8, y1: y(value), y2: y(value), class: "grid" }));
    made.append(svg("text", { x: left - 4, y: y(value) + 4, "text-anchor": "end" }, text));
  }
  made.append(svg("text", { x: left, y: HEIGHT - 5 }, String(firstStep)));
  made.append(svg("text", { x: WIDTH - 8, y: HEIGHT - 5, "text-anchor": "end" }, String(lastStep)));
  lines.forEach((line, index) => {
    const drawn = line.points.map((at) => `${x(at[0]).toFixed(1)},${y(at[1]).toFixed(1)}`).join(" ");
    made.append(svg("polyline", { points: drawn, class: `line c${index % 8}` }));
    if (line.points.length === 1) {
      made.append(svg("circle", { cx: x(line.points[0][0]), cy: y(line.points[0][1]), r: 3, class: `c${index % 8}` }));
    }
  });
  const ends = lines.map((line) => `${line.label}: ${short(line.points.at(-1)[1])}`).join("; ");
  made.setAttribute("aria-label", `From step ${firstStep} to ${lastStep}. At the end ${ends}.`);
  return made;
}

function figure(title, names, drawn) {
  const runs = [shown, ...compared];
  const lines = names.flatMap((name) =>
    runs
      .filter((run) => drawn[name]?.[run]?.length)
      .map((run) => ({
        label: [names.length > 1 ? name.split("/").slice(-1)[0] : "", runs.length > 1 ? titleOf(run) : ""].filter(Boolean).join(", ") || title,
        points: drawn[name][run],
      })),
  );
  if (!lines.length) return null;
  const legend = lines.length > 1 ? [make("div", "legend", ...lines.map((line, index) => make("span", `c${index % 8}`, line.label)))] : [];
  const last = lines.length === 1 ? short(lines[0].points.at(-1)[1]) : "";
  return make("figure", "", make("figcaption", "", make("span", "", title), make("span", "number", last)), plot(lines), ...legend);
}

function titleOf(name) {
  const run = listed.find((one) => one.name === name);
  const twins = listed.filter((one) => one.title === run?.title).length > 1;
  return run && !twins ? run.title : name;
}

function details(run) {
  place("name").textContent = run.title;
  const facts = [];
  if (run.kind === "training") facts.push(`step ${run.step}${run.steps ? ` of ${run.steps}` : ""}`);
  facts.push(run.state === "ended" ? "ended" : `last change ${time(run.quiet)} ago`);
  if (run.stage !== null) facts.push(`stage ${run.stage}`);
  for (const one of run.opponents) facts.push(`against ${one.opponent}: ${short(one.success)} won`);
  for (const [name, share] of Object.entries(run.mistakes)) facts.push(`${name} ${short(100 * share)}%`);
  if (run.tokens) facts.push(`${short(run.tokens)} tokens`);
  if (run.seconds) facts.push(`${time(run.seconds)} of training`);
  if (run.money !== null) facts.push(`${run.money.toFixed(2)} for the machine`);
  place("facts").textContent = facts.join(" · ");
  place("what").textContent = run.folder;
  place("said").replaceChildren(...run.said.map((line) => make("li", "", line)));
  place("typed").textContent = run.typed.join("\n");
  place("pages").replaceChildren(
    ...run.pages.map((page) => {
      const link = make("a", "", page);
      link.href = `/page?name=${encodeURIComponent(run.name)}&page=${encodeURIComponent(page)}`;
      link.target = "_blank";
      return link;
    }),
  );
  place("spent").replaceChildren(
    ...run.spent.map((row) => {
      const money = typeof row.money === "number" ? `, ${row.money.toFixed(4)} ${row.currency ?? ""}` : "";
      const text = `${row.model}: ${row.requests} requests, ${row.prompt_tokens} tokens read, ${row.tokens} written${money}`;
      return make("p", "", text);
    }),
  );
  const options = run.metrics.map((name) => {
    const option = make("option", "", name);
    option.value = name;
    return option;
  });
  if (place("more").options.length !== options.length + 1) {
    const first = make("option", "", "choose a metric");
    first.value = "";
    place("more").replaceChildren(first, ...options);
  }
  place("adding").hidden = !run.metrics.length;
}

// What validation measures has a curve for each environment or game.
const judged = (names) =>
  names.filter((name) => /^val-(core|aux)\//.test(name) && /(reward|success)\/mean@\d+$/.test(name)).slice(0, 8);

let looking = 0;

async function look() {
  const mine = ++looking;
  try {
    listed = await ask("/runs");
    if (!listed.some((run) => run.name === shown)) shown = listed[0]?.name ?? "";
    compared = new Set([...compared].filter((name) => listed.some((run) => run.name === name)));
    list();
    if (shown) {
      const run = await ask(`/run?name=${encodeURIComponent(shown)}`);
      const more = [...judged(run.metrics), ...added].map((name) => [name, [name]]);
      const wanted = [...CURVES, ...more].filter(([, names]) => names.some((name) => run.metrics.includes(name)));
      const names = [...new Set(wanted.flatMap(([, all]) => all))];
      const query = [
        ...[shown, ...compared].map((name) => `run=${encodeURIComponent(name)}`),
        ...names.map((name) => `metric=${encodeURIComponent(name)}`),
      ].join("&");
      const drawn = names.length ? await ask(`/curves?${query}`) : {};
      if (mine !== looking) return; // the person has gone on
      details(run);
      place("curves").replaceChildren(...wanted.map(([title, all]) => figure(title, all, drawn)).filter(Boolean));
    }
    place("error").hidden = true;
    document.body.dataset.after ??= String(Math.round(performance.now())); // when the curves stood there first
  } catch (error) {
    place("error").textContent = error.message;
    place("error").hidden = false;
  }
}

place("more").addEventListener("change", () => {
  const name = place("more").value;
  if (name && !added.includes(name)) added = [...added, name];
  place("more").value = "";
  look();
});
look();
setInterval(() => {
  if (!document.hidden) look();
}, EVERY);
