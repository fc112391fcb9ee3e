// Follows the live page, shows times in the reader's zone, and copies texts. Every page works without it.
"use strict";

const zone = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const date = new Date(time.dateTime);
    if (isNaN(date)) continue;
    if (time.title) time.title = zone.format(date);
    else { time.title = time.textContent; time.textContent = zone.format(date); }
  }
}

function copying() {
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      button.textContent = "Copied";
    });
  }
}

// Shows new rows as the server sends them, while the page is visible and nobody is in the table.
function following() {
  const sign = document.getElementById("follow");
  const rows = document.getElementById("rows");
  if (!sign || !rows) return;
  let source = null;
  const busy = () => rows.matches(":hover, :focus-within");
  const say = (words, tone) => { sign.hidden = false; sign.textContent = words; sign.className = "verdict " + tone; };
  const follow = () => {
    if (source) source.close();
    source = null;
    if (busy()) return say("paused", "none");
    if (document.hidden) return;
    source = new EventSource(sign.dataset.stream + location.search);
    source.addEventListener("open", () => say("following", "good"));
    source.addEventListener("rows", (event) => {
      if (busy()) return;
      const sent = rows.cloneNode(false);
      sent.innerHTML = event.data;
      localTimes(sent);
      // Rows that are there already stay, and tell their age: somebody may be about to press one.
      const known = new Map([...rows.children].map((row) => [row.id, row]));
      const kept = (row) => {
        const old = known.get(row.id);
        const [was, is] = [old, row].map((one) => one?.querySelector("time"));
        if (was && is) was.textContent = is.textContent;
        return old?.outerHTML === row.outerHTML ? old : row;
      };
      rows.replaceChildren(...[...sent.children].map(kept));
    });
    source.addEventListener("error", () => say("not following: reload the page", "wait"));
  };
  // Once the focus has moved: while it moves, it is nowhere.
  for (const name of ["mouseenter", "mouseleave", "focusin", "focusout"])
    rows.addEventListener(name, () => setTimeout(follow));
  document.addEventListener("visibilitychange", follow);
  follow();
}

localTimes(document);
copying();
following();
