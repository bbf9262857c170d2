"""What a user of LangChain sees through the proxy.

Called with the base URL, the model and the token that begins a tool call; prints one
line of JSON a test, "API name". ChatOpenAI does not read thinking in chat completions,
by its makers' decision: ChatDeepSeek does, and ChatOpenAI does with the Responses API.
"""

import asyncio
import sys
import unittest

import openai
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_deepseek import ChatDeepSeek
from langchain_openai import ChatOpenAI, StreamChunkTimeoutError

import lines
from proxy import ENDLESS, QUESTION, Proxy

BASE_URL, MODEL, CALLER = sys.argv[1:4]
PROXY = Proxy(BASE_URL, MODEL)
CALLING = {"logit_bias": {CALLER: 25}}  # the model calls a tool only when it is made to


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"18 °C in {city}"


class Shared:
    stopped = openai.APIError  # what a stream raises that the operator has ended

    def model(self, extra=None, **options):
        options.setdefault("max_retries", 0)
        options.setdefault("model", MODEL)
        return self.make(extra_body={"seed": 7, **(extra or {})}, timeout=60, **options)

    def assertSplit(self, message):
        thinking, text = self.thinking(message), message.text
        self.assertTrue(thinking.strip() and text.strip(), message)
        self.assertEqual((thinking, text), (thinking.lower(), text.upper()))
        self.assertNotRegex(thinking + text, "[<>]")

    def sum(self, chunks):
        whole = None
        for chunk in chunks:
            whole = chunk if whole is None else whole + chunk
        return whole

    def test_plain(self):
        self.assertSplit(self.model().invoke(QUESTION))

    def test_stream(self):
        whole = self.model().invoke(QUESTION)
        self.assertEqual(self.sum(self.model().stream(QUESTION)).text, whole.text)

    def test_reasoning(self):
        whole = self.sum(self.model().stream(QUESTION))
        self.assertSplit(whole)
        self.assertEqual(self.thinking(whole), self.thinking(self.model().invoke(QUESTION)))

    def test_tools(self):
        call = self.sum(self.model(CALLING).bind_tools([weather]).stream(QUESTION))
        self.assertEqual([(c["name"], c["args"]) for c in call.tool_calls], [("weather", {"city": "KYŌTO"})])
        result = weather.invoke(call.tool_calls[0])
        self.assertIsInstance(result, ToolMessage)
        self.assertSplit(self.model().bind_tools([weather]).invoke([HumanMessage(QUESTION), call, result]))

    def test_usage(self):
        for message in (self.model().invoke(QUESTION), self.sum(self.model(stream_usage=True).stream(QUESTION))):
            usage = message.usage_metadata
            self.assertEqual(usage["input_tokens"] + usage["output_tokens"], usage["total_tokens"])
            self.assertTrue(0 < usage["output_token_details"]["reasoning"] < usage["output_tokens"], usage)

    def test_error(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.model(model="nobody").invoke(QUESTION)
        self.assertEqual(caught.exception.code, "model_not_found")
        stopped = False
        with self.assertRaises(self.stopped) as caught:
            for _ in self.model(ENDLESS).stream(QUESTION):
                stopped = stopped or PROXY.cancel()
        self.assertIn("cancel", str(caught.exception))

    def test_cancel(self):
        stream = self.model(ENDLESS).stream(QUESTION)
        next(stream)
        stream.close()
        PROXY.ended("client_gone")
        self.assertSplit(self.model().invoke(QUESTION))

    def test_retry(self):
        crowd = PROXY.crowd()
        with openai.DefaultHttpxClient(event_hooks={"response": [crowd.leave]}) as client:
            self.assertSplit(self.model(max_retries=2, http_client=client).invoke(QUESTION))
        self.assertTrue(crowd.refused_once(), crowd.seen)

    def test_two(self):
        for message in self.model().batch([QUESTION] * 3, config={"max_concurrency": 3}):
            self.assertSplit(message)


class Deepseek(Shared, unittest.TestCase):
    def make(self, **options):
        return ChatDeepSeek(api_base=BASE_URL, api_key="none", **options)

    def thinking(self, message):
        return message.additional_kwargs.get("reasoning_content", "")


class Responses(Shared, unittest.TestCase):
    stopped = ValueError

    def make(self, **options):
        return ChatOpenAI(base_url=BASE_URL, api_key="none", use_responses_api=True, reasoning={"summary": "auto"}, store=False, **options)

    def thinking(self, message):
        return "".join(block.get("reasoning", "") for block in message.content_blocks if block["type"] == "reasoning")


class Chat(Shared, unittest.TestCase):
    test_reasoning = None  # it reads none

    def make(self, **options):
        return ChatOpenAI(base_url=BASE_URL, api_key="none", **options)

    def assertSplit(self, message):
        self.assertTrue(message.text.strip())
        self.assertEqual(message.text, message.text.upper())

    def test_waiting(self):
        """Its asynchronous streams give up without an event for a while, whatever the comments."""

        async def waits(**options):
            before = self.model(ENDLESS).astream(QUESTION)
            await anext(before)
            behind = self.model(stream_chunk_timeout=1.5, **options).astream(QUESTION)
            first = asyncio.create_task(anext(behind))
            done, _ = await asyncio.wait([first], timeout=3)
            await before.aclose()
            if done:
                await first
            return [chunk async for chunk in behind]

        with self.assertRaises(StreamChunkTimeoutError):
            asyncio.run(waits())
        chunks = asyncio.run(waits(default_headers={"X-Oneslot-Heartbeat": "chunk"}))
        self.assertTrue(self.sum(chunks).text.strip())


for case in (Chat, Deepseek, Responses):
    lines.run(case, case.__name__.lower())
