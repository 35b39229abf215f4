// Text reaches the page through textContent alone: a reply may hold anything.
const games = JSON.parse(document.getElementById("games").textContent);
const place = (id) => document.getElementById(id);
const MISTAKES = ["empty", "unparseable", "ambiguous", "illegal", "truncated", "overlong"];
let shown = 0; // which game
let at = 0; // which of its turns; after the last one, the end
let promptOpen = false;

function make(tag, name, ...inside) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(...inside); // strings become text nodes
  return element;
}

const ending = (game) => game.endings.find((end) => end.seat === game.seat);
const kind = (reason) => (MISTAKES.includes(reason) ? "mistake" : ["won", "lost"].includes(reason) ? reason : "other");
const named = (one) => `${one.role} · ${one.player}`;

function summary() {
  const counts = new Map(["won", "drawn", "lost"].map((reason) => [reason, 0]));
  for (const game of games) counts.set(ending(game).reason, (counts.get(ending(game).reason) ?? 0) + 1);
  const parts = [...counts].filter(([, count]) => count).map(([reason, count]) => `${count} ${reason}`);
  return [`${games.length} ${games.length === 1 ? "game" : "games"}`, ...parts].join(" · ");
}

function list() {
  place("list").replaceChildren(
    ...games.map((game, index) => {
      const end = ending(game);
      const name = make("span", "name", make("span", "", game.game), make("span", kind(end.reason), end.reason));
      const other = game.opponent ? ` against ${game.opponent}` : "";
      const button = make("button", "", name, make("span", "with", `${end.player} as ${end.role}${other}`));
      button.type = "button";
      button.addEventListener("click", () => go(index, 0));
      return make("li", "", button);
    }),
  );
}

function moves(game) {
  const chips = game.turns.map((turn, index) => {
    const own = turn.seat === game.seat ? " own" : "";
    return chip(`${index + 1}. ${turn.action}`, (turn.accepted ? "" : "mistake") + own, named(turn), index);
  });
  const end = ending(game);
  chips.push(chip(end.reason, `own ${kind(end.reason)}`, "The end", game.turns.length));
  place("moves").replaceChildren(...chips.map((button) => make("li", "", button)));
}

function chip(text, name, title, index) {
  const button = make("button", name, text);
  button.type = "button";
  button.title = title;
  button.addEventListener("click", () => go(shown, index));
  return button;
}

// Lines of a board hold signs; a line with a word in it is prose.
const isProse = (line) => /[a-z]{4}/i.test(line);

// A board as a picture, or as text, with the signs marked that differ from an earlier one, unless a line was moved or
// is mostly new.
function drawn(game, board, role, before) {
  const picture = Boards.draw(game, board, { role, before });
  if (picture) return picture;
  const lines = board.split("\n");
  const old = before === undefined ? [] : before.split("\n");
  const pre = make("pre", `board ${size(lines.filter((line) => !isProse(line)))}`);
  lines.forEach((line, index) => {
    const row = make("div", isProse(line) ? "prose" : "");
    pre.append(row);
    const was = old.length === lines.length && old[index].length === line.length ? old[index] : line;
    const changed = [...line].map((sign, place) => sign !== was[place]);
    const few = changed.filter(Boolean).length <= Math.max(2, line.length / 3);
    if (isProse(line)) row.append(line);
    else [...line].forEach((sign, place) => row.append(few && changed[place] ? make("mark", "", sign) : sign));
    if (!line) row.append("\n");
  });
  return pre;
}

function size(lines) {
  if (!lines.length) return "words";
  const width = Math.max(0, ...lines.map((line) => line.length));
  return width <= 24 && lines.length <= 9 ? "large" : width <= 38 ? "medium" : "small";
}

