// Boards, cards and moves in a page. Boards.draw gives null where a text holds neither a board nor cards.
const Boards = (() => {
  const { EMPTY, kindOf, parts, words } = BoardText;
  const { UNIT, circle, html, legend, lookOf, nameOf, svg, text } = BoardForms;
  const SUITS = { c: ["♣", "clubs"], d: ["♦", "diamonds"], h: ["♥", "hearts"], s: ["♠", "spades"] };
  const RIM = 4; // around a picture: the borders of hex are lines of width 6, half of it outside
  const RANKS = { T: "10", J: "jack", Q: "queen", K: "king", A: "ace" };
  const SUITED = /(?<![A-Za-z0-9])([2-9TJQKA])([cdhs])(?![A-Za-z0-9])/g;
  const CARD_GAMES = [
    "hearts", "gin_rummy", "bridge", "euchre", "cribbage", "blackjack", "leduc_poker", "solitaire", "kuhn_poker",
    "goofspiel",
  ];
  const OWN = /^(Your (?:hand|cards?)): ([^(]+)/; // the cards that a person may play

  // One grid as a picture. `before` is the same grid earlier: what differs is marked. `touch` is given in a game.
  function picture(kind, grid, before, touch) {
    const [look, form] = lookOf(kind);
    const [width, height] = form.size(grid);
    const box = `${-RIM} ${-RIM} ${width + 2 * RIM} ${height + 2 * RIM}`;
    const made = svg("svg", { viewBox: box, class: `picture ${kind}`, role: touch ? "grid" : "img" });
    made.style.setProperty("--columns", String(Math.max(width / UNIT, 4)));
    made.append(...form.under(grid));
    const [rows, columns] = [grid.rows.length, grid.columns.length];
    const same = before && before.rows.length === rows && before.columns.length === columns ? before : null;
    const cells = [];
    grid.rows.forEach((line, row) => {
      const group = svg("g", touch ? { role: "row" } : {});
      line.cells.forEach((sign, column) => {
        if (sign === null) return; // the board ends here
        const at = form.at(grid, row, column);
        const changed = same && same.rows[row].cells[column] !== sign;
        const ring = UNIT * (form.ring ?? 0.45);
        const cell = svg(
          "g",
          { class: `cell${changed ? " new" : ""}${sign === EMPTY ? " empty" : ""}` },
          ...form.ground(grid, look, row, column),
          ...(changed ? [circle(...at, ring + 1, "halo")] : []),
          ...form.sign(grid, look, row, column, form),
        );
        if (touch) {
          // A dot where a piece may go, a ring around one that may go or be taken.
          cell.append(sign === EMPTY ? circle(...at, UNIT * 0.14, "mark dot") : circle(...at, ring, "mark around"));
          cell.setAttribute("role", "gridcell");
          const label = form.spoken(grid, look, row, column);
          cells.push({ element: cell, name: nameOf(grid, row, column), row, column, label });
        }
        group.append(cell);
      });
      made.append(group);
    });
    for (const [x, y, name] of form.names(grid)) if (name) made.append(text(x, y, 13, "coordinate", name));
    made.append(...form.over(grid));
    if (touch) touch(made, cells);
    return made;
  }

  // Cards.

  function card(rank, suit) {
    const [sign, name] = SUITS[suit] ?? ["", ""];
    const made = html("span", `card ${"dh".includes(suit || "-") ? "red" : "black"}`, (rank === "T" ? "10" : rank) + sign);
    made.setAttribute("role", "img");
    made.setAttribute("aria-label", suit ? `${RANKS[rank] ?? rank} of ${name}` : `card ${RANKS[rank] ?? rank}`);
    return made;
  }

  // A line with its cards drawn; those of the own hand can be played where `touch` says so.
  function prose(kind, line, touch) {
    const made = html("p", "prose");
    if (!CARD_GAMES.includes(kind)) {
      made.append(line);
      return made;
    }
    const own = OWN.exec(line);
    const suited = [...line.matchAll(SUITED)];
    const playable = (element, token) => (own && touch ? touch(element, token) : element);
    if (own && !suited.length) {
      made.append(`${own[1]}: `);
      for (const token of words(own[2])) made.append(playable(card(token, ""), token));
      made.append(line.slice(own[0].length));
      return made;
    }
    let at = 0;
    for (const match of suited) {
      made.append(line.slice(at, match.index), playable(card(match[1], match[2]), match[0]));
      at = match.index + match[0].length;
    }
    made.append(line.slice(at));
    return made;
  }

  // Playing by pointing at cells, one after the other, or at cards. `choose` takes the index of a choice.
  function player(choices, choose) {
    const chooser = html("div", "chooser");
    chooser.setAttribute("role", "group");
    chooser.setAttribute("aria-label", "Which of these moves");
    const all = choices.map((choice, index) => ({ ...choice, index }));
    let pointed = []; // the cells so far
    let boards = [];
    let over = false; // one move is made on a board; for the next one it is drawn again
    const fitting = (cells) => all.filter((one) => cells.every((cell, at) => one.cells[at] === cell));

    function take(index) {
      if (over) return;
      over = true;
      pointed = [];
      chooser.replaceChildren();
      show();
      choose(index);
    }

    function ask(options) {
      chooser.replaceChildren(
        ...options.map((option) => {
          const button = html("button", "", option.name);
          button.type = "button";
          button.addEventListener("click", () => take(option.index));
          return button;
        }),
      );
      chooser.firstChild?.focus();
    }

    function show() {
      const next = new Set(over ? [] : fitting(pointed).map((one) => one.cells[pointed.length]));
      for (const { element, name, label } of boards) {
        const can = next.has(name);
        const chosen = pointed.includes(name);
        element.classList.toggle("can", can);
        element.classList.toggle("chosen", chosen);
        element.setAttribute("aria-label", label + (chosen ? ", chosen" : can ? ", can be chosen" : ""));
      }
    }

    function point(name) {
      if (over) return;
      chooser.replaceChildren();
      const before = pointed;
      pointed = [...before, name];
      if (!fitting(pointed).length) pointed = before.length === 1 && before[0] === name ? [] : [name];
      const found = fitting(pointed);
      if (!found.length) pointed = [];
      else if (pointed.length) {
        const whole = found.filter((one) => one.cells.length === pointed.length);
        if (whole.length === 1 && found.length === 1) return take(whole[0].index);
        if (whole.length) ask(whole);
      }
      show();
    }

    // Cells are reached by the arrow keys; one of them by the tab key.
    function cells(picture, made) {
      boards = [...boards, ...made];
      // Where a row is shorter than the last one, its nearest cell.
      const nearest = (row, column) =>
        made.filter((one) => one.row === row).sort((a, b) => Math.abs(a.column - column) - Math.abs(b.column - column))[0];
      for (const one of made) {
        one.element.setAttribute("tabindex", one === made[0] ? "0" : "-1");
        one.element.dataset.at = `${one.row},${one.column}`;
        one.element.addEventListener("click", () => point(one.name));
        one.element.addEventListener("focus", () => {
          for (const other of made) other.element.setAttribute("tabindex", other === one ? "0" : "-1");
        });
        one.element.addEventListener("keydown", (event) => {
          const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
          if (step) nearest(one.row + step[0], one.column + step[1])?.element.focus();
          if (event.key === "Enter" || event.key === " ") point(one.name);
          if (event.key === "Escape") {
            pointed = [];
            chooser.replaceChildren();
            show();
          }
          if (step || event.key === "Enter" || event.key === " ") event.preventDefault();
        });
      }
      picture.setAttribute("aria-label", "Board: the arrow keys go from cell to cell, Enter chooses");
    }

    function cards(element, token) {
      const options = all.filter((one) => one.name.split(" ").includes(token));
      if (!options.length) return element;
      const button = html("button", "hold", element);
      button.type = "button";
      button.addEventListener("click", () => (options.length === 1 ? take(options[0].index) : ask(options)));
      return button;
    }

    return { chooser, cells, cards, show };
  }

  // A text as pictures and prose, in an element; null where there is nothing to draw.
  // game: the case. role: what the seat is called. before: an earlier text, or undefined. choices and choose: what may
  // be played, in a game.
  function draw(game, content, { role, before, choices, choose } = {}) {
    const kind = kindOf(game);
    const found = parts(kind, content, role);
    const grids = (list) => list.filter((part) => typeof part !== "string");
    if (!grids(found).length && !CARD_GAMES.includes(kind)) return null;
    const earlier = before === undefined ? [] : grids(parts(kind, before, role));
    const hands = choose ? player(choices, choose) : null;
    const made = html("div", "boards");
    let number = 0;
    for (const part of found) {
      if (typeof part === "string") {
        if (part.trim()) made.append(prose(kind, part, hands?.cards));
        continue;
      }
      // Of two boards, the own one and that of the shots, moves point at the last.
      const touched = hands && number === grids(found).length - 1;
      const drawn = picture(kind, part, earlier[number++], touched ? hands.cells : undefined);
      if (!touched) drawn.setAttribute("aria-label", content);
      made.append(drawn);
      const sides = number === grids(found).length ? legend(lookOf(kind)[0]) : null;
      if (sides) made.append(sides);
    }
    if (hands) {
      hands.show();
      made.append(hands.chooser);
    }
    return made;
  }

  return { draw };
})();
