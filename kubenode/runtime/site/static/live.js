// Keeps an open page true. The page is complete without this script; the server sends parts of it
// as they change, already escaped, and each replaces the part with the same key.

const SILENT_SECONDS = 15;
const body = document.body;
const root = body.dataset.root;
const stale = document.getElementById("stale");
let seen = body.dataset.seen;
let heard = Date.now();
let skew = 0; // milliseconds that the server's clock is ahead of ours
let source = null;
let asking = false; // whether somebody is already finding out why the stream ended
const waiting = new Map(); // parts that a person is using: replaced when they leave them

// ---- time

const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

function length(seconds) {
  const left = Math.max(0, Math.round(seconds));
  const [unit, size] = UNITS.find(([, size]) => left >= size) ?? ["s", 1];
  const whole = Math.floor(left / size);
  const rest = unit === "h" ? Math.floor((left % size) / 60) : 0;
  return rest ? `${whole} h ${rest} min` : `${whole} ${unit}`;
}

function tellTimes(within = document) {
  for (const time of within.querySelectorAll("time[data-ago]")) {
    const at = Date.parse(time.dateTime);
    time.title ||= time.textContent;
    const seconds = (Date.now() + skew - at) / 1000;
    const text = seconds >= 0 ? `${length(seconds)} ago` : `in ${length(-seconds)}`;
    if (time.textContent !== text) time.textContent = text;
  }
}

// ---- parts

function slotNamed(name) {
  return document.querySelector(`[data-slot="${CSS.escape(name)}"]`);
}

function byKey(slot) {
  return new Map([...slot.children].filter((e) => e.dataset.key !== undefined).map((e) => [e.dataset.key, e]));
}

function made(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content.firstElementChild;
}

function busy(element) {
  const active = document.activeElement;
  return active !== body && element.contains(active) && active.matches("input, textarea, select");
}

function replace(old, fresh) {
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  for (const details of old.querySelectorAll("details[open][id]")) {
    fresh.querySelector(`#${CSS.escape(details.id)}`)?.setAttribute("open", "");
  }
  if (old.matches("details[open]")) fresh.setAttribute("open", "");
  const mark = focused && (focused.id || focused.getAttribute("href") || focused.value);
  old.replaceWith(fresh);
  if (!focused) return;
  const same = [fresh, ...fresh.querySelectorAll("a, button, summary, [tabindex]")];
  same.find((e) => mark && [e.id, e.getAttribute("href"), e.value].includes(mark))?.focus({ preventScroll: true });
}

function show(slot, news) {
  const have = byKey(slot);
  for (const [key, html] of Object.entries(news.html ?? {})) {
    const fresh = made(html);
    const old = have.get(key);
    if (old && busy(old)) {
      waiting.set(old, fresh);
      continue;
    }
    if (old) replace(old, fresh);
    have.set(key, fresh);
  }
  if (!news.keys) return;
  if (!news.keys.length) slot.replaceChildren(); // nothing at all, not even white space: see :empty
  const wanted = new Set(news.keys);
  for (const [key, element] of have) if (!wanted.has(key)) element.remove();
  let before = null;
  for (const key of [...news.keys].reverse()) {
    const element = have.get(key);
    if (!element) continue;
    if (element.nextElementSibling !== before || element.parentElement !== slot) slot.insertBefore(element, before);
    before = element;
  }
}

document.addEventListener("focusout", () => {
  for (const [old, fresh] of waiting) {
    if (busy(old)) continue;
    waiting.delete(old);
    if (old.isConnected) replace(old, fresh);
  }
});

function take(event) {
  const { now, slots, layout } = JSON.parse(event.data);
  heard = Date.now();
  skew = Date.parse(now) - heard;
  if (event.lastEventId) seen = event.lastEventId;
  const there = new Set([...document.querySelectorAll("[data-slot]")].map((e) => e.dataset.slot));
  if (layout.length && (layout.length !== there.size || layout.some((name) => !there.has(name)))) {
    location.reload();
    return;
  }
  for (const [name, news] of Object.entries(slots)) {
    const slot = slotNamed(name);
    if (slot) show(slot, news);
  }
  const clock = document.getElementById("now");
  if (clock) {
    clock.dateTime = now;
    clock.textContent = now.replace("T", " ").replace("Z", " UTC");
  }
  tellTimes();
  say("");
  document.dispatchEvent(new CustomEvent("kubenode:news"));
}

// ---- whether what is shown is true

function say(text, link) {
  body.classList.toggle("old", text !== "");
  if (stale.dataset.text === text) return;
  stale.dataset.text = text;
  stale.replaceChildren(text);
  if (link) {
    const anchor = document.createElement("a");
    anchor.href = link;
    anchor.textContent = "Log in again";
    stale.append(" ", anchor);
  }
  stale.hidden = text === "";
}

function since() {
  const at = new Date(heard + skew).toISOString();
  return `${at.slice(0, 10)} ${at.slice(11, 19)} UTC`;
}

async function lost() {
  say(`No news from ${body.dataset.program} since ${since()}: what you see may be old. Trying again.`);
  if (asking || source.readyState === EventSource.CONNECTING) return; // the browser tries again
  asking = true;
  source.close();
  const answer = await fetch(body.dataset.live, { method: "HEAD", cache: "no-store" }).catch(() => null);
  if (answer?.status === 401) {
    const to = encodeURIComponent(location.pathname.slice(root.length) + location.search);
    say("You are logged out: what you see is no longer kept up to date.", `${root}/login?to=${to}`);
    return;
  }
  setTimeout(() => {
    asking = false;
    if (!document.hidden) follow();
  }, 1000 + Math.random() * 2000);
}

function follow() {
  const address = new URL(body.dataset.live, location.href);
  address.searchParams.set("seen", seen);
  source = new EventSource(address);
  source.addEventListener("news", take);
  source.addEventListener("beat", take);
  source.addEventListener("error", lost);
}

// A page that nobody looks at needs no stream; it is brought up to date when it is looked at.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) source?.close();
  else if (source?.readyState === EventSource.CLOSED && !asking) follow();
});
addEventListener("pagehide", () => source?.close());
addEventListener("pageshow", (event) => event.persisted && follow());

setInterval(() => {
  tellTimes();
  if (!document.hidden && Date.now() - heard > SILENT_SECONDS * 1000) lost();
}, 1000);

tellTimes();
if (body.dataset.live) follow();