function boards(game) {
  const made = [];
  if (at < game.turns.length) {
    const turn = game.turns[at];
    const before = game.turns.slice(0, at).findLast((earlier) => earlier.seat === turn.seat);
    if (turn.board) {
      const board = drawn(game.game, turn.board, turn.role, before && before.board);
      const marked = board.querySelector("mark, .halo") ? "; marked: new since its last turn" : "";
      made.push(board, make("p", "caption", `As ${turn.role} sees it${marked}`));
    }
  } else {
    const first = ending(game);
    const others = game.endings.filter((end) => end !== first && end.board !== first.board);
    for (const end of [first, ...others]) {
      if (!end.board) continue;
      const last = game.turns.findLast((turn) => turn.seat === end.seat);
      made.push(drawn(game.game, end.board, end.role, last && last.board));
      made.push(make("p", "caption", others.length ? `The end, as ${end.role} sees it` : "The end"));
    }
  }
  place("boards").replaceChildren(...made);
  place("boards").parentElement.classList.toggle("bare", made.length === 0);
}

function said(game) {
  if (at === game.turns.length) {
    const rows = game.endings.flatMap((end) => [
      make("span", end.seat === game.seat ? "" : "who", named(end)),
      make("span", kind(end.reason), end.reason),
      make("span", "number", end.value.toFixed(2)),
    ]);
    const end = ending(game);
    place("said").replaceChildren(
      make("p", "who", named(end)),
      make("p", `action ${kind(end.reason)}`, end.reason),
      make("p", "label", "Result and score of each seat"),
      make("div", "result", ...rows),
    );
    return;
  }
  const turn = game.turns[at];
  const prompt = make("details", "", make("summary", "", "What this seat is shown"));
  for (const message of turn.messages) {
    prompt.append(make("p", "label", message.role), make("pre", "text", message.content));
  }
  prompt.open = promptOpen;
  prompt.addEventListener("toggle", () => (promptOpen = prompt.open));
  place("said").replaceChildren(
    make("p", "who", `${turn.accepted ? "Move" : "Mistake"} of ${named(turn)}`),
    make("p", turn.accepted ? "action" : "action mistake", turn.action),
    make("p", "label", "Reply"),
    make("pre", "text", turn.reply || "(nothing)"),
    prompt,
  );
}

function current(id, index) {
  [...place(id).children].forEach((item, number) => {
    const button = item.firstChild;
    if (number === index) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
    if (number === index) reveal(place(id), item);
  });
}

// As scrollIntoView, of which the rest of the page would scroll too.
function reveal(box, item) {
  const end = item.offsetTop + item.offsetHeight - box.clientHeight;
  box.scrollTop = Math.max(end, Math.min(item.offsetTop, box.scrollTop));
}

function go(game, turn) {
  if (game < 0 || game >= games.length) return;
  const another = game !== shown || !place("moves").children.length;
  shown = game;
  const now = games[game];
  at = Math.max(0, Math.min(turn, now.turns.length));
  if (another) {
    moves(now);
    place("name").textContent = now.game;
    place("players").textContent = now.endings.map(named).join("   —   ");
    place("task").textContent = now.task_id;
  }
  place("where").textContent = at < now.turns.length ? `Move ${at + 1} of ${now.turns.length}` : "The end";
  for (const id of ["first", "previous"]) place(id).disabled = at === 0;
  for (const id of ["next", "last"]) place(id).disabled = at === now.turns.length;
  boards(now);
  said(now);
  current("list", shown);
  current("moves", at);
  history.replaceState(null, "", `#${shown + 1}/${at + 1}`);
}

function fromAddress() {
  const [game, turn] = location.hash.slice(1).split("/").map(Number);
  if (games[game - 1]) go(game - 1, (turn || 1) - 1);
  else go(0, 0);
}

const last = () => games[shown].turns.length;
const keys = {
  ArrowLeft: () => go(shown, at - 1),
  ArrowRight: () => go(shown, at + 1),
  ArrowUp: () => go(shown - 1, 0),
  ArrowDown: () => go(shown + 1, 0),
  Home: () => go(shown, 0),
  End: () => go(shown, last()),
};

place("summary").textContent = summary();
if (games.length) {
  list();
  place("first").addEventListener("click", keys.Home);
  place("previous").addEventListener("click", keys.ArrowLeft);
  place("next").addEventListener("click", keys.ArrowRight);
  place("last").addEventListener("click", keys.End);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  window.addEventListener("hashchange", fromAddress);
  fromAddress();
} else {
  document.querySelector("main").hidden = true;
}
