"use strict";
// Boards as pictures, made from the text that a seat is shown. Boards.draw gives null where a text holds none.
// Text reaches the page through textContent and attributes alone: a text may hold anything.
const Boards = (() => {
  const UNIT = 40; // the width of a cell, in the picture's own units
  const MARGIN = 24; // for coordinates
  const GLYPHS = { k: "♚", q: "♛", r: "♜", b: "♝", n: "♞", p: "♟" };
  const CHESS = { k: "king", q: "queen", r: "rook", b: "bishop", n: "knight", p: "pawn" };
  const discs = (x, o, name = "disc") => ({ x: ["disc", x, `${x} ${name}`], o: ["disc", o, `${o} ${name}`] });
  const MARKS = { x: ["cross", "red", "x"], o: ["ring", "blue", "o"] };
  const chessmen = Object.fromEntries(
    Object.keys(GLYPHS).flatMap((sign) => [
      [sign, ["glyph", "black", `black ${CHESS[sign]}`, GLYPHS[sign]]],
      [sign.toUpperCase(), ["glyph", "white", `white ${CHESS[sign]}`, GLYPHS[sign]]],
    ]),
  );
  // How a game looks: its ground, and for each sign the form of the piece, its colour, and how it is called.
  const LOOKS = {
    hex: { ground: "hexagons", pieces: discs("red", "blue", "stone") },
    tic_tac_toe: { ground: "plain", pieces: MARKS },
    phantom_ttt: { ground: "plain", pieces: MARKS },
    latent_ttt: { ground: "plain", pieces: MARKS },
    othello: { ground: "green", pieces: discs("black", "white") },
    connect_four: { ground: "holes", pieces: discs("red", "yellow") },
    breakthrough: {
      ground: "checkered",
      pieces: { b: ["disc", "black", "black piece"], w: ["disc", "white", "white piece"] },
    },
    clobber: { ground: "checkered", pieces: discs("black", "white", "piece") },
    checkers: {
      ground: "checkered",
      pieces: {
        ...discs("black", "white", "man"),
        X: ["crown", "black", "black king"],
        O: ["crown", "white", "white king"],
      },
    },
    chess: { ground: "checkered", pieces: chessmen },
    amazons: {
      ground: "checkered",
      pieces: {
        X: ["glyph", "black", "amazon X", GLYPHS.q],
        O: ["glyph", "white", "amazon O", GLYPHS.q],
        "#": ["block", "grey", "arrow"],
      },
    },
    go: { ground: "lines", pieces: discs("black", "white", "stone") },
    battleship: {
      ground: "plain",
      pieces: { "#": ["block", "grey", "ship"], X: ["cross", "red", "hit"], o: ["dot", "blue", "miss"] },
    },
    quoridor: { ground: "plain", pieces: { x: ["disc", "red", "pawn x"], o: ["disc", "blue", "pawn o"] } },
    dots_and_boxes: { ground: "dots", pieces: {} },
    2048: { ground: "tiles", pieces: {} },
  };
  const OTHER = { ground: "plain", pieces: {} };
  const EMPTY = ".";
  const SUITS = { c: ["♣", "clubs"], d: ["♦", "diamonds"], h: ["♥", "hearts"], s: ["♠", "spades"] };
  const RANKS = { T: "10", J: "jack", Q: "queen", K: "king", A: "ace" };
  const SUITED = /(?<![A-Za-z0-9])([2-9TJQKA])([cdhs])(?![A-Za-z0-9])/g;
  const CARD_GAMES = [
    "hearts", "gin_rummy", "bridge", "euchre", "cribbage", "blackjack", "leduc_poker", "solitaire", "kuhn_poker",
    "goofspiel",
  ];
  const OWN = /^(Your (?:hand|cards?)): ([^(]+)/; // the cards that a person may play
  const HEAD = /^\s*[a-z](?: +[a-z])+\s*$/;
  const ROW = /^\s*(\d{1,2}) (\S(?: \S)*)\s*$/;
  const LOOSE = /^\s*\S+(?:\s+\S+)+\s*$/;
  const NUMBERS = /^\s*\d+(?:\s+\d+)+\s*$/;
  const TILES = /^\s*(?:\d+|\.)(?:\s+(?:\d+|\.))+\s*$/;

  const words = (line) => line.trim().split(/\s+/);

  function html(tag, name, ...inside) {
    const element = document.createElement(tag);
    if (name) element.className = name;
    element.append(...inside);
    return element;
  }

  function svg(tag, attributes, ...inside) {
    // The page holds an empty picture, whose namespace this is.
    const element = document.createElementNS(document.getElementById("svg").namespaceURI, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...inside);
    return element;
  }

  const kindOf = (game) => game.split("(")[0];

  // Reading.

  // A text as parts in their order: strings, which are lines of prose, and grids.
  function parts(kind, text) {
    const lines = text.split("\n");
    const found = [];
    for (let at = 0; at < lines.length; ) {
      const grid =
        kind === "quoridor" ? quoridor(lines, at) : kind === "dots_and_boxes" ? dots(lines, at) : plain(kind, lines, at);
      found.push(grid ?? lines[at]);
      at = grid ? grid.end : at + 1;
    }
    return found;
  }

  function plain(kind, lines, at) {
    if (kind === "connect_four" || kind === "2048") return loose(kind, lines, at);
    const above = HEAD.test(lines[at]);
    const rows = [];
    let end = above ? at + 1 : at;
    for (; end < lines.length; end++) {
      const row = ROW.exec(lines[end]);
      if (!row || (rows.length && words(row[2]).length !== rows[0].cells.length)) break;
      rows.push({ name: row[1], cells: words(row[2]) });
    }
    if (ROW.test(lines[end] ?? "")) return null; // rows of other lengths make no such board
    const head = above ? lines[at] : (lines[end] ?? "");
    if (!rows.length || !HEAD.test(head) || words(head).length !== rows[0].cells.length) return null;
    return { columns: words(head), rows, end: above ? end : end + 1, below: !above };
  }

  // Rows without names: connect four, whose columns have numbers below, and 2048.
  function loose(kind, lines, at) {
    const rows = [];
    let end = at;
    const fits = kind === "2048" ? TILES : LOOSE;
    while (end < lines.length && fits.test(lines[end]) && !(kind !== "2048" && NUMBERS.test(lines[end]))) end++;
    for (const line of lines.slice(at, end)) rows.push({ name: "", cells: words(line) });
    if (!rows.length || rows.some((row) => row.cells.length !== rows[0].cells.length)) return null;
    if (kind === "2048") return { columns: rows[0].cells.map(() => ""), rows, end };
    const numbers = NUMBERS.test(lines[end] ?? "") ? words(lines[end]) : [];
    if (numbers.length !== rows[0].cells.length) return null;
    return { columns: numbers, rows, end: end + 1, below: true };
  }

  // Cells stand four characters apart, with walls between them that a later line names.
  function quoridor(lines, at) {
    if (!HEAD.test(lines[at])) return null;
    const columns = words(lines[at]);
    const rows = [];
    let end = at + 1;
    for (; end < lines.length && !/^[A-Z]/.test(lines[end]); end++) {
      const row = /^\s*(\d+) (.*)$/.exec(lines[end]);
      if (row) rows.push({ name: row[1], cells: columns.map((_, column) => row[2][4 * column] ?? EMPTY) });
    }
    const named = lines.slice(end).find((line) => line.startsWith("Walls on the board:")) ?? "";
    return rows.length ? { columns, rows, end, walls: named.match(/[a-z]\d+[hv]/g) ?? [] } : null;
  }

  // Dots stand four characters apart; lines of dashes and bars join them.
  function dots(lines, at) {
    if (!HEAD.test(lines[at])) return null;
    const columns = words(lines[at]);
    const [rows, joined, boxes] = [[], [], []];
    let end = at + 1;
    for (; end < lines.length && !/^[A-Z]/.test(lines[end]); end++) {
      const row = /^\s*(\d+) (\+.*)$/.exec(lines[end]);
      const indent = lines[at].search(/\S/);
      const sign = (column, shift) => lines[end][indent + 4 * column + shift] ?? " ";
      if (row) rows.push({ name: row[1], cells: columns.map(() => EMPTY) });
      else if (!rows.length || !/^[\s|A-Z]*$/.test(lines[end])) break;
      columns.forEach((_, column) => {
        if (row && sign(column, 2) === "-") joined.push([rows.length - 1, column, 0, 1]);
        if (!row && sign(column, 0) === "|") joined.push([rows.length - 1, column, 1, 0]);
        if (!row && /[A-Z]/.test(sign(column, 2))) boxes.push([rows.length - 1, column, sign(column, 2)]);
      });
    }
    return rows.length ? { columns, rows, end, joined, boxes } : null;
  }

  // Drawing.

  const nameOf = (grid, row, column) => grid.columns[column] + grid.rows[row].name;

  function centre(grid, ground, row, column) {
    const top = grid.below ? 0 : MARGIN;
    if (ground !== "hexagons") return [MARGIN + (column + 0.5) * UNIT, top + (row + 0.5) * UNIT];
    const radius = UNIT / Math.sqrt(3);
    return [MARGIN + (column + 0.5 + row / 2) * UNIT, top + radius + row * 1.5 * radius];
  }

  function hexagon(x, y) {
    const radius = UNIT / Math.sqrt(3);
    return [0, 1, 2, 3, 4, 5].map((corner) => {
      const angle = ((corner * 60 - 90) * Math.PI) / 180; // the first corner is at the top
      return [x + radius * Math.cos(angle), y + radius * Math.sin(angle)];
    });
  }

  const path = (points) => points.map((point) => point.map((at) => at.toFixed(1)).join(",")).join(" ");

  function ground(grid, kind, row, column) {
    const [x, y] = centre(grid, kind, row, column);
    const [rows, columns] = [grid.rows.length, grid.columns.length];
    if (kind === "hexagons") {
      const corners = hexagon(x, y);
      const made = [svg("polygon", { points: path(corners), class: "ground" })];
      const edge = (from, to, name) =>
        made.push(svg("polyline", { points: path(corners.slice(from, to)), class: `edge ${name}` }));
      const around = [...corners, ...corners];
      const left = (name) => made.push(svg("polyline", { points: path(around.slice(3, 6)), class: `edge ${name}` }));
      if (row === 0) made.push(svg("polyline", { points: path(around.slice(5, 8)), class: "edge red" }));
      if (row === rows - 1) edge(2, 5, "red");
      if (column === 0) left("blue");
      if (column === columns - 1) edge(0, 3, "blue");
      return made;
    }
    const square = (name) =>
      svg("rect", { x: x - UNIT / 2, y: y - UNIT / 2, width: UNIT, height: UNIT, class: `ground ${name}` });
    if (kind === "lines") {
      const line = (fromX, fromY, toX, toY) => svg("line", { x1: fromX, y1: fromY, x2: toX, y2: toY, class: "rule" });
      const half = UNIT / 2;
      return [
        square("wood"),
        line(column ? x - half : x, y, column < columns - 1 ? x + half : x, y),
        line(x, row ? y - half : y, x, row < rows - 1 ? y + half : y),
      ];
    }
    if (kind === "holes") return [square("case"), svg("circle", { cx: x, cy: y, r: UNIT * 0.4, class: "hole" })];
    if (kind === "dots") return [square("bare"), svg("circle", { cx: x, cy: y, r: 5, class: "joint" })];
    if (kind === "checkered") return [square((row + column) % 2 ? "dark" : "light")];
    return [square(kind)];
  }

  function text(x, y, size, name, words) {
    const made = svg("text", { x, y, "font-size": size, class: name });
    made.textContent = words;
    return made;
  }

  function piece(look, sign, x, y) {
    if (sign === EMPTY) return [];
    const [form, colour, , glyph] = look.pieces[sign] ?? ["text", "plain"];
    const size = UNIT * 0.38;
    const name = `piece ${colour}`;
    const disc = () => svg("circle", { cx: x, cy: y, r: size, class: name });
    switch (form) {
      case "disc":
        return [disc()];
      case "crown":
        return [disc(), text(x, y, UNIT * 0.5, `crown ${colour}`, "♛")];
      case "ring":
        return [svg("circle", { cx: x, cy: y, r: UNIT * 0.28, class: `stroke ${colour}` })];
      case "cross": {
        const arm = UNIT * 0.26;
        const stroke = (way) =>
          svg("line", { x1: x - arm, y1: y - way * arm, x2: x + arm, y2: y + way * arm, class: `stroke ${colour}` });
        return [stroke(1), stroke(-1)];
      }
      case "dot":
        return [svg("circle", { cx: x, cy: y, r: 4, class: name })];
      case "block":
        return [svg("rect", { x: x - size, y: y - size, width: 2 * size, height: 2 * size, rx: 3, class: name })];
      case "glyph":
        return [text(x, y, UNIT * 0.82, `glyph ${colour}`, glyph + "\uFE0E")];
      default:
        return [text(x, y, UNIT * (sign.length > 2 ? 0.34 : 0.5), "sign", sign)];
    }
  }

  function wall(grid, name) {
    const column = grid.columns.indexOf(name[0]);
    const row = grid.rows.findIndex((one) => one.name === name.slice(1, -1));
    const [x, y] = centre(grid, "plain", row, column);
    const half = UNIT / 2;
    const ends = name.endsWith("h") ? [x - half, y + half, x + 3 * half, y + half] : [x + half, y - half, x + half, y + 3 * half];
    return svg("line", { x1: ends[0], y1: ends[1], x2: ends[2], y2: ends[3], class: "wall" });
  }

  function spoken(look, grid, row, column) {
    const sign = grid.rows[row].cells[column];
    const what = sign === EMPTY ? "empty" : (look.pieces[sign]?.[2] ?? sign);
    const name = grid.rows[row].name ? nameOf(grid, row, column) : `column ${grid.columns[column]}, row ${row + 1} from the top`;
    return `${name}, ${what}`;
  }

  // One grid as a picture. `before` is the same grid earlier: what differs is marked. `touch` is given in a game.
  function picture(kind, grid, before, touch) {
    const look = LOOKS[kind] ?? OTHER;
    const [rows, columns] = [grid.rows.length, grid.columns.length];
    const hexagons = look.ground === "hexagons";
    const height = hexagons ? ((rows * 1.5 + 0.5) * UNIT) / Math.sqrt(3) : rows * UNIT;
    const size = [MARGIN + (columns + (hexagons ? (rows - 1) / 2 : 0)) * UNIT + 4, height + MARGIN + 4];
    const made = svg("svg", { viewBox: `-2 -2 ${size[0]} ${size[1]}`, class: `picture ${kind}`, role: touch ? "grid" : "img" });
    made.style.setProperty("--columns", String(Math.max(columns + (hexagons ? rows / 2 : 0), 4)));
    const same = before && before.rows.length === rows && before.columns.length === columns ? before : null;
    const cells = [];
    grid.rows.forEach((line, row) => {
      const group = svg("g", touch ? { role: "row" } : {});
      line.cells.forEach((sign, column) => {
        const [x, y] = centre(grid, look.ground, row, column);
        const changed = same && same.rows[row].cells[column] !== sign;
        const cell = svg(
          "g",
          { class: `cell${changed ? " new" : ""}${sign === EMPTY ? " empty" : ""}` },
          ...ground(grid, look.ground, row, column),
          ...(changed ? [svg("circle", { cx: x, cy: y, r: UNIT * 0.46, class: "halo" })] : []),
          ...piece(look, sign, x, y),
        );
        if (touch) {
          // A dot where a piece may go, a ring around one that may go or be taken.
          const mark = sign === EMPTY ? ["dot", 0.14] : ["around", 0.45];
          cell.append(svg("circle", { cx: x, cy: y, r: UNIT * mark[1], class: `mark ${mark[0]}` }));
          cell.setAttribute("role", "gridcell");
          cells.push({ element: cell, name: nameOf(grid, row, column), row, column, label: spoken(look, grid, row, column) });
        }
        group.append(cell);
      });
      const [x, y] = centre(grid, look.ground, row, 0);
      if (line.name) group.append(text(x - UNIT / 2 - MARGIN / 2, y, 13, "coordinate", line.name));
      made.append(group);
    });
    grid.columns.forEach((name, column) => {
      const row = grid.below ? rows - 1 : 0;
      const [x, y] = centre(grid, look.ground, row, column);
      const shift = hexagons ? UNIT * 0.62 : UNIT / 2;
      made.append(text(hexagons ? x - UNIT / 4 : x, grid.below ? y + shift + MARGIN / 2 : y - shift - MARGIN / 2 + 2, 13, "coordinate", name));
    });
    for (const [row, column, down, right] of grid.joined ?? []) {
      const [fromX, fromY] = centre(grid, "dots", row, column);
      made.append(svg("line", { x1: fromX, y1: fromY, x2: fromX + right * UNIT, y2: fromY + down * UNIT, class: "wall" }));
    }
    for (const [row, column, owner] of grid.boxes ?? []) {
      const [x, y] = centre(grid, "dots", row, column);
      made.append(text(x + UNIT / 2, y + UNIT / 2, UNIT * 0.5, "sign", owner));
    }
    for (const name of grid.walls ?? []) made.append(wall(grid, name));
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
      const place = (row, column) => made.find((one) => one.row === row && one.column === column);
      for (const one of made) {
        one.element.setAttribute("tabindex", one === made[0] ? "0" : "-1");
        one.element.dataset.at = `${one.row},${one.column}`;
        one.element.addEventListener("click", () => point(one.name));
        one.element.addEventListener("focus", () => {
          for (const other of made) other.element.setAttribute("tabindex", other === one ? "0" : "-1");
        });
        one.element.addEventListener("keydown", (event) => {
          const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
          if (step) place(one.row + step[0], one.column + step[1])?.element.focus();
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
  // game: the case. before: an earlier text, or undefined. choices and choose: what may be played, in a game.
  function draw(game, content, { before, choices, choose } = {}) {
    const kind = kindOf(game);
    const found = parts(kind, content);
    const grids = (list) => list.filter((part) => typeof part !== "string");
    if (!grids(found).length && !CARD_GAMES.includes(kind)) return null;
    const earlier = before === undefined ? [] : grids(parts(kind, before));
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
    }
    if (hands) {
      hands.show();
      made.append(hands.chooser);
    }
    return made;
  }

  return { draw };
})();
