// The word groups of an audit, one at a time. With a server every answer is saved as it is given; in a report, which has none,
// answers stay in this browser until they are downloaded. Texts come from anybody's files: they are set as text, never as HTML.
(() => {
  "use strict";
  const root = document.getElementById("review");
  if (!root) return;
  const WORDS = {
    keep: "Yes", remove_reliance: "No", unsure: "Not sure", not_alone: "Not alone",
  };
  const DONE = { keep: "kept", remove_reliance: "reliance removed", unsure: "not sure", not_alone: "not alone" };
  const CARD_KEYS = { 1: "keep", 2: "remove_reliance", 3: "unsure", 4: "not_alone", k: "keep", n: "remove_reliance", s: "unsure", a: "not_alone" };
  const TEXT_KEYS = { a: "a", b: "b", n: "neither", u: "unclear", 1: "a", 2: "b", 3: "neither", 4: "unclear" };
  let deck, state, backend, at = null, busy = false;

  // Elements. Attributes come as an object; what is left are children, strings as text.
  function el(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (key === "onclick") made.addEventListener("click", value);
      else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value === true ? "" : value);
    }
    made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
    return made;
  }
  const count = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
  const bdi = (text) => el("bdi", {}, text);
  const NAMED = 4; // words of a group in its heading; all stand under "Details"
  const names = (card, most = card.names.length) => {
    const shown = card.names.slice(0, most), left = card.words.length - shown.length;
    return shown.flatMap((name, i) => [i ? ", “" : "“", bdi(name), "”"]).concat(left ? ` and ${left} more` : "");
  };
  const title = (card) => `“${card.names[0]}”` + (card.words.length > 1 ? ` and ${card.words.length - 1} more` : "");

  // Where answers go

  class StaleError extends Error {}

  function server(token) {
    const headers = { Authorization: `Bearer ${token}` };
    async function ask(path, body) {
      const how = body === undefined ? { headers } : {
        method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body),
      };
      let answer;
      try { answer = await fetch(path, how); } catch {
        throw new Error("Not saved: the server does not answer. Start the command again; what was saved is there.");
      }
      if (path === "/api/decisions" && answer.ok) return answer.text();
      const found = await answer.json();
      if (answer.status === 409) throw Object.assign(new StaleError(), { state: found });
      if (!answer.ok) throw new Error(found.error);
      return found;
    }
    return {
      load: () => ask("/api/review"),
      answer: (said) => ask("/api/answer", { ...said, revision: state.revision }),
      undo: () => ask("/api/undo", { revision: state.revision }),
      content: () => ask("/api/decisions"),
      stop: () => ask("/api/stop", {}),
    };
  }

  // Without a server the rules are short: no texts are judged, so a card is what people say of it.
  function browser(stored) {
    const place = `shortcut-guardrail ${stored.audit}`;
    let kept = { by: "person", revision: 0, events: [] }, keeps = true;
    try { kept = JSON.parse(localStorage.getItem(place)) || kept; } catch { keeps = false; /* Nothing, once the page is closed. */ }
    const now = () => new Date().toISOString().replace(/\.\d+Z$/, "+00:00");
    const latest = () => Object.fromEntries(kept.events.map((event) => [event.card, event]));
    function current() {
      const said = Object.fromEntries(Object.entries(latest()).map(([card, event]) => [card, event.decision]));
      const rows = stored.cards.map((card) => ({ id: card.id, people: { [kept.by]: said[card.id] } }));
      const follows = Object.fromEntries(stored.cards.filter((card) => said[card.id]).map((card) => {
        const effect = card.effects[said[card.id]];
        return [card.id, said[card.id] === "unsure" ? { ...effect, line: `${DONE.unsure}; ${effect.line}` } : effect];
      }));
      const done = stored.cards.every((card) => said[card.id]);
      const end = done ? { cards: rows, both: 0, agree: 0, differ: 0, file: "", next: stored.next } : null;
      return {
        revision: kept.revision, by: kept.by, said, follows, opinions: {}, question: null, can_undo: kept.events.length > 0, notice: "", end,
        progress: { answered: 0, open: 0, least: 0, most: 0, lost: 0 },
      };
    }
    function keep(events) {
      kept = { ...kept, events, revision: kept.revision + 1 };
      try { localStorage.setItem(place, JSON.stringify(kept)); } catch { keeps = false; }
      return current();
    }
    function decided(card) {
      const event = latest()[card.id];
      return event && {
        id: card.id, words: card.words, pushes_towards: card.pushes_towards, decision: event.decision, source: "person",
        asked: 0, fixed: 0, broken: 0, neither: 0, unclear: 0, text_hashes: [], waiting: 0,
        reviews: [{ by: event.by, at: event.at, decision: event.decision }],
      };
    }
    return {
      keeps: () => keeps,
      load: async () => ({ deck: stored, state: current() }),
      answer: async (said) => keep([...kept.events, { by: kept.by, at: now(), ...said }]),
      undo: async () => keep(kept.events.slice(0, -1)),
      name: (by) => { kept = { ...kept, by, events: kept.events.map((event) => ({ ...event, by })) }; state = keep(kept.events); },
      content: async () => JSON.stringify({
        schema_version: 1, audit: stored.audit, model: stored.model, data: stored.data,
        cards: stored.cards.map(decided).filter(Boolean),
        review: { schema_version: 1, revision: kept.revision, seed: 0, events: kept.events, before: [] },
      }, null, 2) + "\n",
    };
  }

  // Answering

  const status = el("p", { id: "said", class: "unseen", role: "status" });
  const news = el("p", { id: "news", role: "status" });
  const problem = el("p", { id: "problem", role: "alert" });
  const body = el("div", {});

  async function act(action, then) {
    if (busy) return;
    busy = true;
    problem.textContent = "";
    try { state = await action(); then(); } catch (error) {
      problem.textContent = error.message;
      say(); // what the lines say of an earlier answer is not what happened to this one
      tell();
    } finally { busy = false; }
  }

  // An answer to an older state goes in again on top of the newer one, so that two tabs lose nothing.
  async function saved(said) {
    for (let tries = 0; ; tries += 1) {
      try { return await backend.answer(said); } catch (error) {
        if (!(error instanceof StaleError) || tries > 9) throw error;
        state = error.state;
        if (said.card && state.said[said.card] === said.decision) return state;
      }
    }
  }

  function answerCard(card, decision) {
    let other; // what was said before, in this tab or meanwhile in another
    const send = async () => {
      const found = await saved({ card: card.id, decision });
      other = state.said[card.id];
      return found;
    };
    act(send, () => {
      say(`${title(card)}: ${state.follows[card.id].line}`);
      tell(other && other !== decision ? `Before, ${title(card)} was “${DONE[other]}”.` : "", state.notice);
      at = null;
      show();
    });
  }

  function answerText(answer) {
    const question = state.question.id;
    act(() => saved({ question, answer }), () => { say("Saved."); tell(state.notice); show(); });
  }

  function undo() {
    if (!state.can_undo) return;
    const before = state.said;
    const again = async () => {
      try { return await backend.undo(); } catch (error) {
        if (!(error instanceof StaleError)) throw error;
        state = error.state;
        show();
        throw new Error("Another tab answered meanwhile. Undo again to undo its answer too.");
      }
    };
    act(again, () => {
      const changed = deck.cards.findIndex((card) => before[card.id] !== state.said[card.id]);
      tell("The last answer is undone.");
      at = changed < 0 ? null : changed;
      show();
    });
  }

  // What an answer brings stands beside it on its own word group, so it is said to screen readers alone; news are shown.
  const say = (...sentences) => { status.textContent = sentences.filter(Boolean).join(" "); };
  const tell = (...sentences) => { news.textContent = sentences.filter(Boolean).join(" "); };

  function total() {
    const changing = Object.values(state.follows).map((one) => one.n).filter(Boolean);
    const n = changing.reduce((sum, one) => sum + one, 0);
    return changing.length > 1 ? `In all at most ${Math.min(n, deck.n).toLocaleString("en")} of ${count(deck.n, "prediction")} change.` : "";
  }

  // What is shown

  function show(focus = true) {
    const open = deck.cards.findIndex((card) => !state.said[card.id]);
    const view = at !== null ? cardView(deck.cards[at], at) : open >= 0 ? cardView(deck.cards[open], open)
      : state.question ? textView(state.question) : endView();
    const shown = at !== null ? at : open;
    body.replaceChildren(steps(shown), ...view);
    if (focus) body.querySelector("h2, h3").focus({ preventScroll: true });
    if (focus && root.dataset.mode === "server") window.scrollTo({ top: 0, behavior: "instant" });
    else if (focus) root.scrollIntoView({ block: "start", behavior: "instant" });
  }

  function steps(shown) {
    const buttons = deck.cards.map((card, i) => {
      const said = state.said[card.id];
      const name = `Word group ${i + 1}, ${said ? `answered: ${DONE[said]}` : "not answered"}`;
      return el("li", {}, el("button", {
        type: "button", class: said ? "answered" : false, "aria-label": name, "aria-current": i === shown ? "step" : false,
        onclick: () => { at = i; show(); },
      }));
    });
    return el("nav", { "aria-label": "Word groups", class: "steps" }, el("ol", {}, buttons));
  }

  const heading = (...children) => el(root.dataset.mode === "server" ? "h2" : "h3", { tabindex: "-1" }, ...children);

  const pieces = (side) => side.map(([text, marked]) => (marked ? el("mark", { class: "named" }, text) : text));
  function shownText(example) {
    const sides = (of) => of.map((side) => el("p", { class: "said", dir: "auto" }, pieces(side)));
    const changes = example.before !== example.after;
    return el("li", {}, sides(example.excerpt),
      el("p", { class: "outcome" }, el("b", {}, bdi(example.before)), changes ? " → " : ", masked or not",
        changes ? el("b", {}, bdi(example.after)) : ""),
      example.whole ? el("details", {}, el("summary", {}, "Whole text"), sides(example.whole)) : "");
  }

  function cardView(card, i) {
    const many = card.words.length > 1, said = state.said[card.id];
    const facts = el("p", { class: "lead" }, el("b", {}, card.changes.toLocaleString("en")), ` of ${count(deck.n, "prediction")} ${card.changes === 1 ? "changes" : "change"} without ${many ? "them" : "it"}.`);
    const later = (decision) => (decision === "unsure" && backend.stop && card.asks ? "you judge texts" : card.effects[decision].short);
    const choices = Object.entries(WORDS).map(([decision, words], k) => el("button", {
      type: "button", value: decision, "aria-pressed": String(decision === said), "aria-keyshortcuts": String(k + 1), onclick: () => answerCard(card, decision),
    }, el("b", {}, words), el("span", {}, later(decision))));
    const more = el("details", {}, el("summary", {}, "Details"),
      el("p", {}, names(card), many ? " push" : " pushes", " predictions towards ", el("b", {}, bdi(card.pushes_towards)), `, in ${count(card.texts, "text")}.`),
      card.patterns.length ? el("p", {}, "Often: ", card.patterns.flatMap((one, k) => [k ? ", “" : "“", bdi(one.text), `” (${count(one.texts, "text")})`]), ".") : "",
      el("ol", { class: "examples", "aria-label": "More texts before and after masking" }, card.examples.slice(1).map(shownText)),
      el("ul", { class: "evidence-list" }, card.evidence.map((sentence) => el("li", {}, sentence))),
      el("p", { class: "quiet" }, "“Not alone”: the words count only together with the rest of the text."));
    const opinion = said && state.opinions[card.id];
    return [heading(`${i + 1} of ${deck.cards.length}: `, names(card, NAMED)), facts,
      said ? el("p", { id: "follows" }, `Your answer: ${state.follows[card.id].line}${opinion ? ` Second model: ${opinion}.` : ""}`) : "",
      el("ol", { class: "examples", "aria-label": "A text before and after masking" }, card.examples.slice(0, 1).map(shownText)), more,
      el("div", { class: "dock" },
        el("p", { id: "question" }, `Should ${many ? "these words" : /\s/.test(card.words[0]) ? "this phrase" : "this word"} influence the prediction?`),
        el("div", { class: "choices", role: "group", "aria-labelledby": "question" }, choices),
        el("p", { class: "actions" }, backButton(i - 1), at !== null && said ? el("button", { type: "button", onclick: () => { at = i + 1 < deck.cards.length ? i + 1 : null; show(); } }, "Next") : "",
          backend.stop ? "" : el("button", { type: "button", onclick: download }, "Download")))].filter(Boolean);
  }

  function textView(question) {
    const button = (answer, ...words) => el("button", { type: "button", onclick: () => answerText(answer) }, el("b", {}, ...words));
    const { answered, least, most, lost } = state.progress;
    const far = `At least ${least} more, at most ${most}.` + (lost ? ` ${count(lost, "word group")} cannot be decided by the texts left. Nothing more is asked about ${lost === 1 ? "it" : "them"}.` : "");
    return [heading(`Text ${answered + 1}: which prediction is right?`),
      question.sides.map((side) => el("p", { class: "said whole", dir: "auto" }, side)),
      el("div", { class: "dock" }, el("div", { class: "choices", role: "group", "aria-label": "Which prediction is right?" },
        button("a", bdi(question.a)), button("b", bdi(question.b)), button("neither", "Neither"), button("unclear", "Unclear")),
      el("p", { class: "actions" }, answered && state.can_undo ? el("button", { type: "button", onclick: undo }, "Back") : backButton(deck.cards.length - 1),
        el("progress", { max: answered + most, value: answered, "aria-label": "Texts" }), el("span", { class: "quiet", id: "far" }, far)))].flat();
  }

  function endView() {
    const { cards, both, agree, differ, file, next } = state.end;
    const byId = Object.fromEntries(deck.cards.map((card) => [card.id, card]));
    const people = [...new Set(cards.flatMap((row) => Object.keys(row.people)))];
    const opinions = Object.keys(state.opinions).length > 0;
    const heads = ["words", "decision", "predictions changed", ...(people.length > 1 ? people : []), ...(opinions ? ["second model"] : [])];
    const rows = cards.map((row) => {
      const { how, changes } = state.follows[row.id];
      const cells = [how, changes,
        ...(people.length > 1 ? people.map((by) => DONE[row.people[by]] || "-") : []), ...(opinions ? [state.opinions[row.id] || "-"] : [])];
      return el("tr", {}, el("th", { scope: "row", class: "name" }, names(byId[row.id], NAMED)), cells.map((cell) => el("td", {}, cell)));
    });
    const table = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Decisions" }, el("table", { class: "decisions" },
      el("caption", {}, "What happens to the word groups."),
      el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, rows)));
    return [heading("All word groups are answered"),
      el("p", {}, "Paste this in a terminal to repair the model:"), el("pre", {}, el("code", { class: "command" }, next)), copyButton(next),
      table, el("p", {}, total()),
      both ? el("p", {}, `${agree} of ${count(both, "word group")} that several people answered have one answer.`,
        differ ? ` On ${count(differ, "word group")} they contradict each other: there the audit decides.` : "",
        both > agree + differ ? " Where one person is not sure, the other answer decides." : "") : "",
      file ? el("p", {}, "Saved in ", el("code", {}, file), ".") : el("p", {}, backend.keeps() ? "This browser keeps the answers. Download the file to use them." : "Download the file: this browser does not keep the answers."),
      el("p", { class: "actions" }, el("button", { type: "button", class: "main", onclick: download }, "Download decisions.json"), backButton(deck.cards.length - 1),
        backend.stop ? el("button", { type: "button", onclick: stop }, "Stop the server") : "")].filter(Boolean).flat();
  }

  // To the word group before; an answer stays until another one is given.
  const backButton = (i) => el("button", { type: "button", disabled: i < 0, onclick: () => { at = i; tell(); show(); } }, "Back");
  const copyButton = (command) => (navigator.clipboard
    ? el("p", { class: "actions" }, el("button", { type: "button", onclick: () => navigator.clipboard.writeText(command).then(() => tell("Copied.")) }, "Copy")) : "");

  async function download() {
    try {
      const link = el("a", { href: URL.createObjectURL(new Blob([await backend.content()], { type: "application/json" })), download: "decisions.json" });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    } catch (error) { problem.textContent = error.message; }
  }

  async function stop() {
    try { await backend.stop(); } catch { /* It has stopped already. */ }
    body.replaceChildren(heading("The server has stopped"), el("p", {}, "What you answered is saved. You can close this page."));
    body.firstChild.focus();
    backend = null;
  }

  // Keys, for those who want them: a screen reader or a slip of the hand may need them off.
  const keys = el("input", { type: "checkbox", id: "keys", checked: true });
  document.addEventListener("keydown", (event) => {
    if (!deck || !backend || !keys.checked || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input:not([type=checkbox]), select, textarea")) return;
    const inside = root.dataset.mode === "server" || root.contains(event.target);
    if (!inside) return;
    const key = event.key.toLowerCase();
    const card = body.querySelector("#question") && deck.cards[at !== null ? at : deck.cards.findIndex((one) => !state.said[one.id])];
    if (key === "z") undo();
    else if (card && Object.hasOwn(CARD_KEYS, key)) answerCard(card, CARD_KEYS[key]);
    else if (!card && state.question && Object.hasOwn(TEXT_KEYS, key)) answerText(TEXT_KEYS[key]);
    else return;
    event.preventDefault();
  });

  function nameField() {
    if (!backend.name) return "";
    const field = el("input", { id: "reviewer", value: state.by, autocomplete: "off", maxlength: "80" });
    field.addEventListener("change", () => { backend.name(field.value.trim() || "person"); field.value = state.by; });
    return el("p", { class: "tools" }, el("label", { for: "reviewer" }, "Your name, for the file"), field);
  }

  async function start() {
    const stored = document.getElementById("deck");
    backend = stored ? browser(JSON.parse(stored.textContent)) : server(location.hash.slice(1));
    try { ({ deck, state } = await backend.load()); } catch (error) {
      root.replaceChildren(el("p", { class: "lead" }, error.message));
      return;
    }
    root.replaceChildren(nameField(), problem, status, news, body,
      el("details", { class: "quiet small" }, el("summary", {}, "Keys"),
        el("p", {}, keys, " ", el("label", { for: "keys" }, "Single keys answer: 1 to 4 (or k, n, s, a) on word groups; a, b, n, u on texts; z takes the last answer back."))));
    const begun = Object.keys(state.said).length;
    if (begun) tell(`Resuming: ${begun} of ${count(deck.cards.length, "word group")} answered before.`);
    show(root.dataset.mode === "server");
  }
  // An address with another token, pasted into this tab, is another review.
  window.addEventListener("hashchange", () => { if (root.dataset.mode === "server") location.reload(); });
  start();
})();
