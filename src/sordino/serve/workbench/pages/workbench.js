// The script of the workbench: prices as a form changes, practice, completion. It talks to its own origin alone.

const policy = window.trustedTypes
  ? trustedTypes.createPolicy("workbench", { createHTML: (text) => text })  // fragments of this server, escaped there
  : { createHTML: (text) => text };

async function fetchFragment(path, form) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/x-www-form-urlencoded", "x-fragment": "1" },
    body: new URLSearchParams(new FormData(form)),
    credentials: "same-origin",
  });
  const text = await answer.text();
  if (!(answer.headers.get("content-type") || "").startsWith("text/html")) throw new Error(answer.status);
  return text;
}

function show(place, text) {
  place.innerHTML = policy.createHTML(text);
}

function watchForm(form) {
  const place = document.getElementById(form.dataset.price ? "price" : form.dataset.target);
  const path = form.dataset.price || form.dataset.fragment;
  let timer, turn = 0;
  async function refresh() {
    const mine = ++turn;
    place.setAttribute("aria-busy", "true");  // drawn as such: a price may take a second
    try {
      const text = await fetchFragment(path, form);
      if (mine === turn) { show(place, text); markEditor(place); place.removeAttribute("aria-busy"); }  // a late answer does not replace a newer one
    } catch {
      if (mine === turn) { place.textContent = "The server did not answer: is it still running?"; place.removeAttribute("aria-busy"); }
    }
  }
  if (!form.hasAttribute("action")) form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(refresh, 120); });
  refresh();
}

function watchPractice(button) {
  const form = button.form;
  button.addEventListener("click", async () => {
    const place = document.getElementById("tried");
    document.getElementById("tried-section").hidden = false;
    place.textContent = "Asking the made-up table ...";
    try { show(place, await fetchFragment(button.dataset.practise, form)); }
    catch { place.textContent = "The server did not answer: is it still running?"; }
    document.getElementById("tried-section").scrollIntoView({ block: "nearest" });
  });
}

function watchSlider(slider) {
  const field = document.getElementById(slider.dataset.slides);
  const say = () => slider.setAttribute("aria-valuetext", field.value);
  const plain = slider.dataset.scale === "plain";
  slider.addEventListener("input", () => {
    field.value = plain ? slider.value : String(Number((10 ** slider.value).toPrecision(2)));
    say();
  });
  field.addEventListener("input", () => {
    const value = Number(field.value);
    if (value > 0) slider.value = plain ? value : Math.log10(value);
    say();
  });
  say();
}

function watchFilter(select) {  // offers the declared values of the column
  const number = select.name.split(":")[1], list = document.getElementById(`values${number}`);
  const fill = () => {
    const row = [...document.querySelectorAll("tr[data-column]")].find((one) => one.dataset.column === select.value);
    const values = row ? JSON.parse(row.dataset.values) : [];
    list.replaceChildren(...values.map((value) => { const o = document.createElement("option"); o.value = value; return o; }));
  };
  select.addEventListener("change", fill);
  fill();
}

function watchMeasure(select) {  // a count of rows has no column, and only a quantile a part
  const field = (name) => document.querySelector(`[data-for-${name}="${select.dataset.measure}"]`);
  const fit = () => {
    field("column").hidden = ["", "count"].includes(select.value);
    field("quantile").hidden = select.value !== "quantile";
  };
  select.addEventListener("change", fit);
  fit();
}

function watchKind(select) {  // shows what a table or a column of this kind takes
  const table = select.dataset.kinds === "table", place = table ? select.form : select.closest("fieldset");
  const fields = [...place.querySelectorAll("[data-needs]")].filter((one) => !table || !one.closest("[data-column-place]"));
  const items = table ? null : place.querySelector("[data-items]"), missing = table ? null : place.querySelector("[data-missing]");
  const fit = () => {
    const takes = select.selectedOptions[0].dataset.takes.split(" ");
    if (takes.includes("items")) takes.push(...items.selectedOptions[0].dataset.takes.split(" ").filter((one) => one !== "missing"));
    if (missing && takes.includes("missing") && missing.value === "fill") takes.push("fill");
    for (const field of fields) field.hidden = !takes.includes(field.dataset.needs);
  };
  select.addEventListener("change", fit);
  for (const other of [items, missing]) if (other) other.addEventListener("change", fit);
  fit();
}

function watchColumns(button) {  // a form begins with a few columns, and has as many as are asked for
  const all = () => [...button.form.querySelectorAll("[data-column-place]")];
  for (const one of all().slice(3)) one.hidden = true;
  button.hidden = false;
  button.addEventListener("click", () => {
    let next = all().find((one) => one.hidden);
    if (next) next.hidden = false;
    else {
      const last = all().at(-1), old = last.dataset.columnPlace, place = String(Number(old) + 1);
      next = last.cloneNode(true);
      next.dataset.columnPlace = place;
      next.querySelector("legend").textContent = `Column ${place}`;
      for (const one of next.querySelectorAll("label")) one.htmlFor = one.htmlFor.slice(0, -old.length) + place;
      for (const one of next.querySelectorAll("[name]")) {
        one.id = one.id.slice(0, -old.length) + place;
        one.name = one.name.slice(0, -old.length) + place;
        if (one.tagName !== "SELECT") one.value = "";
      }
      const kind = next.querySelector("[data-kinds]");
      kind.dataset.kinds = place;
      last.after(next);
      watchKind(kind);
    }
    next.querySelector("input").focus();
  });
}

