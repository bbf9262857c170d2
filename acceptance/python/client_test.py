"""What a user of openai-python sees through the proxy.

Called with the base URL and the model; prints one line of JSON a test,
{"test": name, "fault": text}, with an empty fault for a test that passed.
"""

import concurrent.futures
import sys
import unittest

import openai

import lines

BASE_URL, MODEL = sys.argv[1:3]
QUESTION = [{"role": "user", "content": "Wie lange dauert es?"}]
GRAMMAR = r'root ::= "<think>" [a-z] [a-z ]{20,60} "</think>\n\n" [A-Z] [A-Z ]{10,40}'
EXTRA = {} if MODEL == "tiny" else {"grammar": GRAMMAR}


class Client(unittest.TestCase):
    def setUp(self):
        self.client = openai.OpenAI(base_url=BASE_URL, api_key="none", max_retries=0, timeout=60)
        self.addCleanup(self.client.close)

    def ask(self, **options):
        options.setdefault("model", MODEL)
        options.setdefault("messages", QUESTION)
        return self.client.chat.completions.create(extra_body=EXTRA, **options)

    def assertSplit(self, thinking, answer):
        self.assertTrue(thinking.strip() and answer.strip(), (thinking, answer))
        self.assertEqual(thinking, thinking.lower())
        self.assertEqual(answer, answer.upper())
        self.assertNotRegex(thinking + answer, "[<>]")

    def assertCounts(self, usage):
        details = usage.completion_tokens_details
        self.assertEqual(usage.prompt_tokens + usage.completion_tokens, usage.total_tokens)
        self.assertEqual(details.reasoning_tokens + details.text_tokens, usage.completion_tokens)
        self.assertGreater(details.reasoning_tokens, 0)
        self.assertGreater(details.text_tokens, 0)

    def test_whole(self):
        reply = self.ask(seed=7)
        message = reply.choices[0].message
        self.assertSplit(message.reasoning_content, message.content)
        self.assertCounts(reply.usage)
        self.assertEqual(reply.choices[0].finish_reason, "stop")

    def test_streamed(self):
        thinking, answer, usage, finish = "", "", None, None
        for chunk in self.ask(seed=7, stream=True, stream_options={"include_usage": True}):
            usage = chunk.usage or usage
            for choice in chunk.choices:
                thinking += getattr(choice.delta, "reasoning_content", None) or ""
                answer += choice.delta.content or ""
                finish = choice.finish_reason or finish
        self.assertSplit(thinking, answer)
        self.assertCounts(usage)
        self.assertEqual(finish, "stop")

    def test_streamed_is_whole(self):
        message = self.ask(seed=11).choices[0].message
        thinking, answer = "", ""
        for chunk in self.ask(seed=11, stream=True):
            self.assertIsNone(chunk.usage)
            thinking += getattr(chunk.choices[0].delta, "reasoning_content", None) or ""
            answer += chunk.choices[0].delta.content or ""
        self.assertEqual((thinking, answer), (message.reasoning_content, message.content))

    def test_stream_helper(self):
        with self.client.chat.completions.stream(
            model=MODEL, messages=QUESTION, seed=5, extra_body=EXTRA
        ) as stream:
            for _ in stream:
                pass
            message = stream.get_final_completion().choices[0].message
        self.assertSplit(message.reasoning_content, message.content)

    def test_many_at_once(self):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            replies = list(pool.map(lambda seed: self.ask(seed=seed), range(8)))
        for reply in replies:
            message = reply.choices[0].message
            self.assertSplit(message.reasoning_content, message.content)

    def test_models(self):
        models = self.client.models.list().data
        self.assertEqual([model.id for model in models], [MODEL])
        self.assertGreaterEqual(self.client.models.retrieve(MODEL).max_model_len, 2048)

    def test_bad_request(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.ask(n=2)
        self.assertEqual((caught.exception.param, caught.exception.type), ("n", "invalid_request_error"))

    def test_unknown_model(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.ask(model="nobody-has-this")
        self.assertEqual(caught.exception.code, "model_not_found")

    def test_request_id(self):
        reply = self.ask(seed=1)
        self.assertRegex(reply._request_id, "^[0-9a-f]{32}$")
        self.assertEqual(reply.id, "chatcmpl-" + reply._request_id)


lines.run(Client)
