// The console in the browser: keeps a page current, filters entries, shows what is behind a bar, and zooms.
// Every text arrives in the page; this script reads no data and writes no HTML of its own.

const find = (selector, root = document) => [...root.querySelectorAll(selector)];

// ---- colors: those of the system, unless the reader chooses others
const button = document.getElementById("theme");
const dark = matchMedia("(prefers-color-scheme: dark)");

function showTheme(theme) {
  const current = theme ?? (dark.matches ? "dark" : "light");
  if (theme) document.documentElement.dataset.theme = theme;
  button.hidden = false;
  button.textContent = current === "dark" ? "Light" : "Dark";
  button.onclick = () => {
    const other = current === "dark" ? "light" : "dark";
    keep("faultbridge-theme", other);
    showTheme(other);
  };
}

// ---- times: those of the reader's zone, unless the reader chooses UTC; every text arrives as UTC
const zone = document.getElementById("zone");
const two = (number) => String(number).padStart(2, "0");
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

function keep(name, value) { // a file may have no storage
  try { return value === undefined ? localStorage.getItem(name) : localStorage.setItem(name, value); } catch { return null; }
}

const isLocal = () => keep("faultbridge-zone") !== "UTC";

function clock(at, seconds) {
  return `${two(at.getHours())}:${two(at.getMinutes())}${seconds ? `:${two(at.getSeconds())}` : ""}`;
}

