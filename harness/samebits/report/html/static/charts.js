"use strict";
// Charts are drawn when they come into view, again when the theme changes, and all of them before printing.
(() => {
  const drawn = new Map();

  /** The colour that a style variable has now, as Vega reads it. */
  function colour(name) {
    const probe = samebits.element("span", {});
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    const value = getComputedStyle(probe).color;
    probe.remove();
    return value;
  }

  function config() {
    const [text, dim, line] = ["--text", "--dim", "--line"].map(colour);
    const font = getComputedStyle(document.body).fontFamily;
    return {
      background: "transparent", font, view: { stroke: line },
      axis: { labelColor: dim, titleColor: text, gridColor: line, domainColor: line, tickColor: line, labelLimit: 260 },
      legend: { labelColor: text, titleColor: text }, title: { color: text }, header: { labelColor: text, titleColor: text },
      text: { color: text }, rule: { color: dim },
    };
  }

  /** Draw a specification into an element; returns when it is there. */
  async function draw(place, specification) {
    // Expressions are interpreted (`ast`), not compiled: the page's policy forbids code made from text.
    const options = { actions: false, renderer: "svg", ast: true, config: config() };
    const result = await vegaEmbed(place, specification, options);
    drawn.get(place)?.finalize();
    drawn.set(place, { specification, finalize: () => result.finalize() });
  }

  function specifications(root) {
    const script = root.querySelector('script[data-name="charts"]');
    return script === null ? {} : JSON.parse(script.textContent);
  }

  /** Draw the charts of a section as they come into view. */
  function drawCharts(root) {
    const all = specifications(root);
    const seen = new IntersectionObserver((entries) => {
      for (const entry of entries.filter((each) => each.isIntersecting)) {
        seen.unobserve(entry.target);
        start(entry.target);
      }
    }, { rootMargin: "200px" });
    const start = (figure) => {
      if (!drawn.has(figure.querySelector(".plot"))) draw(figure.querySelector(".plot"), all[figure.dataset.chart]);
    };
    for (const figure of root.querySelectorAll("figure[data-chart]")) {
      if (!(figure.dataset.chart in all)) throw new Error(`no chart is called ${figure.dataset.chart}`);
      seen.observe(figure);
      addEventListener("beforeprint", () => start(figure));
    }
  }

  document.addEventListener("samebits:theme", () => {
    for (const [place, { specification }] of [...drawn]) draw(place, specification);
  });
  Object.assign(samebits, { draw, drawCharts });
})();
