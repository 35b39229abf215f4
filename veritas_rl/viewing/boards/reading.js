"use strict";
// Boards as they stand in the text that a seat is shown. A grid has rows of cells, each with the sign that stands there.
const BoardText = (() => {
  const EMPTY = ".";
  const HEAD = /^\s*[a-z](?: +[a-z])+\s*$/;
  const ROW = /^\s*(\d{1,2}) (\S(?: \S)*)\s*$/;
  const SLANTED_ROW = /^\s*(\d{1,2})[ [](.*)$/;
  const LOOSE = /^\s*\S+(?:\s+\S+)+\s*$/;
  const NUMBERS = /^\s*\d+(?:\s+\d+)+\s*$/;
  const TILES = /^\s*(?:\d+|\.)(?:\s+(?:\d+|\.))+\s*$/;
  const READERS = {
    connect_four: loose, 2048: loose, quoridor, dots_and_boxes: dots, backgammon: points, oware: houses, y: slanted,
    havannah: slanted,
  };

  const words = (line) => line.trim().split(/\s+/);
  const kindOf = (game) => game.split("(")[0];

  // A text as parts in their order: strings, which are lines of prose, and grids. `role` is what the reader is called.
  function parts(kind, text, role = "") {
    const lines = text.split("\n");
    const read = READERS[kind] ?? plain;
    const found = [];
    for (let at = 0; at < lines.length; ) {
      const grid = read(lines, at, kind, role);
      found.push(grid ?? lines[at]);
      at = grid ? grid.end : at + 1;
    }
    return found;
  }

  function plain(lines, at) {
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
  function loose(lines, at, kind) {
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

  // The rows of y get shorter; those of havannah get longer and then shorter. A cell that does not exist is null.
  function slanted(lines, at, kind) {
    if (!HEAD.test(lines[at])) return null;
    const width = words(lines[at]).length;
    const count = kind === "y" ? width : 2 * width - 1;
    const rows = [];
    for (let row = 0; row < count; row++) {
      const read = SLANTED_ROW.exec(lines[at + 1 + row] ?? "");
      const stones = read?.[2].match(/[.@O]/g) ?? [];
      const first = kind === "y" ? 0 : Math.max(0, row - width + 1);
      if (stones.length !== (kind === "y" ? width - row : count - Math.abs(width - 1 - row))) return null;
      rows.push({ name: read[1], cells: Array.from({ length: count }, (_, column) => stones[column - first] ?? null) });
    }
    return { columns: [..."abcdefghijklmnopqrstuvwxyz"].slice(0, count), rows, end: at + 1 + count, lean: kind === "y" ? 0.5 : -0.5 };
  }

  // Two halves with the points, the bar and the checkers that were borne off. The reader's own side is below.
  function points(lines, at, _, role) {
    const row = (number) => words((lines[at + number] ?? "").replace("|", " "));
    const names = [row(0), row(4)];
    const expected = Array.from({ length: 12 }, (_, index) => index + 13);
    if (names[0].join() !== expected.join() || names[1].join() !== expected.map((point) => 25 - point).join()) return null;
    const after = lines.slice(at + 5);
    const said = (start) => after.find((line) => line.startsWith(start)) ?? "";
    const count = (start, owner) => Number(said(start).match(`${owner} (\\d+)`)?.[1] ?? 0);
    const heap = (start, owner) => (count(start, owner) ? owner + count(start, owner) : EMPTY);
    const mine = role.endsWith("o") ? "o" : "x";
    const rows = [row(1), row(3)].map((cells, half) => {
      const owner = (half === 1) === (mine === "x") ? "x" : "o";
      const [bar, off] = [heap("On the bar:", owner), heap("Borne off:", owner)];
      const called = half === 1 ? ["bar", "off"] : ["", ""]; // nobody moves the other side's
      return {
        name: "",
        owner,
        cells: [...cells.slice(0, 6), bar, ...cells.slice(6), off],
        names: [...names[half].slice(0, 6), called[0], ...names[half].slice(6), called[1]],
      };
    });
    const dice = /^(?:Your|The other player's) dice: ([1-6](?:, [1-6])*)/m.exec(after.join("\n"))?.[1].split(", ") ?? [];
    return { columns: rows[0].cells.map(() => ""), rows, end: at + 5, dice: dice.map(Number) };
  }

  // Houses with seeds, between two rows of their names, and what each side has captured.
  function houses(lines, at) {
    const [above, upper, lower, below] = lines.slice(at, at + 4);
    if (!HEAD.test(above) || !NUMBERS.test(upper ?? "") || !NUMBERS.test(lower ?? "")) return null;
    const rows = [
      { name: "", cells: words(upper), names: words(above) },
      { name: "", cells: words(lower), names: words(below ?? "") },
    ];
    if (new Set(rows.flatMap((row) => [row.cells.length, row.names.length])).size !== 1) return null;
    const captured = /^Captured so far: player 0: (\d+), player 1: (\d+)$/m.exec(lines.slice(at + 4).join("\n"));
    return { columns: rows[0].cells.map(() => ""), rows, end: at + 4, captured: captured ? [+captured[1], +captured[2]] : [0, 0] };
  }

  return { EMPTY, kindOf, parts, words };
})();