function localTime(utc, iso) {
  const at = new Date(iso);
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${clock(at, /:\d\d:\d\d/.test(utc))}`;
}

function localTick(utc, iso, tick) {
  const at = new Date(iso);
  const midnight = clock(at, true) === "00:00:00";
  if (midnight || !tick.parentElement.textContent.includes(":")) return utc.length > 8 ? utc : `${MONTHS[at.getMonth()]} ${at.getDate()}`;
  return clock(at, /:\d\d:/.test(utc));
}

const localTexts = (text) => text.replace(/(\d{4}-\d\d-\d\d) (\d\d:\d\d(?::\d\d)?) UTC/g,
  (whole, day, time) => localTime(time, `${day}T${time}Z`));

function ageText(iso) {
  const seconds = Math.max(0, (Date.now() - Date.parse(iso)) / 1000);
  const [unit, size] = [["s", 1, 60], ["min", 60, 7200], ["h", 3600, 172800], ["d", 86400, Infinity]].find(([, , below]) => seconds < below);
  return `${(seconds / size).toFixed(seconds / size < 10 && unit !== "s" ? 1 : 0).replace(/\.0$/, "")} ${unit} ago`;
}

function showTimes() {
  const local = isLocal();
  for (const one of find("time[datetime], text[data-at]")) {
    const iso = one.getAttribute("datetime") ?? one.dataset.at;
    one.dataset.utc ??= one.textContent;
    if (one.classList.contains("ago")) one.textContent = ageText(iso);
    else if (!local) one.textContent = one.dataset.utc;
    else one.textContent = (one.dataset.at ? localTick : localTime)(one.dataset.utc, iso, one);
  }
  const name = new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts(new Date()).find((part) => part.type === "timeZoneName").value;
  zone.hidden = false;
  zone.textContent = local ? name : "UTC";
  zone.title = local ? "Show UTC" : "Show local time";
  document.getElementById("zone-note").textContent = local ? `Times are local (${name}).` : "Times are UTC.";
  zone.onclick = () => { keep("faultbridge-zone", local ? "UTC" : "local"); showTimes(); };
}

// ---- commands: copied by a button
function copies() {
  for (const button of find("button.copy")) {
    button.hidden = !navigator.clipboard;
    button.onclick = async () => {
      await navigator.clipboard.writeText(button.parentElement.querySelector("pre").textContent);
      button.textContent = "Copied";
    };
  }
}

// ---- entries: filter by text and type; the filter is part of the address
function filterEntries() {
  const address = new URL(location.href);
  for (const form of find("form.filter")) {
    const fields = [...form.elements].filter((field) => field.name);
    form.hidden = false;
    for (const field of fields) field.value = address.searchParams.get(field.name) ?? field.value;
    const apply = () => {
      const text = (form.elements.q?.value ?? "").toLowerCase();
      const type = form.elements.type?.value ?? "";
      const rows = find(".entry, .filtered", form.parentElement);
      let shown = 0;
      for (const row of rows) {
        row.hidden = (type && row.dataset.type !== type) || !row.textContent.toLowerCase().includes(text);
        shown += row.hidden ? 0 : 1;
      }
      form.querySelector("output").value = text || type ? `${shown} of ${rows.length}` : "";
      for (const field of fields) {
        if (field.value) address.searchParams.set(field.name, field.value);
        else address.searchParams.delete(field.name);
      }
      if (location.protocol !== "file:") history.replaceState(null, "", address.href.split("#")[0] + location.hash);
    };
    form.oninput = apply;
    form.onsubmit = (event) => event.preventDefault();
    if (fields.some((field) => field.value)) apply();
  }
}

// ---- deep links: an entry in the address is open
function openTarget() {
  const entry = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const details = entry && (entry.matches("details") ? entry : entry.querySelector("details"));
  if (!details) return;
  entry.hidden = false;
  for (let outer = entry.closest("details"); outer; outer = outer.parentElement.closest("details")) outer.open = true;
  details.open = true;
  details.querySelector("summary").focus({ preventScroll: true });
  entry.scrollIntoView({ block: entry === details ? "start" : "center" });
}

// ---- the text behind a bar or a node, for the pointer and for the keyboard
const tip = document.getElementById("tip");

function showTip(event) {
  const on = event.target.closest?.("[data-tip]");
  tip.hidden = !on;
  if (!on) return;
  tip.textContent = isLocal() ? localTexts(on.dataset.tip) : on.dataset.tip;
  const box = on.getBoundingClientRect();
  const x = event.clientX ?? box.left;
  tip.style.left = `${Math.max(4, Math.min(x + 12, innerWidth - tip.offsetWidth - 8))}px`;
  const below = box.bottom + 8;
  tip.style.top = `${below + tip.offsetHeight < innerHeight ? below : box.top - tip.offsetHeight - 8}px`;
}

// ---- zoom: drag over a chart to select a time range
function zoom() {
  for (const chart of find(".chart[data-start]")) {
    const start = Date.parse(chart.dataset.start);
    const span = Date.parse(chart.dataset.end) - start;
    chart.onpointerdown = (down) => {
      const track = down.target.closest(".track");
      if (!track || down.button) return;
      const box = track.getBoundingClientRect();
      const share = (event) => Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      const from = share(down);
      const brush = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      const stop = () => { brush.remove(); removeEventListener("pointermove", move); removeEventListener("pointerup", up); };
      const move = (event) => {
        const [left, right] = [from, share(event)].sort((a, b) => a - b);
        if (!brush.isConnected && right - left > 0.01) track.append(brush);
        brush.setAttribute("class", "brush");
        brush.setAttribute("x", `${left * 100}%`);
        brush.setAttribute("width", `${(right - left) * 100}%`);
        brush.setAttribute("height", "26");
      };
      const up = (event) => {
        const [left, right] = [from, share(event)].sort((a, b) => a - b);
        const dragged = brush.isConnected;
        stop();
        if (!dragged || location.protocol === "file:") return;
        addEventListener("click", (click) => click.preventDefault(), { once: true, capture: true });
        const address = new URL(location.href);
        address.hash = "";
        address.searchParams.set("since", new Date(start + left * span).toISOString());
        address.searchParams.set("until", new Date(start + right * span).toISOString());
        location.href = address.href;
      };
      addEventListener("pointermove", move);
      addEventListener("pointerup", up);
      addEventListener("pointercancel", stop, { once: true });
    };
    chart.ondragstart = (event) => event.preventDefault();
  }
}

// ---- current: ask for the page again; the server answers 304 while nothing changed
const state = document.getElementById("live");
let tag = document.body.dataset.version;
let failures = 0;

function schedule() {
  const seconds = Number(document.body.dataset.refresh);
  if (seconds) setTimeout(refresh, 1000 * seconds * Math.min(2 ** failures, 16));
}

async function refresh() {
  if (document.visibilityState === "visible") {
    try {
      const answer = await fetch(location.href.split("#")[0], { cache: "no-store", headers: { "If-None-Match": tag } });
      if (!answer.ok && answer.status !== 304) throw new Error(String(answer.status));
      if (answer.status === 200) {
        tag = answer.headers.get("ETag");
        replace(new DOMParser().parseFromString(await answer.text(), "text/html"));
      }
      failures = 0;
      state.textContent = `current at ${isLocal() ? clock(new Date(), true) : new Date().toISOString().slice(11, 19)}`;
      showTimes();
    } catch (error) {
      failures += 1;
      const signedOut = ["401", "403"].includes(error.message);
      state.textContent = `not current: ${signedOut ? "load the page again to sign in" : "the server does not answer"}`;
    }
  }
  schedule();
}

function replace(page) {
  const open = find("details[open]").map((details) => details.closest("[id]")?.id);
  const focused = document.activeElement?.closest(".entry")?.id;
  const values = find("form input, form select").map((field) => [field.form.className, field.name, field.value]);
  const scroll = scrollY;
  document.body.dataset.refresh = page.body.dataset.refresh ?? "";
  document.getElementById("main").replaceChildren(...page.getElementById("main").childNodes);
  for (const id of open) if (id) document.getElementById(id)?.querySelector("details")?.setAttribute("open", "");
  for (const [form, name, value] of values) {
    const field = find("form").find((one) => one.className === form)?.elements[name];
    if (field) field.value = value;
  }
  enhance();
  if (focused) document.getElementById(focused)?.querySelector("summary")?.focus({ preventScroll: true });
  scrollTo(0, scroll);
}

function enhance() {
  filterEntries();
  zoom();
  showTimes();
  copies();
}

showTheme(keep("faultbridge-theme"));
enhance();
openTarget();
addEventListener("hashchange", openTarget);
addEventListener("beforeprint", () => find("details.folded").forEach((one) => { one.open = true; }));
addEventListener("pointerover", showTip);
addEventListener("focusin", showTip);
addEventListener("scroll", () => showTip({ target: document.activeElement }), { passive: true });
addEventListener("keydown", (event) => {
  if (event.key === "Escape") tip.hidden = true;
  if (event.key !== "/" || event.target.closest("input, select, textarea")) return;
  event.preventDefault();
  document.querySelector("form.filter input")?.focus();
});
schedule();
