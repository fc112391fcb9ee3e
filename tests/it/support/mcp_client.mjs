// Takes steps with a server of MCP by the official TypeScript client; prints what came of each.
//
// Reads {sdk, url, key} or {sdk, command, args, env}, and {steps}, as JSON from standard input.

import { readFileSync } from 'node:fs';

const asked = JSON.parse(readFileSync(0, 'utf8'));
const part = (name) => import(`${asked.sdk}/dist/esm/client/${name}.js`);
const { Client } = await part('index');

async function transport() {
  if (asked.command) {
    const { StdioClientTransport } = await part('stdio');
    const { command, args, env } = asked;
    return new StdioClientTransport({ command, args, env });
  }
  const { StreamableHTTPClientTransport } = await part('streamableHttp');
  const headers = { Authorization: `Bearer ${asked.key}` };
  return new StreamableHTTPClientTransport(new URL(asked.url), { requestInit: { headers } });
}

async function call(client, step) {
  const progress = [];
  const listening = { onprogress: (one) => progress.push([one.progress, one.total, one.message]) };
  const { name } = step;
  const parameters = { name, arguments: step.arguments };
  const result = await client.callTool(parameters, undefined, step.progress ? listening : {});
  return { ...result, progress };
}

async function abandon(client) {
  const wait = (seconds, options) =>
    client.callTool({ name: 'wait_for_message', arguments: { seconds } }, undefined, options);
  const stop = new AbortController();
  const begun = new Promise((onprogress) => {
    const given = { onprogress, signal: stop.signal, timeout: 300_000 };
    wait(300, given).catch(() => {});
  });
  await begun;
  const meanwhile = await wait(1);
  stop.abort();
  // Less than a turn of the wait, in which it gives its place back by itself.
  const end = Date.now() + 15_000;
  let free;
  do { free = await wait(1); } while (free.isError && Date.now() < end);
  return { meanwhile, free };
}

function take(client, step) {
  const { do: kind, cursor, uri } = step;
  switch (kind) {
    case 'call': return call(client, step);
    case 'abandon': return abandon(client);
    case 'tools': return client.listTools();
    case 'resources': return client.listResources({ cursor });
    case 'templates': return client.listResourceTemplates();
    case 'read': return client.readResource({ uri });
  }
}

const client = new Client({ name: 'test', version: '1' });
await client.connect(await transport());
const came = [];
for (const step of asked.steps) {
  came.push(await take(client, step).catch(({ code, message }) => ({ code, message })));
}
const instructions = client.getInstructions();
console.log(JSON.stringify({ instructions, came }));
await client.close();
