// The first contact of each Node client: an answer, a stream, and what the client
// asks for of itself. Called with the client, the proxy's URL and the model.

import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";
import OpenAI from "openai";

const [client, url, model] = process.argv.slice(2);
const baseURL = url + "/v1", lorem = "Lorem ipsum dolor sit amet?";

async function drain(stream) {
  for await (const _ of stream);
}

const clients = {
  async "openai-node"() {
    const api = new OpenAI({ baseURL, apiKey: "none" });
    const chat = { model, messages: [{ role: "user", content: lorem }], max_tokens: 50 };
    await api.models.list();
    await api.chat.completions.create(chat);
    await drain(await api.chat.completions.create({ ...chat, stream: true, stream_options: { include_usage: true } }));
    await api.responses.create({ model, input: lorem, max_output_tokens: 50 });
    await drain(await api.responses.create({ model, input: lorem, max_output_tokens: 50, stream: true }));
  },
  async "ai-sdk"() {
    globalThis.AI_SDK_LOG_WARNINGS = false;
    const providerOptions = { openai: { forceReasoning: true, reasoningSummary: "auto", store: false } };
    for (const ask of [
      { model: createOpenAICompatible({ name: "oneslot", baseURL, apiKey: "none", includeUsage: true }).chatModel(model) },
      { model: createOpenAI({ baseURL, apiKey: "none" }).responses(model), providerOptions },
    ]) {
      await generateText({ ...ask, prompt: lorem, maxOutputTokens: 50 });
      await drain(streamText({ ...ask, prompt: lorem, maxOutputTokens: 50 }).fullStream);
    }
  },
};

await clients[client]();
process.exit(); // some clients keep their connections, which would hold it up
