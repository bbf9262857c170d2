// What a user of openai-node sees through the proxy.

import assert from "node:assert/strict";
import OpenAI from "openai";
import { baseURL, calling, city, counts, crowded, ended, endless, model, operator, question, run, running, split } from "./lines.mjs";

const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
const messages = [{ role: "user", content: question }];
const parameters = { type: "object", properties: { city: { type: "string" } } };

const ask = (more, api = client) => api.chat.completions.create({ model, messages, seed: 7, ...more });
const respond = (more, api = client) => api.responses.create({ model, input: question, seed: 7, ...more });

// heard reads a stream of chunks.
async function heard(stream) {
  const got = { thinking: "", answer: "", finish: null, usage: null };
  for await (const { choices, usage } of stream) {
    got.usage = usage ?? got.usage;
    for (const { delta, finish_reason: finish } of choices) {
      got.thinking += delta.reasoning_content ?? "";
      got.answer += delta.content ?? "";
      got.finish = finish ?? got.finish;
    }
  }
  return got;
}

const thinkingOf = ({ output }) =>
  output.filter((item) => item.type === "reasoning").flatMap((item) => item.content.map((part) => part.text)).join("");

function chatCounts({ prompt_tokens: prompt, completion_tokens: completion, total_tokens: total, completion_tokens_details: details }) {
  counts({ prompt, completion, total, thinking: details.reasoning_tokens });
  assert.equal(details.reasoning_tokens + details.text_tokens, completion);
}

const chat = {
  async plain() {
    const { data, request_id: id } = await ask().withResponse();
    split(data.choices[0].message.reasoning_content, data.choices[0].message.content);
    assert.equal(data.id, "chatcmpl-" + id);
    assert.equal(data.choices[0].finish_reason, "stop");
  },
  async stream() {
    const { choices: [{ message }] } = await ask();
    const { answer, finish } = await heard(await ask({ stream: true }));
    assert.deepEqual([answer, finish], [message.content, "stop"]);
    const helper = client.chat.completions.stream({ model, messages, seed: 7 });
    assert.equal(await helper.finalContent(), message.content);
  },
  async tools() {
    const tools = [{ type: "function", function: { name: "weather", parameters } }];
    const { choices: [{ message, finish_reason: reason }] } = await client.chat.completions
      .stream({ model, messages, seed: 7, tools, ...calling }).finalChatCompletion();
    const [call] = message.tool_calls;
    assert.deepEqual([reason, call.function.name, JSON.parse(call.function.arguments)], ["tool_calls", "weather", { city }]);
    const turns = [...messages, message, { role: "tool", tool_call_id: call.id, content: "18 °C" }];
    const { choices: [after] } = await ask({ messages: turns, tools });
    split(after.message.reasoning_content, after.message.content);
  },
  async reasoning() {
    const { choices: [{ message }] } = await ask();
    const { thinking, answer } = await heard(await ask({ stream: true }));
    split(thinking, answer);
    assert.equal(thinking, message.reasoning_content);
    // The helper's message has it whole too: no later chunk wipes it out.
    const last = await client.chat.completions.stream({ model, messages, seed: 7 }).finalChatCompletion();
    assert.equal(last.choices[0].message.reasoning_content.length > 0, true);
  },
  async usage() {
    chatCounts((await ask()).usage);
    chatCounts((await heard(await ask({ stream: true, stream_options: { include_usage: true } }))).usage);
  },
  async error() {
    await assert.rejects(ask({ model: "nobody" }), (error) => error instanceof OpenAI.NotFoundError
      && error.code === "model_not_found" && error.type === "invalid_request_error" && /^[0-9a-f]{32}$/.test(error.requestID));
    await assert.rejects(ask({ n: 2 }), (error) => error instanceof OpenAI.BadRequestError && error.param === "n");
    await assert.rejects(async () => {
      let stopped = false;
      for await (const _ of await ask({ stream: true, ...endless })) {
        if (!stopped) await operator();
        stopped = true;
      }
    }, (error) => error instanceof OpenAI.APIError && error.code === "cancelled");
  },
  async cancel() {
    const stream = await ask({ stream: true, ...endless });
    for await (const _ of stream) break;
    await ended("client_gone");
    const { choices: [{ message }] } = await ask();
    split(message.reasoning_content, message.content);
  },
  async retry() {
    const { seen, fetch } = crowded();
    const { choices: [{ message }] } = await ask({}, client.withOptions({ maxRetries: 2, fetch }));
    split(message.reasoning_content, message.content);
    assert.deepEqual([seen[0], seen.at(-1)], [429, 200]);
  },
  async two() {
    for (const { choices: [{ message }] } of await Promise.all([1, 2, 3].map((seed) => ask({ seed })))) {
      split(message.reasoning_content, message.content);
    }
  },
};

