"use strict";
// Which device holds which part of each input and of the output, and what the inputs are.
(() => {
  const { element, svg } = samebits;
  const parts = samebits.resultParts;
  const DEVICES = 64;

  /** The shape in a text such as `bfloat16[8,16]` or `[8@data,16@(fsdp,tensor)] normal`; null where there is none. */
  function shapeOf(text) {
    const match = /^[^[\]]*\[([\d,]*)\](?: |$)/.exec((text ?? "").replace(/@(?:\w+|\([\w,]*\))/g, ""));
    if (match === null) return null;
    return match[1] === "" ? [] : match[1].split(",").map(Number);
  }

  /** The mesh axes of each dimension in a layout such as `(None, ('data', 'fsdp'))`; null where it says no such thing. */
  function axesOf(layout) {
    if (!/^\(.*\)$/.test(layout)) return null;
    const json = layout.replaceAll("'", '"').replaceAll("(", "[").replaceAll(")", "]").replaceAll("None", "null").replace(/,\s*\]/g, "]");
    try {
      const entries = JSON.parse(json).map((entry) => (entry === null ? [] : [entry].flat()));
      return entries.every((entry) => entry.every((name) => typeof name === "string")) ? entries : null;
    } catch { // the layout of another version, or one that the compiler chose
      return null;
    }
  }

  /** Devices in the order of the mesh, its last axis fastest: the id of each, and its place on every axis. */
  function devicesOf(mesh, order) {
    const names = Object.entries(mesh);
    const count = names.reduce((product, [, size]) => product * size, 1);
    return Array.from({ length: count }, (_, number) => {
      let rest = number;
      const at = {};
      for (const [name, size] of [...names].reverse()) {
        at[name] = rest % size;
        rest = Math.floor(rest / size);
      }
      return { device: order[number] ?? number, at: Object.fromEntries(names.map(([name]) => [name, at[name]])) };
    });
  }

  /** The part of an array that each device holds; null where shape, layout or mesh do not say it. */
  function held(shape, layout, mesh, order) {
    const entries = axesOf(layout);
    if (shape === null || entries === null || mesh === null || entries.length > shape.length) return null;
    if (entries.some((entry) => entry.some((name) => mesh[name] === undefined))) return null;
    return devicesOf(mesh, order).map(({ device, at }) => ({ device, at, ranges: shape.map((size, dimension) => {
      let [part, count] = [0, 1];
      for (const name of entries[dimension] ?? []) [part, count] = [part * mesh[name] + at[name], count * mesh[name]];
      const length = Math.ceil(size / count);
      return [Math.min(part * length, size), Math.min((part + 1) * length, size)];
    }) }));
  }

  function inputsOf(result, head) {
    return head?.inputs?.find((each) => each.case === result.case && each.meshes.includes(result.mesh)) ?? null;
  }

  /** Every array of a result's layout, with the part of each device; `own` is the leaf that the result is of. */
  samebits.pieces = (result, head) => {
    const mesh = head?.meshes?.[result.mesh] ?? null;
    const inputs = inputsOf(result, head);
    const leaf = result.direction === "gradient" ? `gradient of ${result.leaf}` : result.leaf;
    return Object.entries(result.layout).map(([name, layout]) => {
      const own = name === leaf;
      const described = own ? result.array : inputs?.arguments[name];
      const shape = shapeOf(described);
      return { name, layout, own, shape, pieces: held(shape, layout, mesh, result.device_order ?? []) };
    });
  };

  const text = (ranges) => `[${ranges.map(([start, end]) => `${start}:${end}`).join(", ")}]`;

  /** The two axes that show an array best: those that are split, then those that are longer than 1. */
  function drawn(array) {
    const long = array.shape.flatMap((size, axis) => (size > 1 ? [axis] : []));
    const split = long.filter((axis) => array.pieces.some((piece) => piece.ranges[axis][1] < array.shape[axis]));
    return [...split, ...long.filter((axis) => !split.includes(axis))].slice(0, 2).sort((a, b) => a - b);
  }

  /** A small picture of an array cut into the parts of its devices, over two axes. */
  function cut(array) {
    const axes = drawn(array);
    const count = new Set(array.pieces.map((piece) => text(piece.ranges))).size;
    const regions = new Map();
    for (const piece of array.pieces) {
      const key = text(axes.map((axis) => piece.ranges[axis]));
      if (!regions.has(key)) regions.set(key, { ranges: axes.map((axis) => piece.ranges[axis]), devices: [] });
      regions.get(key).devices.push(piece.device);
    }
    const [w, h] = [150, axes.length === 2 ? 96 : 28];
    const name = (devices) => (devices.length > 4 ? `${devices.slice(0, 2).join(" ")} … ${devices.at(-1)}` : devices.join(" "));
    const nodes = [...regions.values()].flatMap(({ ranges, devices }) => {
      const of = (n) => (ranges[n] === undefined ? [0, 1] : ranges[n].map((end) => end / array.shape[axes[n]]));
      const [[y0, y1], [x0, x1]] = axes.length === 2 ? [of(0), of(1)] : [[0, 1], of(0)];
      const [x, y, width, height] = [x0 * w + 1, y0 * h + 1, (x1 - x0) * w, (y1 - y0) * h];
      return [svg("rect", { x, y, width, height, class: "region" }, svg("title", {}, `${text(ranges)}: devices ${devices.join(", ")}`)),
        ...(width > 6 * name(devices).length && height > 11 ? [svg("text", { x: x + width / 2, y: y + height / 2 + 4, "text-anchor": "middle" }, name(devices))] : [])];
    });
    const directions = axes.length === 2 ? `; axis ${axes[0]} down, ${axes[1]} across` : "";
    const parts = count === 1 ? ": every device has the whole" : ` in ${count} parts by device${directions}`;
    const words = `${array.name} [${array.shape.join(", ")}]${parts}`;
    return element("figure", { class: "cut" }, svg("svg", { viewBox: `0 0 ${w + 2} ${h + 2}`, width: w + 2, height: h + 2, role: "img", "aria-label": words }, ...nodes),
      element("figcaption", {}, element("b", {}, array.name), ` ${array.layout}`, element("br"), words.slice(array.name.length + 1)));
  }

  /** The devices of a point and what each holds. */
  parts.sharding = (result, head) => {
    const arrays = samebits.pieces(result, head);
    if (arrays.length === 0) {
      return result.alone ? [element("p", { class: "note" }, "This point was proved and not executed; the layouts under Inputs are the declared ones.")] : null;
    }
    const known = arrays.filter((array) => array.pieces !== null && array.pieces.length > 1);
    const other = arrays.filter((array) => !known.includes(array));
    const shown = [];
    if (known.length > 0) {
      const devices = known[0].pieces.slice(0, DEVICES);
      const coordinates = (at) => Object.entries(at).map(([name, place]) => `${name} ${place}`).join(", ");
      const rows = devices.map((piece, number) => [`${piece.device}`, coordinates(piece.at), ...known.map((array) => text(array.pieces[number].ranges))]);
      const more = known[0].pieces.length > DEVICES ? `; the first ${DEVICES} of ${known[0].pieces.length} devices` : "";
      shown.push(element("div", { class: "cuts" }, ...known.map(cut)),
        element("details", {}, element("summary", {}, `The part of each device (${known[0].pieces.length})`),
          samebits.table(["device", "place on the mesh", ...known.map((array) => array.name)], rows, `Elements that each device holds on mesh ${result.mesh}${more}`)));
    }
    if (other.length > 0) shown.push(samebits.facts(other.map((array) => [array.name, array.layout])));
    return shown;
  };

  /** The arguments of both sides. */
  parts.inputs = (result, head) => {
    const inputs = inputsOf(result, head);
    if (inputs === null) return null;
    const rows = Object.entries(inputs.arguments).map(([name, text]) => {
      const end = text.indexOf("]") + 1;
      const [values, special] = text.slice(end).trim().split(", special ");
      return [name, `${text.startsWith("[") ? result.dtype : ""}${text.slice(0, end)}`, values, special ?? ""];
    });
    const statics = Object.entries(inputs.statics);
    return [samebits.table(["argument", "array and its declared layout", "values", "special values besides"], rows, `Arguments of case ${result.case}`),
      statics.length === 0 ? null : samebits.facts(statics)].filter((node) => node !== null);
  };
})();
