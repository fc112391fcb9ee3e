// Is told of an Agent's mail by POSTs, and believes only those that are signed.
//
//   npm install standardwebhooks
//   SECRET=whsec_… PORT=8000 node made/webhook.js

import { createServer } from "node:http";
import type { IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { Webhook } from "standardwebhooks";

import type { MailReceived } from "./poll";

const LARGEST = 1 << 20;

/** Your part. */
function handle(event: MailReceived): void {
  console.log(event.event, event.from, event.subject);
}

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

/** Hands over each event once, for ever. */
export function serve(handle: (event: MailReceived) => unknown): void {
  const hook = new Webhook(process.env.SECRET ?? "");
  const seen = new Set<string>(); // a real application keeps these ids with its data
  let working: Promise<unknown> = Promise.resolve();
  const server = createServer(async (request, response) => {
    let event: MailReceived;
    try {
      const body = await bodyOf(request); // as received, before it is read
      event = hook.verify(body, request.headers as Record<string, string>) as MailReceived;
    } catch {
      response.writeHead(401).end();
      return;
    }
    response.writeHead(204).end(); // answer fast, work afterwards
    if (seen.has(event.id)) return;
    seen.add(event.id); // a real application has written it to its database before
    working = working.then(() => handle(event)).catch(console.error);
  });
  server.listen(Number(process.env.PORT ?? 8000), "127.0.0.1", () => {
    const { port } = server.address() as AddressInfo;
    console.log(`listening on http://127.0.0.1:${port}/`);
  });
}

if (require.main === module) serve(handle);