const responses = {
  async plain() {
    const response = await respond();
    assert.deepEqual([response.status, response.id], ["completed", "resp_" + response._request_id]);
    split(thinkingOf(response), response.output_text);
  },
  async stream() {
    const whole = await respond();
    let text = "";
    for await (const event of await respond({ stream: true })) {
      if (event.type === "response.output_text.delta") text += event.delta;
    }
    assert.equal(text, whole.output_text);
    const last = await client.responses.stream({ model, input: question, seed: 7 }).finalResponse();
    assert.equal(last.output_text, text);
  },
  async tools() {
    const tools = [{ type: "function", name: "weather", strict: false, parameters }, { type: "web_search" }];
    const { output } = await respond({ tools, ...calling });
    const call = output.find((item) => item.type === "function_call");
    assert.deepEqual([call.name, JSON.parse(call.arguments)], ["weather", { city }]);
    const input = [{ role: "user", content: question }, ...output, { type: "function_call_output", call_id: call.call_id, output: "18 °C" }];
    const after = await respond({ input, tools });
    split(thinkingOf(after), after.output_text);
  },
  async reasoning() {
    const whole = thinkingOf(await respond());
    let thinking = "", summary = "";
    for await (const event of await respond({ stream: true })) {
      if (event.type === "response.reasoning_text.delta") thinking += event.delta;
    }
    for await (const event of await respond({ stream: true, reasoning: { summary: "auto" } })) {
      if (event.type === "response.reasoning_summary_text.delta") summary += event.delta;
    }
    assert.deepEqual([thinking, summary], [whole, whole]);
  },
  async usage() {
    const { usage } = await respond();
    counts({ prompt: usage.input_tokens, completion: usage.output_tokens, total: usage.total_tokens, thinking: usage.output_tokens_details.reasoning_tokens });
  },
  async error() {
    await assert.rejects(respond({ model: "nobody" }), OpenAI.NotFoundError);
    await assert.rejects(respond({ background: true }), (error) => error instanceof OpenAI.BadRequestError && error.param === "background");
    await assert.rejects(async () => {
      let stopped = false;
      for await (const event of await respond({ stream: true, ignore_eos: true })) {
        if (event.type.endsWith(".delta") && !stopped) stopped = await client.responses.cancel("resp_" + (await running()));
      }
    }, (error) => error instanceof OpenAI.APIError && error.code === "cancelled");
  },
  async cancel() {
    for await (const event of await respond({ stream: true, ignore_eos: true })) if (event.type.endsWith(".delta")) break;
    await ended("client_gone");
  },
  async retry() {
    const { seen, fetch } = crowded();
    const response = await respond({}, client.withOptions({ maxRetries: 2, fetch }));
    split(thinkingOf(response), response.output_text);
    assert.deepEqual([seen[0], seen.at(-1)], [429, 200]);
  },
  async two() {
    for (const response of await Promise.all([1, 2, 3].map((seed) => respond({ seed })))) split(thinkingOf(response), response.output_text);
  },
};

await run({ chat, responses });
