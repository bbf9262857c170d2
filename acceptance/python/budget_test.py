"""What a user of openai-python gets who limits the thinking of the tiny model.

Called with the base URL, the model and the id of the token that closes thinking,
which the model is kept from writing by itself: without a limit it would think to
the end of its context. Prints one line of JSON a test, as client_test.py does.
"""

import sys
import unittest

import openai

import lines

BASE_URL, MODEL, CLOSER = sys.argv[1:4]
QUESTION = [{"role": "user", "content": "Wie lange dauert es?"}]


class Budget(unittest.TestCase):
    def setUp(self):
        self.client = openai.OpenAI(base_url=BASE_URL, api_key="none", max_retries=0, timeout=60)
        self.addCleanup(self.client.close)

    def whole(self, **options):
        reply = self.client.chat.completions.create(
            model=MODEL, messages=QUESTION, seed=5, logit_bias={CLOSER: -100}, **options
        )
        message = reply.choices[0].message
        thinking = getattr(message, "reasoning_content", "")
        return thinking, message.content, reply.choices[0].finish_reason, reply.usage

    def streamed(self, **options):
        thinking, answer, usage, finish, ids = "", "", None, None, set()
        for chunk in self.client.chat.completions.create(
            model=MODEL, messages=QUESTION, seed=5, logit_bias={CLOSER: -100},
            stream=True, stream_options={"include_usage": True}, **options
        ):
            ids.add(chunk.id)
            usage = chunk.usage or usage
            for choice in chunk.choices:
                if finish:
                    self.fail("text after the finish reason")
                thinking += getattr(choice.delta, "reasoning_content", None) or ""
                answer += choice.delta.content or ""
                finish = choice.finish_reason or finish
        self.assertEqual(len(ids), 1)
        return thinking, answer, finish, usage

    def check(self, least, most, **options):
        for way in (self.whole, self.streamed):
            with self.subTest(way.__name__):
                thinking, answer, finish, usage = way(**options)
                self.assertTrue(answer.strip(), "there is no answer")
                self.assertEqual(answer, answer.upper())
                self.assertEqual(thinking, thinking.lower())
                self.assertNotRegex(thinking + answer, "[<>]")
                self.assertEqual(finish, "length" if "max_tokens" in options and usage.completion_tokens == options["max_tokens"] else "stop")
                details = usage.completion_tokens_details
                self.assertEqual(details.reasoning_tokens + details.text_tokens, usage.completion_tokens)
                self.assertEqual(usage.prompt_tokens + usage.completion_tokens, usage.total_tokens)
                self.assertGreaterEqual(details.reasoning_tokens, least)
                self.assertLessEqual(details.reasoning_tokens, most)

    # An engine that keeps the budget itself writes its two markers beside it.

    def test_budget(self):
        self.check(64, 66, extra_body={"thinking_budget": 64})

    def test_anthropic_spelling(self):
        self.check(64, 66, extra_body={"thinking": {"type": "enabled", "budget_tokens": 64}})

    def test_off(self):
        self.check(0, 2, reasoning_effort="none")

    def test_answer_guard(self):
        self.check(80, 80, max_tokens=100)


lines.run(Budget)
