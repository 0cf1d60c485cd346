"use strict";
// Light, dark, or as the system has it; the choice is remembered where the browser allows that for files.
(() => {
  const CHOICES = { auto: "◐ auto", light: "☀ light", dark: "☾ dark" };
  const KEY = "samebits.theme";
  const button = document.querySelector("button.theme");

  function stored() {
    try {
      return localStorage.getItem(KEY) ?? "auto";
    } catch { // forbidden for files in some browsers
      return "auto";
    }
  }

  function choose(name) {
    const choice = name in CHOICES ? name : "auto";
    if (choice === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = choice;
    button.textContent = CHOICES[choice];
    button.setAttribute("aria-label", `Theme: ${choice === "auto" ? "as the system" : choice}`);
    button.dataset.choice = choice;
    document.dispatchEvent(new CustomEvent("samebits:theme"));
  }

  button.addEventListener("click", () => {
    const names = Object.keys(CHOICES);
    const next = names[(names.indexOf(button.dataset.choice) + 1) % names.length];
    choose(next);
    try {
      localStorage.setItem(KEY, next);
    } catch { // the choice lasts until the page is closed
    }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
    document.dispatchEvent(new CustomEvent("samebits:theme")));
  choose(stored());
})();
