// A stream kernel in miniature: it starts the server of a manifest over stdio, pipes both ways and says what it saw.
//
//   node kernel.mjs MANIFEST SCENARIO
//
// The last line on stdout is a JSON object for the test; an assertion that fails ends it with another code than 0.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import readline from 'node:readline';

const [manifestFile, scenario] = process.argv.slice(2);
const manifest = JSON.parse(readFileSync(manifestFile, 'utf8'));
const STREAM = 'agents/Jen/inbox';

/** The server of the manifest, started as a kernel starts it. */
function start() {
  assert.equal(manifest.ioMode, 'stdio');
  const child = spawn(manifest.command, manifest.args, {
    cwd: manifest.cwd,
    env: { ...process.env, ...manifest.env },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  const lines = readline.createInterface({ input: child.stdout, crlfDelay: Infinity });
  return { child, exited, messages: lines[Symbol.asyncIterator]() };
}

/** Write a command, and wait while the server does not take it in. */
async function send(server, command) {
  if (!server.child.stdin.write(JSON.stringify(command) + '\n')) await once(server.child.stdin, 'drain');
}

async function receive(server) {
  const { value, done } = await server.messages.next();
  assert.ok(!done, 'the server ended its output');
  return JSON.parse(value);
}

function envelope(id, payload) {
  return { id, ts: '2025-10-18T19:55:00Z', to: STREAM, type: 'sprint.assign', payload };
}

async function enqueue(server, id, payload) {
  await send(server, { enqueue: { to: STREAM, envelope: envelope(id, payload) } });
}

async function healthy() {
  assert.equal(manifest.healthCheck.type, 'http');
  for (;;) {
    try {
      if ((await fetch(manifest.healthCheck.url)).status === 200) return;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

async function stats() {
  return (await fetch(`${manifest.metadata.statsUrl}/${STREAM}/stats`)).json();
}

const scenarios = {
  /** Every event goes in, comes out once and is acked, while both sides are busy at the same time. */
  async both_ways() {
    const count = 2000;
    const server = start();
    await send(server, { subscribe: { stream: 'agents/*/inbox', window: 32 } });
    const writing = (async () => {
      for (let n = 0; n < count; n += 1) await enqueue(server, `e-${n}`, { n, text: 'a\u2028b\nc' });
    })();
    const enqueued = [];
    const delivered = [];
    while (enqueued.length < count || delivered.length < count) {
      const message = await receive(server);
      if (message.enqueued) enqueued.push(message.enqueued.id);
      else {
        assert.equal(message.deliver.payload.text, 'a\u2028b\nc', JSON.stringify(message));
        delivered.push(message.deliver.payload.n);
        await send(server, { ack: message.seq, attempt: message.attempt });
      }
    }
    await writing;
    server.child.stdin.end();
    const [code] = await server.exited;
    assert.deepEqual(delivered, [...Array(count).keys()]);
    return { code, enqueued: enqueued.length, delivered: delivered.length };
  },

  /** A kernel that stops reading is waited for: the server leases a bounded number of events to it, and no more. */
  async backpressure() {
    const count = 200;
    const server = start();
    await healthy();
    for (let n = 0; n < count; n += 1) {
      await enqueue(server, `e-${n}`, 'x'.repeat(64 * 1024));
      await receive(server);
    }
    server.child.stdout.pause();
    await send(server, { subscribe: { stream: STREAM, window: 8 } });
    let before = -1;
    let { inflight } = await stats();
    while (inflight === 0 || inflight !== before) {
      before = inflight;
      await new Promise((resolve) => setTimeout(resolve, 50));
      ({ inflight } = await stats());
    }
    server.child.stdout.resume();
    const ids = [];
    while (ids.length < count) {
      const { deliver, seq } = await receive(server);
      ids.push(deliver.id);
      await send(server, { ack: seq });
    }
    server.child.kill('SIGTERM');
    const [code] = await server.exited;
    return { code, inflight, delivered: ids.length, inOrder: ids.every((id, n) => id === `e-${n}`) };
  },

  /** A line that makes no sense is answered, and the server goes on. */
  async bad_line() {
    const server = start();
    server.child.stdin.write('{"enqueue": \n');
    const { error } = await receive(server);
    await enqueue(server, 'e-1', null);
    const { enqueued } = await receive(server);
    server.child.stdin.end();
    const [code] = await server.exited;
    return { code, error: error.code, line: error.line, enqueued: enqueued.id };
  },
};

console.log(JSON.stringify(await scenarios[scenario]()));
