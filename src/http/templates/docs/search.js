// Finds operations by words of their paths, summaries and fields: /docs lists them all. And one button
// to copy what is to be pasted. Without this script the pages are whole, only without the two.
"use strict";

const input = document.getElementById("search");
const found = document.getElementById("found");
const page = document.getElementById("page");
let entries;

/** All operations, as the first page lists them. */
async function all() {
  let list = document.getElementById("operations");
  if (!list) {
    const answer = await fetch("/docs");
    list = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("operations");
  }
  return [...list.querySelectorAll("li")].map((item) => ({
    item: item.cloneNode(true),
    words: `${item.textContent} ${item.dataset.words}`.toLowerCase(),
  }));
}

async function search() {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  entries ??= all();
  const known = await entries;
  const hits = known.filter((entry) => words.every((word) => entry.words.includes(word)));
  found.hidden = words.length === 0;
  page.hidden = words.length > 0;
  const heading = document.createElement("h1");
  heading.textContent = hits.length === 1 ? "1 operation" : `${hits.length} operations`;
  const list = document.createElement("ul");
  list.className = "index";
  list.append(...hits.map((entry) => entry.item));
  found.replaceChildren(heading, list);
}

function leave() {
  input.value = "";
  search();
  input.blur();
}

input.hidden = false;
input.addEventListener("input", search);
input.addEventListener("keydown", (event) => {
  const first = found.querySelector("a");
  if (event.key === "Enter" && first && !found.hidden) first.click();
  if (event.key === "Escape") leave();
});
found.addEventListener("click", (event) => {
  if (event.target.closest("a")) leave();
});
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select");
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  input.focus();
});

// Browsers let pages copy over https, and on this machine.
for (const code of navigator.clipboard ? document.querySelectorAll("pre.code") : []) {
  const button = document.createElement("button");
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  });
  const frame = document.createElement("div");
  frame.className = "copied";
  code.replaceWith(frame);
  frame.append(code, button);
}
