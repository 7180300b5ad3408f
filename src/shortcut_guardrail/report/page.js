// Sorting, filtering and opening of candidates. The page is whole without this script; the view is kept in the address
// (#sort=flip_rate&dir=desc&q=lol&status=flagged&pushes=joy&least=20&open=honestly), so that it can be bookmarked and shared.
(() => {
  "use strict";
  const table = document.getElementById("candidates-table");
  if (!table) return;
  const $ = (id) => document.getElementById(id);
  const tools = $("tools"), search = $("search"), status = $("status"), pushes = $("pushes"), least = $("least"), sortBy = $("sort-by");
  const shown = $("shown"), nothing = $("nothing"), more = $("more");
  const AT_FIRST = 30;
  const heads = [...table.querySelectorAll("th[data-key]")];
  const rows = [...table.tBodies];
  // What stands in fewer texts says little; where nothing stands in more, all are shown.
  const LEAST = rows.some((row) => Number(row.dataset.count) >= 5) ? "5" : "1";
  const view = { sort: "rank", dir: "asc", all: false };

  document.documentElement.classList.add("js");
  tools.hidden = false;

  // A name becomes a button, and what was a disclosure of its own becomes the button's panel.
  for (const row of rows) {
    const name = row.querySelector(".name > span"), panel = row.querySelector("tr.evidence");
    const button = document.createElement("button");
    button.type = "button";
    button.append(...name.childNodes);
    name.replaceWith(button);
    button.setAttribute("aria-controls", panel.id);
    panel.querySelector("details").open = true;
    row.rows[0].addEventListener("click", (event) => {
      if (window.getSelection().isCollapsed || event.target.closest("button")) toggle(row);
    });
    row.button = button;
    toggle(row, false, true);
  }
  for (const head of heads) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(head.dataset.key));
    head.append(button);
  }

  function toggle(row, open = !row.classList.contains("open"), quiet = false) {
    row.classList.toggle("open", open);
    row.button.setAttribute("aria-expanded", String(open));
    if (!quiet) remember();
  }

  function value(row, key) {
    const text = row.getAttribute("data-" + key);
    return key === "text" || key === "pushes" ? text : text === "" || text === null ? NaN : Number(text);
  }

  // Undefined values stay last in either direction; equal ones keep the order of the ranking.
  function compare(a, b) {
    const x = value(a, view.sort), y = value(b, view.sort), sign = view.dir === "asc" ? 1 : -1;
    const rank = value(a, "rank") - value(b, "rank");
    if (typeof x === "string") return sign * x.localeCompare(y) || rank;
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y) || rank;
    return sign * (x - y) || rank;
  }

  function firstDirection(key) {
    const head = heads.find((h) => h.dataset.key === key);
    return head ? head.dataset.first : "asc";
  }

  function sort(key, dir) {
    view.dir = dir || (view.sort === key ? (view.dir === "asc" ? "desc" : "asc") : firstDirection(key));
    view.sort = key;
    apply();
  }

  function apply() {
    const words = search.value.trim().toLowerCase();
    let count = 0, waiting = 0;
    for (const row of [...rows].sort(compare)) {
      const fits = row.dataset.text.toLowerCase().includes(words)
        && (!status.value || row.dataset.status === status.value)
        && (!pushes.value || row.dataset.pushes === pushes.value)
        && (value(row, "count") >= Number(least.value) || row.classList.contains("open"));
      count += fits;
      const waits = fits && count > AT_FIRST && !view.all && !row.classList.contains("open");
      waiting += waits;
      row.hidden = !fits || waits;
      table.append(row);
    }
    for (const head of heads) {
      const active = head.dataset.key === view.sort;
      head.setAttribute("aria-sort", !active ? "none" : view.dir === "asc" ? "ascending" : "descending");
    }
    sortBy.value = view.sort;
    $("direction").textContent = view.dir === "asc" ? "\u2191 ascending" : "\u2193 descending";
    shown.textContent = count === rows.length ? `${count} candidates` : `${count} of ${rows.length} candidates`;
    nothing.hidden = count > 0;
    more.hidden = waiting === 0;
    more.textContent = `Show ${waiting} more`;
    remember();
  }

  let reading = false;
  function remember() {
    if (reading) return;
    const parts = new URLSearchParams();
    if (view.sort !== "rank" || view.dir !== "asc") { parts.set("sort", view.sort); parts.set("dir", view.dir); }
    if (search.value.trim()) parts.set("q", search.value.trim());
    if (status.value) parts.set("status", status.value);
    if (pushes.value) parts.set("pushes", pushes.value);
    if (least.value !== LEAST) parts.set("least", least.value);
    for (const row of rows) if (row.classList.contains("open")) parts.append("open", row.dataset.text);
    const wanted = parts.toString();
    if (wanted === location.hash.slice(1)) return;
    // An anchor within the page is not ours to replace before there is something to remember.
    if (!wanted && !location.hash.includes("=")) return;
    try { history.replaceState(null, "", "#" + wanted); } catch { /* Some browsers forbid it for files: then the view is not kept. */ }
  }

  function recall() {
    const hash = location.hash.slice(1);
    reading = true;
    const parts = new URLSearchParams(hash.includes("=") ? hash : "");
    search.value = parts.get("q") || "";
    status.value = parts.get("status") || "";
    if (status.selectedIndex < 0) status.value = "";
    pushes.value = parts.get("pushes") || "";
    if (pushes.selectedIndex < 0) pushes.value = "";
    least.value = parts.get("least") || LEAST;
    if (least.selectedIndex < 0) least.value = LEAST;
    const key = heads.some((h) => h.dataset.key === parts.get("sort")) ? parts.get("sort") : "rank";
    const open = new Set(parts.getAll("open"));
    for (const row of rows) toggle(row, open.has(row.dataset.text), true);
    sort(key, ["asc", "desc"].includes(parts.get("dir")) ? parts.get("dir") : firstDirection(key));
    reading = false;
    const first = rows.find((row) => row.classList.contains("open"));
    if (first) first.scrollIntoView({ block: "center" });
  }

  search.addEventListener("input", apply);
  status.addEventListener("change", apply);
  pushes.addEventListener("change", apply);
  least.addEventListener("change", apply);
  sortBy.addEventListener("change", () => sort(sortBy.value, firstDirection(sortBy.value)));
  $("direction").addEventListener("click", () => sort(view.sort));
  more.addEventListener("click", () => {
    const before = new Set(rows.filter((row) => !row.hidden));
    view.all = true;
    apply();
    [...table.tBodies].find((row) => !row.hidden && !before.has(row)).button.focus({ preventScroll: true });
  });
  $("reset").addEventListener("click", () => {
    search.value = ""; status.value = ""; pushes.value = ""; least.value = LEAST;
    for (const row of rows) toggle(row, false, true);
    sort("rank", "asc");
    search.focus();
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      search.focus();
    } else if (event.key === "Escape" && event.target.closest("tbody.candidate.open")) {
      const row = event.target.closest("tbody.candidate");
      toggle(row, false);
      row.button.focus();
    }
  });
  window.addEventListener("hashchange", () => { if (location.hash.includes("=")) recall(); });
  // On paper the evidence of what is flagged or undecided is wanted, and nothing can be opened.
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = rows.filter((row) => row.dataset.status !== "not_flagged" && !row.classList.contains("open"));
    for (const row of opened) toggle(row, true, true);
  });
  window.addEventListener("afterprint", () => { for (const row of opened) toggle(row, false, true); });
  recall();
})();
