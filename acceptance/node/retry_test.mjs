// What a user of openai-node sees whose timeout is shorter than the answer.
//
// Called with the base URL and the model; prints one line of JSON a test,
// {"test": name, "fault": text}, with an empty fault for a test that passed. The
// simulated engine takes four seconds for an answer, the client gives up after two,
// and asks again by itself.

import assert from "node:assert/strict";
import OpenAI from "openai";

const [baseURL, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "none" });

// The library announces the timeout of a request only where the request has one of its own.
const hasty = { maxRetries: 6, timeout: 2000 };

const ask = (options, name, more) =>
  client.chat.completions.create({ model, messages: [{ role: "user", content: name }], ...more }, options);

const words = (text) => text.split(/\s+/).length;

function whole(thinking, answer, reason) {
  assert.deepEqual([words(thinking) > 20, words(answer) > 8, reason], [true, true, "stop"], JSON.stringify([thinking, answer]));
}

const tests = {
  async whole() {
    const { data, request_id: id } = await ask(hasty, "whole").withResponse();
    const [{ message, finish_reason: reason }] = data.choices;
    whole(message.reasoning_content, message.content, reason);
    assert.equal(data.id, "chatcmpl-" + id);
  },

  // It waits for its turn for longer than its timeout, without a byte.
  async stream() {
    const other = ask({}, "other");
    while (!(await client.get("/queue")).running);
    let thinking = "", answer = "", reason = null;
    const ids = new Set();
    for await (const chunk of await ask(hasty, "stream", { stream: true })) {
      ids.add(chunk.id);
      const [choice] = chunk.choices;
      thinking += choice.delta.reasoning_content ?? "";
      answer += choice.delta.content ?? "";
      reason = choice.finish_reason;
    }
    whole(thinking, answer, reason);
    assert.equal(ids.size, 1);
    await other;
  },
};

for (const [test, run] of Object.entries(tests)) {
  let fault = "";
  await run().catch((error) => (fault = error.stack));
  console.log(JSON.stringify({ test, fault }));
}
