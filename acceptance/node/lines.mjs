// What the tests of the Node clients share. Each is called with the base URL, the model
// and the token that begins a tool call, and prints one line of JSON a test,
// {"test": name, "fault": text}, with an empty fault for a test that passed.

import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";

export const [baseURL, model, caller] = process.argv.slice(2);
export const question = "Wie lange dauert es?";
export const city = "KYŌTO"; // the only one the model asks about

// Members of a request that no client has a name for.
export const endless = { ignore_eos: true, max_tokens: 30000 };
export const calling = { logit_bias: { [caller]: 25 } }; // the model calls a tool only when it is made to

// run runs the tests of each API that a client speaks.
export async function run(apis) {
  for (const [api, tests] of Object.entries(apis)) for (const [name, body] of Object.entries(tests)) {
    let fault = "";
    await body().catch((error) => (fault = error.stack || String(error)));
    console.log(JSON.stringify({ test: `${api} ${name}`, fault }));
  }
  process.exit(); // some clients keep their connections, which would hold it up
}

// split holds thinking in lower case and the answer in UPPER CASE, without markers.
export function split(thinking, answer) {
  assert.ok(thinking.trim() && answer.trim(), JSON.stringify([thinking, answer]));
  assert.deepEqual([thinking, answer], [thinking.toLowerCase(), answer.toUpperCase()]);
  assert.doesNotMatch(thinking + answer, /[<>]/);
}

export function counts({ prompt, completion, total, thinking }) {
  assert.equal(prompt + completion, total);
  assert.ok(prompt > 0 && thinking > 0 && thinking < completion, JSON.stringify({ prompt, completion, thinking }));
}

async function get(path) {
  const reply = await fetch(baseURL + path);
  assert.equal(reply.status, 200, path);
  return reply.json();
}

// ended waits until the newest request has ended so.
export async function ended(outcome) {
  let row;
  for (let tries = 0; tries < 400; tries++, await pause(50)) {
    [row] = (await get("/usage")).data;
    if (row.outcome === outcome) return;
  }
  assert.fail(`the newest request has the outcome ${row.outcome}, want ${outcome}`);
}

// running is the id of the request that runs.
export const running = async () => (await get("/queue")).slots[0].request_id;

// operator cancels what runs.
export async function operator() {
  const reply = await fetch(`${baseURL}/queue/${await running()}`, { method: "DELETE" });
  assert.equal(reply.status, 200, await reply.text());
}

// Crowded is a fetch for clients: before its first request it fills the line, so that
// the request is refused with 429, and with the refusal it empties the line again.
export function crowded() {
  const seen = [];
  let leave;
  return {
    seen, // the statuses
    async fetch(url, init) {
      if (!leave) leave = await crowd();
      const reply = await fetch(url, init);
      seen.push(reply.status);
      leave();
      return reply;
    },
  };
}

async function crowd() {
  const { limit } = await get("/queue");
  const gone = new AbortController();
  const body = JSON.stringify({ model, stream: true, messages: [{ role: "user", content: question }], ...endless });
  for (let n = 0; n <= limit; n++) {
    // Its head comes once it has its place.
    const { status } = await fetch(baseURL + "/chat/completions", {
      method: "POST", headers: { "content-type": "application/json" }, body, signal: gone.signal,
    });
    assert.equal(status, 200);
  }
  return () => gone.abort();
}
