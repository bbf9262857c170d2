"""What a user of openai-python sees through the proxy, the same with either API.

Called with the base URL, the model and the token that begins a tool call; prints one
line of JSON a test, "API name".
"""

import concurrent.futures
import json
import sys
import unittest

import openai

import lines
from proxy import ENDLESS, QUESTION, Proxy

BASE_URL, MODEL, CALLER = sys.argv[1:4]
PROXY = Proxy(BASE_URL, MODEL)
CALLING = {"logit_bias": {CALLER: 25}}  # the model calls a tool only when it is made to
WEATHER = {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}


class Shared:
    def client(self, **options):
        return openai.OpenAI(base_url=BASE_URL, api_key="none", timeout=60, **{"max_retries": 0, **options})

    def assertSplit(self, reply):
        thinking, text = self.thinking(reply), self.text(reply)
        self.assertTrue(thinking.strip() and text.strip(), reply)
        self.assertEqual((thinking, text), (thinking.lower(), text.upper()))
        self.assertNotRegex(thinking + text, "[<>]")

    def test_plain(self):
        self.assertSplit(self.ask())

    def test_stream(self):
        whole, (_, text) = self.ask(), self.heard()
        self.assertEqual(text, self.text(whole))

    def test_reasoning(self):
        whole, (thinking, _) = self.ask(), self.heard()
        self.assertEqual(thinking, self.thinking(whole))

    def test_error(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.ask(model="nobody")
        self.assertEqual((caught.exception.code, caught.exception.type), ("model_not_found", "invalid_request_error"))
        self.assertEqual(self.fault(self.ask(extra=ENDLESS, stream=True)), "cancelled")

    def test_cancel(self):
        with self.ask(extra=ENDLESS, stream=True) as stream:
            next(iter(stream))
        PROXY.ended("client_gone")
        self.assertSplit(self.ask())

    def test_retry(self):
        crowd = PROXY.crowd()
        with openai.DefaultHttpxClient(event_hooks={"response": [crowd.leave]}) as client:
            self.assertSplit(self.ask(self.client(max_retries=2, http_client=client)))
        self.assertTrue(crowd.refused_once(), crowd.seen)

    def test_two(self):
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            for reply in pool.map(lambda seed: self.ask(extra={"seed": seed}), range(3)):
                self.assertSplit(reply)


class Chat(Shared, unittest.TestCase):
    tools = [{"type": "function", "function": WEATHER}]

    def ask(self, client=None, extra=None, **options):
        options = {"model": MODEL, "messages": [{"role": "user", "content": QUESTION}], **options}
        return (client or self.client()).chat.completions.create(extra_body={"seed": 7, **(extra or {})}, **options)

    def thinking(self, reply):
        return reply.choices[0].message.reasoning_content

    def text(self, reply):
        return reply.choices[0].message.content

    def heard(self):
        deltas = [chunk.choices[0].delta for chunk in self.ask(stream=True)]
        return "".join(getattr(d, "reasoning_content", None) or "" for d in deltas), "".join(d.content or "" for d in deltas)

    def fault(self, stream):
        """The code of the error that a stream raises which the operator has ended."""
        next(iter(stream))
        PROXY.cancel()
        with self.assertRaises(openai.APIError) as caught:
            list(stream)
        return caught.exception.code

    def test_tools(self):
        message = self.ask(extra=CALLING, tools=self.tools).choices[0].message
        (call,) = message.tool_calls
        self.assertEqual((call.function.name, json.loads(call.function.arguments)), ("weather", {"city": "KYŌTO"}))
        result = {"role": "tool", "tool_call_id": call.id, "content": "18 °C"}
        self.assertSplit(self.ask(messages=[{"role": "user", "content": QUESTION}, message, result], tools=self.tools))

    def test_usage(self):
        last = list(self.ask(stream=True, stream_options={"include_usage": True}))[-1]
        for usage in (self.ask().usage, last.usage):
            details = usage.completion_tokens_details
            self.assertEqual(usage.prompt_tokens + usage.completion_tokens, usage.total_tokens)
            self.assertEqual(details.reasoning_tokens + details.text_tokens, usage.completion_tokens)
            self.assertTrue(details.reasoning_tokens and details.text_tokens)


class Responses(Shared, unittest.TestCase):
    tools = [{"type": "function", "strict": False, **WEATHER}]

    def ask(self, client=None, extra=None, **options):
        options = {"model": MODEL, "input": QUESTION, **options}
        extra = {"max_output_tokens" if key == "max_tokens" else key: value for key, value in (extra or {}).items()}
        return (client or self.client()).responses.create(extra_body={"seed": 7, **extra}, **options)

    def thinking(self, reply):
        return "".join(part.text for item in reply.output if item.type == "reasoning" for part in item.content)

    def text(self, reply):
        return reply.output_text

    def heard(self):
        events = list(self.ask(stream=True))
        kind = lambda name: "".join(event.delta for event in events if event.type == f"response.{name}.delta")
        return kind("reasoning_text"), kind("output_text")

    def fault(self, stream):
        """It raises nothing: the last event says what happened."""
        any(event.type.endswith(".delta") for event in stream)
        PROXY.cancel()
        return list(stream)[-1].response.error.code

    def test_tools(self):
        output = self.ask(extra=CALLING, tools=self.tools).output
        (call,) = [item for item in output if item.type == "function_call"]
        self.assertEqual((call.name, json.loads(call.arguments)), ("weather", {"city": "KYŌTO"}))
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "18 °C"}
        self.assertSplit(self.ask(input=[{"role": "user", "content": QUESTION}, *output, result], tools=self.tools))

    def test_usage(self):
        for usage in (self.ask().usage, list(self.ask(stream=True))[-1].response.usage):
            self.assertEqual(usage.input_tokens + usage.output_tokens, usage.total_tokens)
            self.assertTrue(0 < usage.output_tokens_details.reasoning_tokens < usage.output_tokens)


for case in (Chat, Responses):
    lines.run(case, case.__name__.lower())
