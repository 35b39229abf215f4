const place = (id) => document.getElementById(id);
let now = null; // what the server said last
let before; // the board at the person's last turn
let cursor = null; // the cell that had the focus, as long as it is to have it again
let drawn = ""; // what the board was drawn from: it stays as it is while nothing of that changes
let hinted = ""; // the place for which hints are shown

function make(tag, name, ...inside) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(...inside); // strings become text nodes
  return element;
}

function button(name, text, action) {
  const made = make("button", name, text);
  made.type = "button";
  made.addEventListener("click", action);
  return made;
}

async function ask(address, body) {
  const request = body && {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  };
  const response = await fetch(address, request || {});
  const said = await response.json();
  if (!response.ok) throw new Error(said.error ?? `the server answered ${response.status}`);
  return said;
}

function fail(text) {
  place("error").textContent = text;
  place("error").hidden = !text;
}

async function act(address, body) {
  try {
    show(await ask(address, body));
  } catch (error) {
    drawn = ""; // the board takes another move
    if (now) show(now);
    fail(error.message);
  }
}

const choose = (choice) => act("/choose", { choice, place: now.place });
const seatNamed = (one) => `${one.role}: ${one.player}`;

function status(state) {
  if (state.over) {
    const mine = state.over.find((end) => end.seat === state.you);
    const words = { won: "You won.", lost: "You lost.", drawn: "A draw." };
    const other = state.over.find((end) => end.reason !== "forfeited" && end.seat !== state.you);
    if (mine.reason === "forfeited") return `The game is over: ${other.role} made a mistake (${other.reason}).`;
    return words[mine.reason] ?? `The game is over: ${mine.reason}.`;
  }
  const me = state.seats.find((one) => one.seat === state.you);
  const last = state.moves.at(-1);
  const theirs = last && last.seat !== state.you ? `${last.role} played ${last.action}. ` : "";
  if (state.asked) return `${theirs}Your turn, as ${me.role}`;
  return state.error ? "The other side could not answer." : "The other side is thinking …";
}

function board(state) {
  const play = state.asked ? { choices: state.choices, choose } : {};
  const { role } = state.seats.find((one) => one.seat === state.you);
  const made = Boards.draw(document.title, state.board, { role, before, ...play });
  place("board").replaceChildren(made ?? make("pre", "text", state.board));
  place("board").classList.toggle("waiting", !state.asked && !state.over);
  place("words").textContent = state.board;
  // What can be pointed at on the board has its button out of the way.
  const pointed = (choice) => choice.cells.length && made?.querySelector(".picture");
  const listed = state.choices.map((choice, index) => [choice, button("", choice.name, () => choose(index))]);
  const buttons = (wanted) => listed.filter(([choice]) => Boolean(pointed(choice)) === wanted).map(([, one]) => one);
  place("moves").replaceChildren(...buttons(false));
  place("others").replaceChildren(...buttons(true));
  place("others").parentElement.hidden = !buttons(true).length;
}

function played(state) {
  place("played").replaceChildren(
    ...state.moves.map((move, index) => {
      const name = (move.seat === state.you ? "own" : "") + (move.ok ? "" : " mistake");
      const made = button(name, `${index + 1}. ${move.action}`, () => said(move.number));
      made.title = `${move.role}: what was shown and said`;
      return make("li", "", made);
    }),
  );
  place("played").scrollTop = place("played").scrollHeight;
}

async function said(number) {
  try {
    const found = await ask(`/said?move=${number}`);
    place("said").replaceChildren(
      make("p", "label", `${found.player} replied`),
      make("pre", "text", found.reply || "(nothing)"),
      ...found.messages.flatMap((message) => [
        make("p", "label", `Shown, as ${message.role}`),
        make("pre", "text", message.content),
      ]),
    );
  } catch (error) {
    fail(error.message);
  }
}

async function hint() {
  if (!now?.asked) return;
  const where = now.place;
  place("hints").textContent = "Looking …";
  try {
    const found = await ask("/hints");
    if (now.place !== where) return;
    hinted = where;
    const rows = found.choices.slice(0, 12).flatMap((one) => [
      make("span", "", one.name),
      make("span", "number", one.value.toFixed(2)),
      make("span", one.good ? "won" : "", one.good ? "good" : ""),
    ]);
    place("hints").replaceChildren(
      make("p", "label", rows.length ? `What your moves are worth, by ${found.source}` : "There is no hint here"),
      make("div", "worth", ...rows),
    );
  } catch (error) {
    place("hints").replaceChildren();
    fail(error.message);
  }
}

function show(state) {
  if (now && state.version <= now.version && drawn) return;
  const moved = !now || now.place !== state.place || now.number !== state.number;
  if (now && now.asked && moved) before = now.board;
  if (!now || now.number !== state.number) before = undefined;
  now = state;
  place("players").textContent = state.seats.map(seatNamed).join("   —   ");
  place("status").textContent = status(state);
  fail(state.error);
  place("again").hidden = !state.error || Boolean(state.over);
  place("rules").textContent = state.rules;
  place("undo").disabled = !state.can_undo;
  place("hint").disabled = !state.asked;
  place("games").hidden = !state.kept;
  if (hinted !== state.place) place("hints").replaceChildren();
  if (moved) place("said").replaceChildren();
  played(state);
  const from = JSON.stringify([state.number, state.place, state.asked, state.board, state.choices]);
  if (from === drawn) return;
  drawn = from;
  const active = document.activeElement;
  if (active?.closest("#board")) cursor = active.dataset.at ?? "";
  board(state);
  if (cursor !== null && state.asked && document.activeElement === document.body) {
    const cells = place("board");
    (cells.querySelector(`[data-at="${cursor}"]`) ?? cells.querySelector("[tabindex='0'], button"))?.focus();
    cursor = null;
  }
}

async function follow() {
  for (;;) {
    try {
      show(await ask(now ? `/state?version=${now.version}` : "/state"));
    } catch (error) {
      drawn = ""; // another server may count its versions from the start
      fail(`Nobody serves this page any more (${error.message}).`);
      await new Promise((wake) => setTimeout(wake, 2000));
    }
  }
}

place("undo").addEventListener("click", () => act("/undo", {}));
place("hint").addEventListener("click", hint);
place("again").addEventListener("click", () => act("/again", {}));
for (const made of document.querySelectorAll(".new")) {
  made.addEventListener("click", () => act("/new", { seat: Number(made.dataset.seat) }));
}
place("typing").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = place("typed").value.trim();
  if (text && now) act("/type", { text, place: now.place }).then(() => (place("typed").value = ""));
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "INPUT") return;
  if (event.key === "u" && !place("undo").disabled) act("/undo", {});
  if (event.key === "h") hint();
});
follow();
