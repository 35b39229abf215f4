// Grids as pictures. Text reaches the page through textContent and attributes alone: a text may hold anything.
const BoardForms = (() => {
  const { EMPTY } = BoardText;
  const UNIT = 40; // the width of a cell, in the picture's own units
  const MARGIN = 24; // for coordinates
  const GLYPHS = { k: "♚", q: "♛", r: "♜", b: "♝", n: "♞", p: "♟" };
  const CHESS = { k: "king", q: "queen", r: "rook", b: "bishop", n: "knight", p: "pawn" };
  const discs = (x, o, name = "disc") => ({ x: ["disc", x, `${x} ${name}`], o: ["disc", o, `${o} ${name}`] });
  const STONES = { O: ["disc", "white", "white stone"], "@": ["disc", "black", "black stone"] };
  const SIDES = { O: "player 0", "@": "player 1" };
  const MARKS = { x: ["cross", "red", "x"], o: ["ring", "blue", "o"] };
  const chessmen = Object.fromEntries(
    Object.keys(GLYPHS).flatMap((sign) => [
      [sign, ["glyph", "black", `black ${CHESS[sign]}`, GLYPHS[sign]]],
      [sign.toUpperCase(), ["glyph", "white", `white ${CHESS[sign]}`, GLYPHS[sign]]],
    ]),
  );
  // How a game looks: its ground, and for each sign the form of the piece, its colour, and how it is called;
  // for signs that are not what a side is called, its name.
  const LOOKS = {
    hex: { ground: "hexagons", edges: true, pieces: discs("red", "blue", "stone") },
    y: { ground: "hexagons", pieces: STONES, sides: SIDES },
    havannah: { ground: "hexagons", pieces: STONES, sides: SIDES },
    backgammon: { ground: "points", pieces: discs("black", "white", "checker") },
    oware: { ground: "pits", pieces: {} },
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

  function text(x, y, size, name, words) {
    const made = svg("text", { x, y, "font-size": size, class: name });
    made.textContent = words;
    return made;
  }

  const circle = (x, y, r, name) => svg("circle", { cx: x, cy: y, r, class: name });
  const rect = (x, y, width, height, name, rx = 0) => svg("rect", { x, y, width, height, rx, class: name });
  const path = (points) => points.map((point) => point.map((at) => at.toFixed(1)).join(",")).join(" ");
  const nameOf = (grid, row, column) => grid.rows[row].names?.[column] ?? grid.columns[column] + grid.rows[row].name;
  const plural = (count, thing) => `${count} ${thing}${count === 1 ? "" : "s"}`;

  function piece(look, sign, x, y) {
    if (sign === EMPTY) return [];
    const [form, colour, , glyph] = look.pieces[sign] ?? ["text", "plain"];
    const size = UNIT * 0.38;
    const name = `piece ${colour}`;
    const disc = () => circle(x, y, size, name);
    switch (form) {
      case "disc":
        return [disc()];
      case "crown":
        return [disc(), text(x, y, UNIT * 0.5, `crown ${colour}`, "♛")];
      case "ring":
        return [circle(x, y, UNIT * 0.28, `stroke ${colour}`)];
      case "cross": {
        const arm = UNIT * 0.26;
        const stroke = (way) =>
          svg("line", { x1: x - arm, y1: y - way * arm, x2: x + arm, y2: y + way * arm, class: `stroke ${colour}` });
        return [stroke(1), stroke(-1)];
      }
      case "dot":
        return [circle(x, y, 4, name)];
      case "block":
        return [svg("rect", { x: x - size, y: y - size, width: 2 * size, height: 2 * size, rx: 3, class: name })];
      case "glyph":
        return [text(x, y, UNIT * 0.82, `glyph ${colour}`, glyph + "\uFE0E")];
      default:
        return [text(x, y, UNIT * (sign.length > 2 ? 0.34 : 0.5), "sign", sign)];
    }
  }

  // A form of boards: `size` of a grid, `at` which point the marks of a cell stand, its `ground`, the `sign` on it, how
  // it is `spoken`, the `names` of rows and columns with their places, and what lies `under` and `over` all cells.

  const left = (grid) => (grid.rows[0].name ? MARGIN : 0);

  const squares = {
    size: (grid) => [left(grid) + grid.columns.length * UNIT, MARGIN + grid.rows.length * UNIT],
    at: (grid, row, column) => [left(grid) + (column + 0.5) * UNIT, (grid.below ? 0 : MARGIN) + (row + 0.5) * UNIT],
    ground(grid, look, row, column) {
      const [x, y] = squares.at(grid, row, column);
      const half = UNIT / 2;
      const square = (name) => rect(x - half, y - half, UNIT, UNIT, `ground ${name}`);
      switch (look.ground) {
        case "lines": {
          const line = (fromX, fromY, toX, toY) => svg("line", { x1: fromX, y1: fromY, x2: toX, y2: toY, class: "rule" });
          return [
            square("wood"),
            line(column ? x - half : x, y, column < grid.columns.length - 1 ? x + half : x, y),
            line(x, row ? y - half : y, x, row < grid.rows.length - 1 ? y + half : y),
          ];
        }
        case "holes":
          return [square("case"), circle(x, y, UNIT * 0.4, "hole")];
        case "dots":
          return [square("bare"), circle(x, y, 5, "joint")];
        case "checkered":
          return [square((row + column) % 2 ? "dark" : "light")];
        default:
          return [square(look.ground)];
      }
    },
    sign: (grid, look, row, column, form) => piece(look, grid.rows[row].cells[column], ...form.at(grid, row, column)),
    spoken(grid, look, row, column) {
      const sign = grid.rows[row].cells[column];
      const what = sign === EMPTY ? "empty" : (look.pieces[sign]?.[2] ?? sign);
      const place = grid.rows[row].name
        ? nameOf(grid, row, column)
        : `column ${grid.columns[column]}, row ${row + 1} from the top`;
      return `${place}, ${what}`;
    },
    names(grid) {
      const middle = (UNIT + MARGIN) / 2;
      const rows = grid.rows.map((line, row) => {
        const [x, y] = squares.at(grid, row, 0);
        return [x - middle, y, line.name];
      });
      const columns = grid.columns.map((name, column) => {
        const [x, y] = squares.at(grid, grid.below ? grid.rows.length - 1 : 0, column);
        return [x, grid.below ? y + middle : y - middle + 2, name];
      });
      return [...rows, ...columns];
    },
    under: () => [],
    over(grid) {
      const joined = (grid.joined ?? []).map(([row, column, down, right]) => {
        const [x, y] = squares.at(grid, row, column);
        return svg("line", { x1: x, y1: y, x2: x + right * UNIT, y2: y + down * UNIT, class: "wall" });
      });
      const boxes = (grid.boxes ?? []).map(([row, column, owner]) => {
        const [x, y] = squares.at(grid, row, column);
        return text(x + UNIT / 2, y + UNIT / 2, UNIT * 0.5, "sign", owner);
      });
      return [...joined, ...boxes, ...(grid.walls ?? []).map((name) => wall(grid, name))];
    },
  };

  function wall(grid, name) {
    const column = grid.columns.indexOf(name[0]);
    const row = grid.rows.findIndex((one) => one.name === name.slice(1, -1));
    const [x, y] = squares.at(grid, row, column);
    const half = UNIT / 2;
    const ends = name.endsWith("h") ? [x - half, y + half, x + 3 * half, y + half] : [x + half, y - half, x + half, y + 3 * half];
    return svg("line", { x1: ends[0], y1: ends[1], x2: ends[2], y2: ends[3], class: "wall" });
  }


  const RADIUS = UNIT / Math.sqrt(3); // of a hexagon
  const firstOf = (line) => line.cells.findIndex((sign) => sign !== null);

  const hexagons = {
    ...squares,
    size(grid) {
      const ends = grid.rows.map((line, row) => hexagons.at(grid, row, line.cells.findLastIndex((sign) => sign !== null)));
      return [Math.max(...ends.map(([x]) => x)) + UNIT / 2, MARGIN + (grid.rows.length * 1.5 + 0.5) * RADIUS];
    },
    // Each row is half a cell to the right of the one above it, or to the left.
    at(grid, row, column) {
      const lean = grid.lean ?? 0.5;
      const least = Math.min(...grid.rows.map((line, number) => firstOf(line) + lean * number));
      return [MARGIN + (column + 0.5 + lean * row - least) * UNIT, MARGIN + RADIUS + row * 1.5 * RADIUS];
    },
    ground(grid, look, row, column) {
      const [x, y] = hexagons.at(grid, row, column);
      const corners = [0, 1, 2, 3, 4, 5].map((corner) => {
        const angle = ((corner * 60 - 90) * Math.PI) / 180; // the first corner is at the top
        return [x + RADIUS * Math.cos(angle), y + RADIUS * Math.sin(angle)];
      });
      const around = [...corners, ...corners];
      const edge = (from, colour) => svg("polyline", { points: path(around.slice(from, from + 3)), class: `edge ${colour}` });
      const edges = [
        [row === 0, 5, "red"],
        [row === grid.rows.length - 1, 2, "red"],
        [column === 0, 3, "blue"],
        [column === grid.columns.length - 1, 0, "blue"],
      ];
      const drawn = look.edges ? edges.filter(([there]) => there).map(([, from, colour]) => edge(from, colour)) : [];
      return [svg("polygon", { points: path(corners), class: "ground" }), ...drawn];
    },
    names(grid) {
      const rows = grid.rows.map((line, row) => {
        const [x, y] = hexagons.at(grid, row, firstOf(line));
        return [x - (UNIT + MARGIN) / 2, y, line.name];
      });
      // A column is named at its upper end.
      const columns = grid.columns.map((name, column) => {
        const row = grid.rows.findIndex((line) => line.cells[column] !== null);
        const [x, y] = hexagons.at(grid, row, column);
        return [x - ((grid.lean ?? 0.5) * UNIT) / 2, y - UNIT * 0.62 - MARGIN / 2 + 2, name];
      });
      return [...rows, ...columns];
    },
  };

  // Backgammon: two halves of points, each with the bar and a tray, and the dice between them.
  const BAR = 6;
  const TRAY = 13;
  const POINT = 5.4 * UNIT; // how high a half is
  const BETWEEN = 1.2 * UNIT;
  const STACK = 5; // so many checkers are drawn on a point, with their number on top

  const points = {
    ...squares,
    size: () => [(TRAY + 1) * UNIT, 2 * (MARGIN + POINT) + BETWEEN],
    heap(grid, row, column) {
      const sign = grid.rows[row].cells[column];
      return sign === EMPTY ? ["", 0] : [sign[0], Number(sign.slice(1))];
    },
    // The checkers of a point, and the place of the next one: from the edge on, those of the bar from the middle on.
    place(row, column, number) {
      const step = column === TRAY ? POINT / 15.5 : UNIT * 0.86;
      const far = (number + 0.5) * step;
      const fromEdge = column === BAR ? POINT - far : far;
      return [(column + 0.5) * UNIT, MARGIN + (row ? 2 * POINT + BETWEEN - fromEdge : fromEdge)];
    },
    at(grid, row, column) {
      const count = points.heap(grid, row, column)[1];
      return points.place(row, column, Math.max(0, (column === TRAY ? count : Math.min(count, STACK)) - 1));
    },
    ground(grid, look, row, column) {
      const top = MARGIN + row * (POINT + BETWEEN);
      const name = column === BAR ? "beam" : column === TRAY ? "tray" : "felt";
      const made = [rect(column * UNIT, top, UNIT, POINT, `ground ${name}`)];
      if (name === "felt") {
        const [base, tip] = row ? [top + POINT, top + 0.08 * POINT] : [top, top + 0.92 * POINT];
        const corners = [[column * UNIT + 2, base], [(column + 1) * UNIT - 2, base], [(column + 0.5) * UNIT, tip]];
        made.push(svg("polygon", { points: path(corners), class: `spike ${(row + column + (column > BAR)) % 2 ? "dark" : "light"}` }));
      }
      return made;
    },
    sign(grid, look, row, column) {
      const [owner, count] = points.heap(grid, row, column);
      const colour = look.pieces[owner]?.[1];
      const shown = Array.from({ length: column === TRAY ? count : Math.min(count, STACK) }, (_, number) => {
        const [x, y] = points.place(row, column, number);
        return column === TRAY
          ? rect(x - UNIT * 0.38, y - POINT / 33, UNIT * 0.76, POINT / 16.5, `piece ${colour}`, 2)
          : circle(x, y, UNIT * 0.42, `piece ${colour}`);
      });
      if (count <= STACK || column === TRAY) return shown;
      return [...shown, text(...points.at(grid, row, column), UNIT * 0.42, `count ${colour}`, count)];
    },
    spoken(grid, look, row, column) {
      const [owner, count] = points.heap(grid, row, column);
      const name = nameOf(grid, row, column);
      const side = look.pieces[grid.rows[row].owner][1];
      const place = column === BAR ? `bar of ${side}` : column === TRAY ? `borne off by ${side}` : `point ${name}`;
      return `${place}, ${count ? plural(count, look.pieces[owner][2]) : "empty"}`;
    },
    names: (grid) =>
      grid.rows.flatMap((line, row) =>
        line.names.map((name, column) => [(column + 0.5) * UNIT, row ? 1.5 * MARGIN + 2 * POINT + BETWEEN : MARGIN / 2, name]),
      ),
    under: () => [rect(0, MARGIN + POINT, (TRAY + 1) * UNIT, BETWEEN, "beam")],
    over: (grid) =>
      grid.dice.flatMap((eyes, number) => die((10 + 1.2 * (number - (grid.dice.length - 1) / 2)) * UNIT, MARGIN + POINT + BETWEEN / 2, eyes)),
  };

  // Where the eyes of a die stand, from its middle.
  const EYES = { 1: [[0, 0]], 2: [[-1, -1], [1, 1]], 4: [[-1, -1], [-1, 1], [1, -1], [1, 1]] };
  EYES[3] = [...EYES[1], ...EYES[2]];
  EYES[5] = [...EYES[1], ...EYES[4]];
  EYES[6] = [...EYES[4], [-1, 0], [1, 0]];

  function die(x, y, eyes) {
    const half = UNIT * 0.42;
    const shown = EYES[eyes].map(([right, down]) => circle(x + right * half * 0.55, y + down * half * 0.55, 3.2, "eye"));
    return [rect(x - half, y - half, 2 * half, 2 * half, "die", 6), ...shown];
  }

  // Oware: two rows of pits with seeds, each seed drawn, and a store at either end.
  const PIT = 1.25 * UNIT; // how wide a house is
  const [UPPER, LOWER] = [MARGIN + PIT / 2, MARGIN + 2.25 * PIT];

  const pits = {
    ...squares,
    ring: 0.57,
    size: (grid) => [(grid.columns.length + 2) * PIT, LOWER + PIT / 2 + MARGIN],
    at: (grid, row, column) => [(column + 1.5) * PIT, row ? LOWER : UPPER],
    ground: (grid, look, row, column) => [circle(...pits.at(grid, row, column), UNIT * 0.56, "ground pit")],
    sign(grid, look, row, column) {
      const [x, y] = pits.at(grid, row, column);
      const count = Number(grid.rows[row].cells[column]);
      return [...seeds(x, y, count, UNIT * 0.5, 1), text(x, y + (row ? -1 : 1) * PIT * 0.62, UNIT * 0.4, "number", count)];
    },
    spoken: (grid, look, row, column) =>
      `house ${nameOf(grid, row, column)}, ${plural(Number(grid.rows[row].cells[column]), "seed")}`,
    names: (grid) =>
      grid.rows.flatMap((line, row) =>
        line.names.map((name, column) => [(column + 1.5) * PIT, row ? LOWER + PIT / 2 + MARGIN / 2 : MARGIN / 2, name]),
      ),
    under(grid) {
      const [width, height] = [(grid.columns.length + 2) * PIT, LOWER + PIT / 2 - MARGIN];
      const store = (x, owner) => {
        const middle = MARGIN + height / 2;
        return [
          rect(x - PIT * 0.38, MARGIN + 6, PIT * 0.76, height - 12, "pit", PIT * 0.38),
          ...seeds(x, middle, grid.captured[owner], UNIT * 0.42, 2.2),
          text(x, owner ? MARGIN + 18 : MARGIN + height - 18, UNIT * 0.45, "number", grid.captured[owner]),
          text(x, owner ? MARGIN / 2 : 1.5 * MARGIN + height, 12, "coordinate", `player ${owner}`),
        ];
      };
      return [rect(0, MARGIN, width, height, "wooden", 16), ...store(PIT / 2, 1), ...store(width - PIT / 2, 0)];
    },
    over: () => [],
  };

  // Seeds lie as those of a sunflower do; `tall` stretches their heap.
  function seeds(x, y, count, radius, tall) {
    const step = Math.min(6.5, radius / Math.sqrt(count * 1.15));
    return Array.from({ length: count }, (_, number) => {
      const [far, angle] = [step * Math.sqrt(number + 0.3), number * 2.4];
      return circle(x + far * Math.cos(angle), y + tall * far * Math.sin(angle), Math.min(4, step * 0.7), "seed");
    });
  }

  const FORMS = { hexagons, points, pits };

  // How a kind of game looks, and the form of its board.
  function lookOf(kind) {
    const look = LOOKS[kind] ?? OTHER;
    return [look, FORMS[look.ground] ?? squares];
  }

  // Whose discs have which colour; null where nobody has any.
  function legend(look) {
    const sides = Object.entries(look.pieces).filter(([, [form]]) => form === "disc");
    const made = sides.map(([sign, [, colour]]) => {
      const disc = svg("svg", { viewBox: "-10 -10 20 20", "aria-hidden": "true" }, circle(0, 0, 9, `piece ${colour}`));
      return html("span", "", disc, `${look.sides?.[sign] ?? sign}: ${colour}`);
    });
    return made.length ? html("p", "legend", ...made) : null;
  }

  return { UNIT, circle, html, legend, lookOf, nameOf, svg, text };
})();
