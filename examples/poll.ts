// Reads an Agent's mail by asking for what is new: every event at least once, and in order.
//
//   GATEPOST=http://localhost:8080 TOKEN=gp_… node made/poll.js

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

interface MailReceived {
  id: string;
  from: string;
  subject: string | null;
  data: { message: { message: string | null } };
}

const place = process.env.PLACE ?? "place";

/** Your part. An event may come twice: do nothing the second time that you see its id. */
function handle(event: MailReceived): void {
  console.log(event.from, event.subject);
}

/** What came since the last time; waits for up to 30 seconds where nothing did. */
function ask(): Promise<Response> {
  const query = new URLSearchParams({
    token: process.env.TOKEN ?? "", event: "email.received", wait: "30",
  });
  if (existsSync(place)) query.set("after", readFileSync(place, "utf8"));
  return fetch(`${process.env.GATEPOST}/api/v2/events?${query}`, {
    signal: AbortSignal.timeout(60_000),
  });
}

async function main(): Promise<void> {
  for (;;) {
    let answer: Response;
    try {
      answer = await ask();
    } catch (error) { // the server is away
      console.log(String(error));
      await sleep(5000);
      continue;
    }
    if (answer.status === 429 || answer.status === 503) {
      await sleep(1000 * Number(answer.headers.get("retry-after") ?? 5));
      continue;
    }
    if (!answer.ok) throw new Error(await answer.text());
    const page = (await answer.json()) as { events: MailReceived[] };
    for (const event of page.events) {
      handle(event);
      writeFileSync(place, event.id);
    }
  }
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
