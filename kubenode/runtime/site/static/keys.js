// Keys for those who use no mouse. Every page works without them.
//   /  the filter of the page, or the search
//   j  k  the next and the previous entry
//   ?  the list of keys

const dialog = document.getElementById("keys");
const ENTRIES = "main tbody tr, main .rows > .row, main .tiles > .tile";

function typing(element) {
  return element.isContentEditable || element.matches("input:not([type=checkbox]), select, textarea");
}

function entries() {
  return [...document.querySelectorAll(ENTRIES)]
    .filter((entry) => entry.getClientRects().length > 0)
    .map((entry) => [entry, entry.matches("a") ? entry : entry.querySelector("a[href], button")])
    .filter(([, target]) => target);
}

function move(step) {
  const all = entries();
  const at = all.findIndex(([entry]) => entry.contains(document.activeElement));
  const next = at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step;
  const found = all[Math.min(all.length - 1, Math.max(0, next))];
  if (!found) return;
  found[1].focus();
  found[0].scrollIntoView({ block: "nearest" });
}

const KEYS = {
  "/": () => {
    const filter = document.querySelector("[data-filter]") ?? document.getElementById("find");
    filter?.focus();
    filter?.select();
  },
  j: () => move(1),
  k: () => move(-1),
  "?": () => dialog.showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (dialog.open || typing(event.target) || !Object.hasOwn(KEYS, event.key)) return;
  event.preventDefault();
  KEYS[event.key]();
});

const open = document.getElementById("keys-open");
open.hidden = false;
open.addEventListener("click", () => dialog.showModal());
