// Reads an Agent's mail by asking for what is new: every event at least once, and in order.
//
//   GATEPOST=http://localhost:8080 TOKEN=gp_… node made/poll.js

import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

export interface MailReceived {
  id: string;
  event: string;
  messageUuid: string;
  from: string;
  subject: string | null;
  /** Without a message where it was erased. */
  data: { erased?: boolean; message?: { message: string } };
}

interface Page {
  events: MailReceived[];
  next: string | null;
}

const place = process.env.PLACE ?? "place";

/** Your part. An event may come twice: do nothing the second time that you see its id. */
function handle(event: MailReceived): void {
  if (event.data.erased) return;
  console.log(event.from, event.subject);
}

/** Keeps the id of the last event, whole or not at all. */
function keep(id: string): void {
  writeFileSync(`${place}.new`, id);
  renameSync(`${place}.new`, place);
}

/** A mistake of ours, which does not go away by itself. */
class Refused extends Error {}

/** What came since the last time; waits for up to half a minute where nothing did. */
async function ask(): Promise<Page> {
  const query = new URLSearchParams({
    token: process.env.TOKEN ?? "", event: "email.received", wait: "30",
  });
  if (existsSync(place)) query.set("after", readFileSync(place, "utf8"));
  const answer = await fetch(`${process.env.GATEPOST}/api/v2/events?${query}`, {
    signal: AbortSignal.timeout(60_000),
  });
  if (answer.ok) return (await answer.json()) as Page;
  const text = await answer.text();
  if (answer.status < 500 && answer.status !== 408 && answer.status !== 429) throw new Refused(text);
  await sleep(1000 * Number(answer.headers.get("retry-after") ?? 5));
  return { events: [], next: null };
}

/** Hands over each event of a mail, for ever. */
export async function follow(handle: (event: MailReceived) => unknown): Promise<never> {
  for (;;) {
    let page: Page;
    try {
      page = await ask();
    } catch (error) {
      if (error instanceof Refused) throw error;
      console.log(String(error)); // the server is away
      await sleep(5000);
      continue;
    }
    for (const event of page.events) {
      await handle(event);
      keep(event.id);
    }
    if (page.next) keep(page.next); // further than the last event, where others were left out
  }
}

if (require.main === module) {
  follow(handle).catch((error) => {
    console.error(error);
    process.exitCode = 1;
  });
}
