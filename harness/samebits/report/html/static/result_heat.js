"use strict";
// Where in an array elements differ: a heat map with the borders of devices, and the same as text.
(() => {
  const { element, svg } = samebits;
  const parts = samebits.resultParts;
  const LISTED = 12;

  /** The rows of counts; `5*3` stands for three 5. None where the text is not that. */
  function unpacked(counts) {
    const rows = counts.split("\n").map((line) => line.split(" ").flatMap((text) => {
      const [count, times] = text.split("*").map(Number);
      return Array.from({ length: Math.min(times ?? 1, 64) || 1 }, () => count);
    }));
    return rows.flat().every((count) => Number.isFinite(count)) && rows.every((row) => row.length === rows[0].length) ? rows : null;
  }

  /** How long one part of an axis is: parts of one axis differ by one element where it does not divide. */
  function length(axis, part) {
    return Math.ceil(((part + 1) * axis.size) / axis.bins) - Math.ceil((part * axis.size) / axis.bins);
  }

  /** The share of the elements of each part that differ, the largest being 1. */
  function shares(rows, axes) {
    const [down, across] = axes.length === 2 ? axes : [null, axes[0] ?? null];
    const density = rows.map((row, y) => row.map((count, x) =>
      count / ((down === null ? 1 : length(down, y)) * (across === null ? 1 : length(across, x)))));
    const most = Math.max(...density.flat());
    return density.map((row) => row.map((share) => (most > 0 ? share / most : 0)));
  }

  /** The elements in one part of an axis, in words. */
  function extent(axis, part) {
    const first = Math.ceil((part * axis.size) / axis.bins);
    const last = Math.ceil(((part + 1) * axis.size) / axis.bins) - 1;
    return first === last ? `${first}` : `${first} to ${last}`;
  }

  /** A place of the map in words. */
  function place(axes, row, column) {
    if (axes.length === 0) return "the only element";
    const of = axes.length === 1 ? [[axes[0], column]] : [[axes[0], row], [axes[1], column]];
    return of.map(([axis, part]) => `axis ${axis.axis}: ${extent(axis, part)}`).join(", ");
  }

  /** What the map shows, in a sentence. */
  function sentence(rows, axes, total) {
    const cells = rows.flatMap((row, y) => row.map((count, x) => ({ count, x, y })));
    const some = cells.filter((cell) => cell.count > 0).sort((a, b) => b.count - a.count);
    const span = (key, axis) => {
      const at = some.map((cell) => cell[key]);
      const [low, high] = [Math.min(...at), Math.max(...at)];
      return `axis ${axis.axis} from ${extent(axis, low).split(" ")[0]} to ${extent(axis, high).split(" ").at(-1)} of 0 to ${axis.size - 1}`;
    };
    if (some.length === 0) return "No element differs.";
    const spans = axes.length === 0 ? "" : ` They lie in ${axes.map((axis, n) => span(axes.length === 1 || n === 1 ? "x" : "y", axis)).join(", ")}.`;
    const parts = cells.length === 1 ? "" : ` in ${some.length} of ${cells.length} parts`;
    return `${samebits.count(total)} differing element${total === 1 ? "" : "s"}${parts}.${spans}`;
  }

  /** The drawing: rows are the first axis, columns the second; thick lines are the borders of devices. */
  function drawing(rows, axes, words, owners) {
    const [height, width] = [rows.length, rows[0].length];
    const [across, down] = [Math.max(9, Math.min(34, Math.floor(330 / width))), Math.max(9, Math.min(30, Math.floor(250 / height)))];
    const [left, top] = [axes.length === 2 ? 34 : 4, 18];
    const share = shares(rows, axes);
    const [w, h] = [width * across, height * down];
    const nodes = rows.flatMap((row, y) => row.map((count, x) => svg("rect", {
      x: left + x * across, y: top + y * down, width: across, height: down, class: count === 0 ? "none" : "some",
      ...(count === 0 ? {} : { "fill-opacity": 0.25 + 0.75 * share[y][x] }),
    }, svg("title", {}, `${place(axes, y, x)}: ${samebits.count(count)} differ`))));
    if (down >= 14) {
      nodes.push(...rows.flatMap((row, y) => row.flatMap((count, x) => (count === 0 || String(count).length * 6.5 > across ? [] : [
        svg("text", { x: left + (x + 0.5) * across, y: top + (y + 0.5) * down + 4, "text-anchor": "middle", class: "count" }, String(count))]))));
    }
    const second = axes.at(-1);
    for (const border of second?.borders ?? []) {
      const x = left + (w * border) / second.size;
      nodes.push(svg("line", { x1: x, x2: x, y1: top - 5, y2: top + h, class: "border" }));
    }
    if (axes.length === 2) {
      for (const border of axes[0].borders) {
        const y = top + (h * border) / axes[0].size;
        nodes.push(svg("line", { x1: left - 5, x2: left + w, y1: y, y2: y, class: "border" }));
      }
      nodes.push(svg("text", { x: 0, y: top + 10 }, "0"), svg("text", { x: 0, y: top + h }, String(axes[0].size - 1)));
    }
    if (second !== undefined) {
      nodes.push(svg("text", { x: left, y: 11 }, "0"), svg("text", { x: left + w, y: 11, "text-anchor": "end" }, String(second.size - 1)));
    }
    for (const owner of owners) {
      const [x, y] = [left + (w * owner.x) + 2, top + (h * owner.y) + 11];
      nodes.push(svg("text", { x, y, class: "owner" }, owner.name));
    }
    nodes.push(svg("rect", { x: left, y: top, width: w, height: h, class: "frame" }));
    return svg("svg", { class: "heat", viewBox: `0 0 ${left + w + 4} ${top + h + 4}`, width: left + w + 4, height: top + h + 4, role: "img", "aria-label": words }, ...nodes);
  }

  /** Which device has which region of the map, where there are few. */
  function regions(result, head, axes) {
    const held = samebits.pieces(result, head).find((each) => each.own)?.pieces ?? null;
    if (held === null || axes.length === 0) return [];
    const named = new Map();
    for (const piece of held) {
      const starts = axes.map((axis) => (piece.ranges[axis.axis]?.[0] ?? 0) / axis.size);
      const [y, x] = axes.length === 1 ? [0, starts[0]] : starts;
      const key = `${x} ${y}`;
      if (!named.has(key)) named.set(key, { x, y, devices: [] });
      named.get(key).devices.push(piece.device);
    }
    if (named.size < 2 || named.size > 16) return [];
    return [...named.values()].map((region) => ({ ...region, name: `dev ${region.devices.length > 2 ? `${region.devices[0]}…` : region.devices.join(",")}` }));
  }

  /** The axes of a map: number, length, how many parts are counted, and where the parts of further devices begin. */
  function axesOf(edges, rows) {
    const entries = Object.entries(edges);
    return entries.map(([axis, text], n) => {
      const places = text.split(" ").map(Number);
      const bins = entries.length === 2 && n === 0 ? rows.length : rows[0].length;
      return { axis: Number(axis), size: places.at(-1), bins, borders: places.slice(1, -1) };
    });
  }

  parts.heat = (result, head) => {
    const { edges, counts } = result.picture.heat;
    const rows = unpacked(counts);
    const axes = rows === null ? [] : axesOf(edges, rows);
    if (rows === null || axes.some((axis) => !(axis.size >= axis.bins))) return [element("pre", {}, counts)];
    const total = rows.flat().reduce((sum, count) => sum + count, 0);
    const words = sentence(rows, axes, total);
    const bordered = axes.filter((axis) => axis.borders.length > 0);
    const lines = bordered.length === 0 ? "" : ` Thick lines: where the part of another device begins (${bordered.map((axis) => `axis ${axis.axis} at ${axis.borders.join(", ")}`).join("; ")}).`;
    const named = axes.map((axis, n) => `${axes.length === 2 && n === 0 ? "down" : "across"}: axis ${axis.axis} in ${axis.bins} parts of ${axis.size} elements`);
    const cells = rows.flatMap((row, y) => row.map((count, x) => [place(axes, y, x), count])).filter(([, count]) => count > 0).sort((a, b) => b[1] - a[1]);
    const listed = cells.length < 2 ? null : element("details", {}, element("summary", {}, "The same as a table"),
      samebits.table(["part", "elements that differ"], cells.slice(0, LISTED).map(([where, count]) => [where, samebits.count(count)]),
        cells.length > LISTED ? `The ${LISTED} parts with the most of ${cells.length}` : "Parts with elements that differ"));
    const dark = cells.length < 2 ? "" : " The darker, the more of a part differs.";
    return [element("p", {}, words), element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Heat map" }, drawing(rows, axes, words, regions(result, head, axes))),
      element("p", { class: "note" }, `${named.join("; ")}${named.length > 0 ? "." : ""}${dark}${lines}`), listed];
  };

  /** How many elements differ by input and by device. */
  parts.counts = (picture) => {
    const tables = [["input", picture.inputs], ["devices", picture.devices]].filter(([, counts]) => Object.keys(counts).length > 0);
    return tables.length === 0 ? null : element("div", { class: "side-by-side" }, ...tables.map(([name, counts]) => samebits.table([name, "elements that differ"],
      Object.entries(counts).map(([key, count]) => [key, samebits.count(count)]), `By ${name}`)));
  };
})();
