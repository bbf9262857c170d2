"""What a user of openai-python sees whose timeout is shorter than the answer.

Called like the others. The simulated engine takes four seconds for an answer, the
client waits two for a byte, and asks again by itself.
"""

import sys
import threading
import unittest

import lines
import openai

BASE_URL, MODEL = sys.argv[1:3]


class Retries(unittest.TestCase):
    def setUp(self):
        self.client = openai.OpenAI(base_url=BASE_URL, api_key="none", max_retries=6, timeout=2)
        self.addCleanup(self.client.close)

    def ask(self, client, name, **options):
        messages = [{"role": "user", "content": name}]
        return client.chat.completions.create(model=MODEL, messages=messages, **options)

    def assertWhole(self, thinking, answer, reason):
        self.assertEqual((len(thinking.split()) > 20, len(answer.split()) > 8, reason), (True, True, "stop"), (thinking, answer))

    def test_whole(self):
        reply = self.ask(self.client, "whole")
        message = reply.choices[0].message
        self.assertWhole(message.reasoning_content, message.content, reply.choices[0].finish_reason)
        self.assertEqual(reply.id, "chatcmpl-" + reply._request_id)

    def test_stream(self):
        """It waits for its turn for longer than its timeout, without a byte."""
        patient = self.client.with_options(timeout=60)
        other = threading.Thread(target=self.ask, args=(patient, "other"))
        other.start()
        self.addCleanup(other.join)
        while not patient.get("/queue", cast_to=object)["running"]:
            pass
        thinking, answer, reason, ids = "", "", None, set()
        for chunk in self.ask(self.client, "stream", stream=True):
            ids.add(chunk.id)
            delta, reason = chunk.choices[0].delta, chunk.choices[0].finish_reason
            thinking += getattr(delta, "reasoning_content", None) or ""
            answer += delta.content or ""
        self.assertWhole(thinking, answer, reason)
        self.assertEqual(len(ids), 1)


lines.run(Retries)
