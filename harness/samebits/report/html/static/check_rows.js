"use strict";
// The results of a check as rows of a page: their order, their text, and which of them the address selects.
samebits.checkRows = (root) => {
  const GRAVITY = ["different", "unstable", "error", "rounding", "refused", "bitwise", "proved", "skipped"];
  const PLACE = ["pair", "variant", "mesh", "dtype", "direction", "case", "leaf"];
  const CHOICES = ["status", "verdict", "direction", "dtype", "mode"];
  const all = samebits.rows(samebits.data(root, "results"));
  const causes = samebits.data(root, "causes").map((numbers) => new Set(numbers));

  /** What a result is to a reader besides its verdict. */
  function statuses(result) {
    const failed = !result.ok && result.verdict !== "skipped";
    const changed = result.snapshot !== null && result.snapshot !== result.verdict;
    const names = [failed ? "failed" : "", changed ? "changed" : "", result.exempt ? "known" : ""];
    return names.filter((name) => name !== "");
  }

  for (const result of all) {
    result.statuses = statuses(result);
    result.failed = result.statuses.includes("failed");
    result.gravity = (result.failed ? 0 : result.statuses.includes("changed") ? 20 : 40) + GRAVITY.indexOf(result.verdict);
  }
  const sorted = [...all].sort((a, b) => a.gravity - b.gravity || a.number - b.number);

  const SEARCHED = [...PLACE, "mode", "verdict", "evidence", "reason", "kind"];
  function text(result) {
    result.text ??= SEARCHED.map((name) => result[name] ?? "").join(" ").toLowerCase();
    return result.text;
  }

  /** Whether a result is in a selection of the choices, places, cause and words of the address. */
  function selector(address) {
    const tests = [];
    for (const name of CHOICES) {
      const wanted = new Set(address.all(name));
      if (wanted.size === 0) continue;
      tests.push(name === "status"
        ? (result) => result.statuses.some((status) => wanted.has(status))
        : (result) => wanted.has(result[name]));
    }
    for (const name of PLACE.filter((each) => !CHOICES.includes(each))) {
      const wanted = address.get(name);
      if (wanted !== "") tests.push((result) => result[name] === wanted);
    }
    const cause = causes[Number.parseInt(address.get("cause"), 10)];
    if (cause !== undefined) tests.push((result) => cause.has(result.number));
    const words = address.get("q").toLowerCase().split(/\s+/).filter((word) => word !== "");
    if (words.length > 0) tests.push((result) => words.every((word) => text(result).includes(word)));
    return (result) => tests.every((test) => test(result));
  }

  /** The values of a choice with the number of results, in a fixed order. */
  function counts(name) {
    const numbers = new Map();
    for (const result of all) {
      for (const value of name === "status" ? result.statuses : [result[name]]) {
        numbers.set(value, (numbers.get(value) ?? 0) + 1);
      }
    }
    return name === "verdict" ? new Map(GRAVITY.filter((each) => numbers.has(each)).map((each) => [each, numbers.get(each)])) : numbers;
  }

  /** The gravest of results: failures before changes before all others. */
  function gravest(results) {
    return results.reduce((grave, result) => (result.gravity < grave.gravity ? result : grave));
  }

  /** What the contract asks of a failed result whose verdict another contract would accept. */
  function required(result) {
    if (!result.failed || result.required === result.verdict || !["proved", "bitwise", "rounding", "refused"].includes(result.verdict)) return [];
    return [" ", samebits.element("span", { class: "required" }, `${result.required} is required`)];
  }

  return { required, all, sorted, causes, selector, counts, gravest, CHOICES, PLACE };
};
