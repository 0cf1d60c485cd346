"use strict";
// Values of both sides around the witness, how far elements are apart, and the accuracy of both sides.
(() => {
  const { element } = samebits;
  const parts = samebits.resultParts;

  const lines = (text) => text.split("\n").map((line) => line.split(" "));

  /** The ranges of an index such as `[0, 3:6, 10:15]`: of each dimension the first place and the end. */
  function ranges(elements) {
    const inner = elements.slice(1, -1);
    return inner === "" ? [] : inner.split(",").map((text) => {
      const [start, end] = text.split(":").map(Number);
      return { start, end: end ?? start + 1, range: end !== undefined };
    });
  }

  /** The difference of two numbers as they are printed; words where there is none. */
  function difference(reference, optimized, hex, otherHex) {
    if (hex === otherHex) return "=";
    const [first, second] = [Number(reference), Number(optimized)];
    if (Number.isNaN(first) || Number.isNaN(second)) return reference === optimized ? "other bits" : "no number";
    if (first === second) return Object.is(first, second) || !hex.startsWith("0x") || first !== 0 ? "other bits" : "other sign";
    return Number((second - first).toPrecision(4)).toString();
  }

  function grid(title, window, shape, cell) {
    const head = shape.columns === null ? null : element("tr", {}, element("th", { scope: "col" }, shape.corner),
      ...shape.columns.map((place) => element("th", { scope: "col" }, String(place))));
    const rows = shape.rows.map((place, row) => element("tr", {}, element("th", { scope: "row" }, String(place)),
      ...window.map((_, column) => cell(row, column))));
    return element("div", { class: "scroll values", tabindex: "0", role: "region", "aria-label": title },
      element("table", {}, element("caption", {}, title), head === null ? null : element("thead", {}, head), element("tbody", {}, ...rows)));
  }

  /** Reference, variant, difference and ideal, side by side. */
  parts.values = (result) => {
    const window = result.picture?.window ?? null;
    if (window === null) return witness(result);
    const [reference, optimized] = [lines(window.reference), lines(window.optimized)];
    const [hex, otherHex] = [lines(window.reference_hex), lines(window.optimized_hex)];
    const ideal = window.ideal === null ? null : lines(window.ideal);
    const index = ranges(window.elements);
    const across = index.filter((each) => each.range);
    const places = (range, count) => Array.from({ length: count }, (_, step) => (range === undefined ? "" : range.start + step));
    const columns = places(across.at(-1), reference[0].length);
    const rows = places(across.length > 1 ? across[0] : undefined, reference.length);
    const dimensions = index.flatMap((each, axis) => (each.range ? [axis] : []));
    const shape = { rows, columns, corner: dimensions.length > 1 ? `axis ${dimensions[0]} \\ ${dimensions[1]}` : "" };
    const at = result.witness?.input === window.input ? across.map((each) => result.witness.index[index.indexOf(each)] - each.start) : [];
    const [row0, column0] = at.length > 1 ? at : [0, at[0] ?? 0];
    function cell(values, hexes) {
      return (row, column) => {
        const apart = hex[row]?.[column] !== otherHex[row]?.[column];
        const here = row === row0 && column === column0 && result.witness !== null;
        return element("td", { class: `${apart ? "apart" : ""}${here ? " witness" : ""}` }, values[row]?.[column] ?? "",
          hexes === null ? null : element("small", {}, hexes[row]?.[column] ?? ""), here ? element("span", { class: "hidden" }, " (the witness)") : null);
      };
    }
    const gaps = reference.map((row, at) => row.map((value, column) =>
      difference(value, optimized[at]?.[column], hex[at]?.[column], otherHex[at]?.[column])));
    const note = `${result.leaf}${window.elements} on the input "${window.input}"; the witness is outlined`;
    return [element("p", { class: "note" }, note), element("div", { class: "side-by-side" },
      grid("reference", reference[0], shape, cell(reference, hex)),
      grid("variant", reference[0], shape, cell(optimized, otherHex)),
      grid("variant minus reference", reference[0], shape, cell(gaps, null)),
      ideal === null ? null : grid("ideal, the reference's formula in float64", reference[0], shape, cell(ideal, null)))];
  };

  /** The witness alone, of documents that have no more. */
  function witness(result) {
    const shown = result.witness;
    if (shown === null) return null;
    const gap = shown.ulps === null || shown.ulps === undefined ? null : samebits.ulps(shown.ulps, shown.kind);
    return samebits.facts([["element", `${shown.leaf}[${(shown.index ?? []).join(", ")}]`], ["input", shown.input],
      ["reference", `${shown.reference} (${shown.reference_hex})`], ["variant", `${shown.optimized} (${shown.optimized_hex})`],
      ["difference", samebits.kind(shown.kind)], ["distance", gap]]);
  }

  function bin(name) {
    if (name === "none") return "no distance: infinite or NaN";
    if (name === "0") return "0: zeros of other sign";
    const power = Number(name.slice(2));
    if (!(power >= 0)) return name;
    if (power === 0) return "1 ulp";
    return power <= 20 ? `${samebits.count(2 ** power)} to ${samebits.count(2 ** (power + 1) - 1)}` : `from 2^${power}`;
  }

  /** How many elements are how far apart: a table whose bars are drawn beside its numbers. */
  parts.histogram = (picture) => {
    const entries = Object.entries(picture.ulps);
    const most = Math.max(1, ...entries.map(([, count]) => count));
    return samebits.table(["ulps apart", "elements", ""], entries.map(([name, count]) => [bin(name), samebits.count(count),
      element("span", { class: "bar", style: `width:${(100 * count) / most}%` })]), "Elements that differ, by distance in ulps", { class: "bars" });
  };

  const short = (number) => (number === null ? "not measured" : Number(number.toPrecision(3)).toString());

  /** Errors against the ideal, the interval of their ratio, and what is used of the bound. */
  parts.accuracy = (result) => {
    if (result.error_reference === null && result.error_ratio === null && result.bound === null) return null;
    const shown = [samebits.facts([
      ["largest error of the reference", `${short(result.error_reference)} of the largest value`],
      ["largest error of the variant", `${short(result.error_optimized)} of the largest value`],
      ["group that loses accuracy", result.error_group], ["bias", result.bias === null ? null : `${short(result.bias)} ulps`],
    ])];
    const { error_ratio: ratio, error_ratio_low: low, error_ratio_high: high, draws } = result;
    if (ratio !== null && low !== null && high !== null) {
      const over = draws === null ? "" : ` over ${draws} draw${draws === 1 ? "" : "s"}`;
      const words = `The variant's error is ${short(ratio)} times the reference's (${short(low)} to ${short(high)}${over}).`;
      shown.push(element("p", {}, words), interval(low, ratio, high, words));
    }
    if (result.bound !== null) {
      const used = result.bound_used ?? 0;
      const words = `${short(used * 100)} % of what rounding explains is used; rounding explains ${short(result.bound)} of the largest value.`;
      shown.push(element("p", {}, words), element("div", { class: `used${used > 1 ? " over" : ""}`, role: "img", "aria-label": words },
        element("span", { style: `width:${Math.min(100, used * 100)}%` })));
    }
    return shown;
  };

  /** The interval of the ratio on a logarithmic scale, equal accuracy marked. */
  function interval(low, middle, high, words) {
    const { svg } = samebits;
    const span = Math.max(2, ...[low, high].filter((value) => value > 0).map((value) => Math.abs(Math.log2(value)) + 0.5));
    const place = (value) => 150 + (140 * Math.log2(Math.max(value, 2 ** -span))) / span;
    const mark = (value) => svg("text", { x: place(value), y: 40, "text-anchor": value < 1 ? "start" : value > 1 ? "end" : "middle" }, `${short(value)}x`);
    const step = Math.max(1, Math.floor(span));
    return svg("svg", { class: "interval", viewBox: "0 0 300 46", role: "img", "aria-label": words },
      svg("line", { x1: 10, x2: 290, y1: 16, y2: 16, class: "scale" }),
      ...[2 ** -step, 1, 2 ** step].flatMap((value) => [svg("line", { x1: place(value), x2: place(value), y1: value === 1 ? 4 : 11, y2: value === 1 ? 28 : 21, class: "scale" }), mark(value)]),
      svg("line", { x1: place(low), x2: Math.max(place(high), place(low) + 2), y1: 16, y2: 16, class: "range" }),
      svg("circle", { cx: place(middle), cy: 16, r: 5, class: "point" }));
  }
})();
