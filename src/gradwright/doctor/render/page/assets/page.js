"use strict";
// Draws the plots, filters the findings, and listens to the keyboard. Without it the page says all the same.
(() => {
  const root = document.documentElement;
  const one = (selector) => document.querySelector(selector);
  const all = (selector) => [...document.querySelectorAll(selector)];
  root.classList.add("on");

  // --- colours: named in the style, looked up when something is drawn ---
  const probe = document.createElement("i");
  probe.hidden = true;
  document.body.append(probe);
  const colour = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const COLOURED = new Set(["color", "fillcolor", "colorscale"]);
  const HEAT = ["ramp0", "ramp1", "ramp2", "ramp3", "ramp4"];
  const named = (value) =>
    value === "@heat" ? HEAT.map((name, at) => [at / (HEAT.length - 1), colour(name)]) : colour(value.slice(1));
  const painted = (value, key) => {
    if (Array.isArray(value)) return value.map((item) => painted(item, key));
    if (value && typeof value === "object")
      return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, painted(item, name)]));
    return typeof value === "string" && value[0] === "@" && COLOURED.has(key) ? named(value) : value;
  };

  // --- plots ---
  const dressed = (layout) => {
    const line = { gridcolor: colour("rule"), linecolor: colour("rule"), zerolinecolor: colour("rule"), automargin: true };
    return {
      ...painted(layout, ""),
      xaxis: { ...line, ...painted(layout.xaxis || {}, "") },
      yaxis: { ...line, ...painted(layout.yaxis || {}, "") },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("muted"), family: getComputedStyle(document.body).fontFamily, size: 12 },
      hoverlabel: { bgcolor: colour("raised"), bordercolor: colour("rule"), font: { color: colour("text") } },
      margin: { l: 8, r: 8, t: 24, b: 8 },
      legend: { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom" },
      dragmode: pointing ? "zoom" : false, // a finger scrolls the page
    };
  };
  const pointing = matchMedia("(pointer: fine)").matches;
  const drawn = new Set();
  const draw = (canvas) => {
    const figure = JSON.parse(canvas.nextElementSibling.textContent);
    drawn.add(canvas);
    return window.Plotly.react(canvas, figure.data.map((trace) => painted(trace, "")), dressed(figure.layout), {
      responsive: true,
      displaylogo: false,
      displayModeBar: false,
    });
  };
  const canvases = all(".canvas");
  if (canvases.length && window.Plotly) {
    const near = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) {
          if (!entry.isIntersecting) continue;
          near.unobserve(entry.target);
          draw(entry.target);
        }
      },
      { rootMargin: "400px" },
    );
    canvases.forEach((canvas) => near.observe(canvas));
  }
  const repaint = () => drawn.forEach(draw);

  // --- dark and light ---
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const turn = () => {
    const now = root.dataset.theme || (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    repaint();
  };
  dark.addEventListener("change", repaint);
  one("#theme").addEventListener("click", turn);

  // --- filter ---
  const findings = all(".finding");
  const texts = new Map();
  const text = (finding) => {
    if (!texts.has(finding)) texts.set(finding, finding.textContent.toLowerCase());
    return texts.get(finding);
  };
  const search = one("#search");
  const code = one("#code");
  const sift = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const severities = new Set(all("input[name=severity]:checked").map((box) => box.value));
    let count = 0;
    for (const finding of findings) {
      const shown =
        severities.has(finding.dataset.severity) &&
        (!code.value || finding.dataset.code === code.value) &&
        words.every((word) => text(finding).includes(word));
      finding.hidden = !shown;
      count += shown;
    }
    one("#shown").textContent = count === findings.length ? "" : `${count} of ${findings.length}`;
    one("#none").hidden = count > 0;
  };
  if (search) {
    one(".filter").addEventListener("input", sift);
    one(".filter").addEventListener("submit", (event) => event.preventDefault());
    addEventListener("hashchange", () => {
      const target = document.getElementById(location.hash.slice(1));
      if (!target || !target.hidden) return;
      search.value = code.value = "";
      all("input[name=severity]").forEach((box) => (box.checked = true));
      sift();
      target.scrollIntoView();
    });
  }

  // --- keyboard ---
  const move = (by) => {
    const shown = findings.filter((finding) => !finding.hidden);
    if (!shown.length) return;
    const held = document.activeElement.closest(".finding");
    const at = shown.indexOf(held);
    const next = shown[Math.min(Math.max(at < 0 ? (by > 0 ? 0 : shown.length - 1) : at + by, 0), shown.length - 1)];
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "start" });
  };
  const open = () => {
    const held = document.activeElement.closest(".finding");
    const folds = held ? [...held.querySelectorAll("details")] : [];
    const opened = folds.some((fold) => !fold.open);
    folds.forEach((fold) => (fold.open = opened));
  };
  // Whoever leaves the search or the help goes on where he was; if that is sifted away, at the content's beginning.
  let left = null;
  const back = () => {
    if (left && left.isConnected) left.focus({ preventScroll: true });
    const now = document.activeElement; // in a dialog that is closed it is nowhere
    if (now === document.body || now.closest("dialog")) one("#content").focus({ preventScroll: true });
    left = null;
  };
  const FIELDS = "input[type=search], select";
  addEventListener("focusin", (event) => {
    const from = event.relatedTarget;
    if (event.target.matches(FIELDS) && !(from && from.matches(FIELDS))) left = from;
  });
  const help = one("#help");
  const ask = () => {
    left = document.activeElement;
    help.showModal();
  };
  help.addEventListener("close", back);
  const arrows = () => document.activeElement === document.body || document.activeElement.matches(".finding, main");
  const KEYS = {
    j: () => move(1),
    k: () => move(-1),
    o: open,
    t: turn,
    "/": () => search && search.focus(),
    "?": ask,
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (event.target.matches(FIELDS)) {
      if (event.key !== "Escape") return;
      event.target.blur();
      back();
      return;
    }
    const arrow = arrows() ? { ArrowRight: KEYS.j, ArrowLeft: KEYS.k }[event.key] : undefined;
    const act = arrow || (Object.hasOwn(KEYS, event.key) ? KEYS[event.key] : undefined);
    if (!act) return;
    event.preventDefault();
    act();
  });
  one("#keys").addEventListener("click", ask);

  // --- copy ---
  for (const button of all(".copy")) {
    const words = button.firstChild;
    button.addEventListener("click", async () => {
      const from = button.parentElement.querySelector("code");
      try {
        await navigator.clipboard.writeText(from.textContent);
        words.textContent = "copied";
      } catch {
        getSelection().selectAllChildren(from); // the browser does not let a file write: Ctrl+C does it
        words.textContent = "selected";
      }
      setTimeout(() => (words.textContent = "copy"), 1500);
    });
  }

  // --- paper ---
  addEventListener("beforeprint", () => {
    all("details").forEach((fold) => (fold.open = true));
    if (window.Plotly) canvases.forEach(draw);
  });
})();
