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
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      button.textContent = "Copied";
    });
  }
}

// Asks for the newest rows every two seconds while the page is visible and the pointer is not on the table.
function following() {
  const sign = document.getElementById("follow");
  const rows = document.getElementById("rows");
  if (!sign || !rows) return;
  let paused = false;
  const say = (words, tone) => { sign.hidden = false; sign.textContent = words; sign.className = "verdict " + tone; };
  rows.addEventListener("mouseenter", () => { paused = true; say("paused", "none"); });
  rows.addEventListener("mouseleave", () => { paused = false; say("following", "good"); });
  say("following", "good");
  setInterval(async () => {
    if (paused || document.hidden || rows.contains(document.activeElement)) return;
    try {
      const answer = await fetch(sign.dataset.rows + location.search, { redirect: "error" });
      if (!answer.ok) throw new Error(answer.status);
      rows.innerHTML = await answer.text();
      localTimes(rows);
      say("following", "good");
    } catch (error) {
      say("the server does not answer: reload the page", "wait");
    }
  }, 2000);
}

localTimes(document);
copying();
following();
