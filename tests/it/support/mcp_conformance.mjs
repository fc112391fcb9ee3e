// Runs scenarios of the published conformance suite of MCP. The suite sends no key: a proxy here adds
// it to each request, and changes nothing else.
//
// Reads {suite, url, key, port, scenarios} as JSON from standard input; prints a list of
// {scenario, passed, said}.

import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer, request } from 'node:http';

const asked = JSON.parse(readFileSync(0, 'utf8'));

const proxy = createServer((came, answer) => {
  const headers = { ...came.headers, authorization: `Bearer ${asked.key}` };
  const onward = request(asked.url, { method: came.method, headers }, (got) => {
    answer.writeHead(got.statusCode, got.headers);
    got.pipe(answer);
  });
  onward.on('error', () => answer.destroy());
  came.pipe(onward);
});
await new Promise((ready) => proxy.listen(asked.port, '127.0.0.1', ready));

function run(scenario) {
  const url = `http://127.0.0.1:${asked.port}/mcp`;
  const child = spawn(process.execPath, [asked.suite, 'server', '--url', url, '--scenario', scenario]);
  let said = '';
  child.stdout.on('data', (piece) => (said += piece));
  child.stderr.on('data', (piece) => (said += piece));
  return new Promise((ended) => {
    child.on('close', (code) => ended({ scenario, passed: code === 0, said }));
  });
}

const came = [];
for (const scenario of asked.scenarios) came.push(await run(scenario));
console.log(JSON.stringify(came));
proxy.close();
proxy.closeAllConnections();