function markEditor(place) {
  const editor = document.getElementById("sql"), back = document.getElementById("backdrop");
  if (!editor || !back) return;
  const found = place.querySelector("[data-start]");
  editor.setAttribute("aria-invalid", String(place.querySelector(".problem") !== null && found !== null));
  if (!found) { back.replaceChildren(); return; }
  const [start, end] = [Number(found.dataset.start), Number(found.dataset.end)];
  const mark = document.createElement("mark");
  mark.textContent = editor.value.slice(start, Math.max(end, start + 1)) || " ";
  back.replaceChildren(editor.value.slice(0, start), mark, editor.value.slice(end));
  back.scrollTop = editor.scrollTop;
}

function watchEditor(editor) {
  const list = document.getElementById("words"), words = JSON.parse(document.getElementById("editor").dataset.words);
  let chosen = 0, found = [], from = 0;
  const close = () => { list.hidden = true; editor.removeAttribute("aria-activedescendant"); };
  const typed = () => editor.value.slice(0, editor.selectionStart).match(/['\w]*$/)[0];
  const draw = () => {
    list.replaceChildren(...found.map((one, place) => {
      const item = document.createElement("li"), kind = document.createElement("span");
      item.id = `word-${place}`;
      item.setAttribute("role", "option");
      item.setAttribute("aria-selected", String(place === chosen));
      kind.className = "fine";
      kind.textContent = one.is;
      item.append(one.word, kind);
      item.addEventListener("mousedown", (event) => { event.preventDefault(); chosen = place; take(); });
      return item;
    }));
    list.hidden = false;
    editor.setAttribute("aria-activedescendant", `word-${chosen}`);
    list.children[chosen].scrollIntoView({ block: "nearest" });
  };
  const open = (all) => {
    const start = typed();
    found = start || all ? words.filter((one) => one.word.toLowerCase().startsWith(start.toLowerCase()) && one.word !== start).slice(0, 60) : [];
    from = editor.selectionStart - start.length;
    chosen = 0;
    if (found.length) draw(); else close();
  };
  const take = () => {
    editor.setRangeText(found[chosen].word, from, editor.selectionStart, "end");
    close();
    editor.dispatchEvent(new Event("input", { bubbles: true }));
    close();
  };
  editor.addEventListener("input", (event) => { document.getElementById("backdrop").replaceChildren(); if (event.isTrusted) open(false); });
  editor.addEventListener("scroll", () => { document.getElementById("backdrop").scrollTop = editor.scrollTop; });
  editor.addEventListener("blur", close);
  editor.addEventListener("keydown", (event) => {
    if (event.key === " " && event.ctrlKey) { event.preventDefault(); open(true); return; }
    if (list.hidden) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) { event.preventDefault(); chosen = (chosen + step + found.length) % found.length; draw(); }
    else if (event.key === "Enter") { event.preventDefault(); take(); }
    else if (event.key === "Escape") { event.preventDefault(); close(); }
  });
}

function watchJob(place) {  // looks again and again, until it is done
  const said = document.querySelector("[data-said]"), every = Number(place.dataset.every || 1000);
  let before = place.querySelector("[data-say]").textContent;
  async function look() {
    try {
      const answer = await fetch(place.dataset.poll, { headers: { "x-fragment": "1" }, credentials: "same-origin" });
      const text = await answer.text();
      if (!answer.ok || !(answer.headers.get("content-type") || "").startsWith("text/html")) throw new Error(answer.status);
      const fresh = document.createElement("div");
      show(fresh, text);
      const now = fresh.querySelector("[data-say]");
      if (!now) throw new Error("signed out");
      if (!place.contains(document.activeElement)) show(place, text);  // whoever reads in it is not disturbed
      if (now.textContent !== before) said.textContent = `Now ${now.textContent}.`;  // heard once, not at each look
      before = now.textContent;
      if (fresh.querySelector("[data-done]")) { show(place, text); return; }
    } catch {
      said.textContent = "The server did not answer: is it still running, and are you signed in?";
    }
    setTimeout(look, every);
  }
  if (!place.querySelector("[data-done]")) setTimeout(look, every);
}

function enter(form) {  // the link's secret stands in the fragment, which no browser sends
  const secret = location.hash.slice(1);
  if (!secret) return;
  history.replaceState(null, "", location.pathname);
  form.elements.secret.value = secret;
  form.submit();
}

for (const form of document.querySelectorAll("form[data-price], form[data-fragment]")) watchForm(form);
for (const slider of document.querySelectorAll("input[data-slides]")) watchSlider(slider);
for (const button of document.querySelectorAll("button[data-practise]")) watchPractice(button);
for (const select of document.querySelectorAll("select[name^='column:']")) watchFilter(select);
for (const select of document.querySelectorAll("select[data-measure]")) watchMeasure(select);
for (const select of document.querySelectorAll("select[data-kinds]")) watchKind(select);
if (document.getElementById("more-columns")) watchColumns(document.getElementById("more-columns"));
for (const place of document.querySelectorAll("[data-poll]")) watchJob(place);
if (document.getElementById("words")) watchEditor(document.getElementById("sql"));
if (document.getElementById("enter")) enter(document.getElementById("enter"));
