// Reads an Agent's mail from one connection that stays open (server-sent events).
//
//   GATEPOST=http://localhost:8080 TOKEN=gp_… node made/stream.js

import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

interface MailReceived {
  id: string;
  from: string;
  subject: string | null;
  /** Without a message where it was erased. */
  data: { erased?: boolean };
}

const place = process.env.PLACE ?? "place";

/** Your part. An event may come twice: do nothing the second time that you see its id. */
function handle(event: MailReceived): void {
  if (!event.data.erased) console.log(event.from, event.subject);
}

/** Keeps the id of the last event, whole or not at all. */
function keep(id: string): void {
  writeFileSync(`${place}.new`, id);
  renameSync(`${place}.new`, place);
}

/** Handles events until the server ends the stream, as it does every quarter of an hour. */
async function follow(): Promise<void> {
  const query = new URLSearchParams({ token: process.env.TOKEN ?? "", event: "email.received" });
  const headers: Record<string, string> = { Accept: "text/event-stream" };
  if (existsSync(place)) headers["Last-Event-ID"] = readFileSync(place, "utf8");
  const answer = await fetch(`${process.env.GATEPOST}/api/v2/events?${query}`, { headers });
  if (answer.status >= 500 || answer.status === 408 || answer.status === 429) {
    await sleep(1000 * Number(answer.headers.get("retry-after") ?? 5));
    return;
  }
  if (!answer.ok || !answer.body) throw new Refused(await answer.text());
  const decoder = new TextDecoder();
  let rest = "";
  for await (const octets of answer.body) {
    const blocks = (rest + decoder.decode(octets, { stream: true })).split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const lines = block.split("\n");
      const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5));
      if (data.length > 0) handle(JSON.parse(data.join("\n")) as MailReceived);
      // Also of a block without an event: the stream is as far as that.
      const id = lines.find((line) => line.startsWith("id:"))?.slice(3).trim();
      if (id) keep(id);
    }
  }
}

/** A mistake of ours, which does not go away by itself. */
class Refused extends Error {}

async function main(): Promise<void> {
  for (;;) {
    try {
      await follow();
    } catch (error) {
      if (error instanceof Refused) throw error;
      console.log(String(error)); // the server is away
      await sleep(3000);
    }
  }
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
