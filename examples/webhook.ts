// Is told of an Agent's mail by POSTs, and believes only those that are signed.
//
//   npm install standardwebhooks
//   SECRET=whsec_… PORT=8000 node made/webhook.js

import { createServer } from "node:http";
import type { IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { Webhook } from "standardwebhooks";

interface Event {
  id: string;
  event: string;
  from?: string;
  subject?: string | null;
}

const hook = new Webhook(process.env.SECRET ?? "");
const LARGEST = 1 << 20;
const seen = new Set<string>(); // a real application keeps these ids with its data

/** The whole body, if it is no larger than an event. */
async function bodyOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let octets = 0;
  for await (const part of request) {
    octets += (part as Buffer).length;
    if (octets > LARGEST) throw new Error("too large");
    parts.push(part as Buffer);
  }
  return Buffer.concat(parts).toString("utf8");
}

function work(event: Event): void {
  if (seen.has(event.id)) return;
  seen.add(event.id);
  console.log(event.event, event.from, event.subject);
}

const server = createServer(async (request, response) => {
  let event: Event;
  try {
    const body = await bodyOf(request); // as received, before it is read
    event = hook.verify(body, request.headers as Record<string, string>) as Event;
  } catch {
    response.writeHead(401).end();
    return;
  }
  response.writeHead(204).end(); // answer fast, work afterwards
  setImmediate(work, event); // a real application has written it to its database before
});

server.listen(Number(process.env.PORT ?? 8000), "127.0.0.1", () => {
  const { port } = server.address() as AddressInfo;
  console.log(`listening on http://127.0.0.1:${port}/`);
});
