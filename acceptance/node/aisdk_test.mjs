// What a user of the Vercel AI SDK sees through the proxy: Chat Completions by the
// provider for compatible servers, Responses by OpenAI's own provider.

import assert from "node:assert/strict";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { baseURL, calling, city, counts, crowded, ended, endless, model, operator, question, run, split } from "./lines.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;

const weather = tool({ inputSchema: z.object({ city: z.string() }), execute: async ({ city }) => `18 °C in ${city}` });

// adding puts members into the body of each request that the SDK has no name for.
const adding = (extra = {}, fetch = globalThis.fetch) => (url, init) =>
  fetch(url, { ...init, body: JSON.stringify({ ...JSON.parse(init.body), ...extra }) });

const apis = {
  chat: {
    model: (name, fetch) => createOpenAICompatible({ name: "oneslot", baseURL, apiKey: "none", includeUsage: true, fetch }).chatModel(name),
    options: {},
  },
  responses: {
    model: (name, fetch) => createOpenAI({ baseURL, apiKey: "none", fetch }).responses(name),
    // It asks for thinking only of a model that it takes for one that thinks. What it says
    // is not kept here, so the SDK has to send it again in the next request.
    options: { openai: { forceReasoning: true, reasoningSummary: "auto", store: false } },
  },
};

function usage({ inputTokens: prompt, outputTokens: completion, totalTokens: total, outputTokenDetails: details }) {
  counts({ prompt, completion, total, thinking: details.reasoningTokens });
  assert.equal(details.reasoningTokens + details.textTokens, completion);
}

function tests(api) {
  const ask = ({ extra, fetch, name = model, ...more } = {}) =>
    ({ model: api.model(name, adding(extra, fetch)), prompt: question, maxRetries: 0, providerOptions: api.options, ...more });

  async function parts(stream) {
    const all = [];
    for await (const part of stream.fullStream) all.push(part);
    return all;
  }
  const text = (all, type) => all.filter((part) => part.type === type).map((part) => part.text).join("");

  return {
    async plain() {
      const reply = await generateText(ask());
      split(reply.reasoningText, reply.text);
      assert.equal(reply.finishReason, "stop");
    },
    async stream() {
      const all = await parts(streamText(ask()));
      assert.equal(all.find((part) => part.type === "error"), undefined);
      split(text(all, "reasoning-delta"), text(all, "text-delta"));
      assert.equal(all.at(-1).finishReason, "stop");
    },
    async tools() {
      // The second step's request has the call, its result and the thinking before it.
      const prepareStep = ({ stepNumber }) => (stepNumber > 0 ? { model: api.model(model) } : {});
      const loop = ask({ extra: calling, tools: { weather }, stopWhen: stepCountIs(2), prepareStep });
      const stream = streamText(loop);
      const [first, second] = await stream.steps;
      assert.deepEqual([first.finishReason, first.toolCalls[0].toolName, first.toolCalls[0].input], ["tool-calls", "weather", { city }]);
      assert.equal(first.toolResults[0].output, `18 °C in ${city}`);
      split(second.reasoningText, second.text);
      const { steps } = await generateText(loop);
      assert.deepEqual(steps.map((step) => step.finishReason), ["tool-calls", "stop"]);
    },
    async reasoning() {
      const all = await parts(streamText(ask()));
      const kinds = all.map((part) => part.type);
      assert.ok(kinds.indexOf("reasoning-start") < kinds.indexOf("reasoning-end"));
      assert.ok(kinds.indexOf("reasoning-end") <= kinds.indexOf("text-delta"), "thinking ends before the answer begins");
      const thinking = text(all, "reasoning-delta");
      assert.equal(thinking, thinking.toLowerCase());
    },
    async usage() {
      usage((await generateText(ask())).usage);
      usage(await streamText(ask()).usage);
    },
    async error() {
      await assert.rejects(generateText(ask({ name: "nobody" })),
        (error) => APICallError.isInstance(error) && error.statusCode === 404 && error.data.error.code === "model_not_found" && !error.isRetryable);
      const errors = [];
      let stopped = false;
      for await (const part of streamText({ ...ask({ extra: endless }), onError() {} }).fullStream) {
        if (part.type === "error") errors.push(part.error);
        if (part.type === "reasoning-delta" && !stopped) {
          stopped = true;
          await operator();
        }
      }
      assert.equal(errors.length, 1);
      assert.match(JSON.stringify(errors[0].message ?? errors[0]), /cancel/);
    },
    async cancel() {
      const gone = new AbortController();
      const all = [];
      for await (const part of streamText(ask({ extra: endless, abortSignal: gone.signal })).fullStream) {
        all.push(part.type);
        if (part.type === "reasoning-delta") gone.abort();
      }
      assert.equal(all.at(-1), "abort");
      await ended("client_gone");
      split(...(({ reasoningText, text }) => [reasoningText, text])(await generateText(ask())));
    },
    async retry() {
      const { seen, fetch } = crowded();
      const reply = await generateText(ask({ fetch, maxRetries: 2 }));
      split(reply.reasoningText, reply.text);
      assert.deepEqual([seen[0], seen.at(-1)], [429, 200]);
    },
    async two() {
      for (const { reasoningText, text } of await Promise.all([1, 2, 3].map(() => generateText(ask())))) split(reasoningText, text);
    },
  };
}

await run({ chat: tests(apis.chat), responses: tests(apis.responses) });
