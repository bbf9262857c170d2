"""What a user of Anthropic's Python client sees through the proxy.

Called with the base URL, the model, and the token that begins a tool call; prints one line of JSON a test, as
client_test.py does.
"""

import concurrent.futures
import json
import sys
import unittest

import anthropic

from proxy import Proxy

BASE_URL, MODEL, CALL_TOKEN = sys.argv[1:4]
QUESTION = [{"role": "user", "content": "Wie lange dauert es?"}]
THINKING = {"type": "enabled", "budget_tokens": 1024}
WEATHER = {
    "name": "weather",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
# The model calls a tool only when it is made to.
CALL = {"logit_bias": {CALL_TOKEN: 25}}


class Messages(unittest.TestCase):
    def setUp(self):
        self.client = anthropic.Anthropic(base_url=BASE_URL, api_key="none", max_retries=0, timeout=60)
        self.addCleanup(self.client.close)

    def ask(self, seed=7, extra=None, **options):
        options.setdefault("messages", QUESTION)
        options.setdefault("max_tokens", 400)
        return self.client.messages.create(model=MODEL, extra_body={"seed": seed, **(extra or {})}, **options)

    def stream(self, seed=7, extra=None, **options):
        options.setdefault("messages", QUESTION)
        options.setdefault("max_tokens", 400)
        return self.client.messages.stream(model=MODEL, extra_body={"seed": seed, **(extra or {})}, **options)

    def assertSplit(self, message):
        self.assertEqual([block.type for block in message.content], ["thinking", "text"])
        thinking, text = message.content[0].thinking, message.content[1].text
        self.assertTrue(thinking.strip() and text.strip() and message.content[0].signature)
        self.assertEqual((thinking, text), (thinking.lower(), text.upper()))
        self.assertNotRegex(thinking + text, "[<>]")

    def assertCounts(self, usage):
        self.assertGreater(usage.input_tokens + (usage.cache_read_input_tokens or 0), 0)
        self.assertGreater(usage.output_tokens_details.thinking_tokens, 0)
        self.assertGreater(usage.output_tokens, usage.output_tokens_details.thinking_tokens)

    def test_whole(self):
        message = self.ask(thinking=THINKING)
        self.assertSplit(message)
        self.assertCounts(message.usage)
        self.assertEqual((message.stop_reason, message.model), ("end_turn", MODEL))
        self.assertEqual(message.id, "msg_" + message._request_id)

    def test_streamed_is_whole(self):
        whole = self.ask(seed=11, thinking=THINKING)
        with self.stream(seed=11, thinking=THINKING) as stream:
            kinds = [event.type for event in stream]
            message = stream.get_final_message()
        self.assertSplit(message)
        self.assertCounts(message.usage)
        self.assertEqual([b.to_dict() for b in message.content], [b.to_dict() for b in whole.content])
        self.assertEqual((kinds[0], kinds[-1], message.stop_reason), ("message_start", "message_stop", "end_turn"))

    def test_thinking_unasked(self):
        message = self.ask()
        self.assertEqual([block.type for block in message.content], ["text"])
        self.assertCounts(message.usage)

    def test_thinking_off(self):
        message = self.ask(thinking={"type": "disabled"})
        self.assertEqual([block.type for block in message.content], ["text"])
        self.assertEqual(message.content[0].text, message.content[0].text.upper())

    def test_history(self):
        first = self.ask(thinking=THINKING)
        again = QUESTION + [{"role": "assistant", "content": first.content}, {"role": "user", "content": "Und dann?"}]
        self.assertSplit(self.ask(messages=again, thinking=THINKING, system=[{"type": "text", "text": "Sei knapp."}]))

    def test_tools_round_trip(self):
        with self.stream(tools=[WEATHER], thinking=THINKING, extra=CALL) as stream:
            message = stream.get_final_message()
        call = message.content[-1]
        self.assertEqual((message.stop_reason, call.type, call.name), ("tool_use", "tool_use", "weather"))
        self.assertEqual(call.input, {"city": "KYŌTO"})
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "18 °C"}
        turns = QUESTION + [{"role": "assistant", "content": message.content}, {"role": "user", "content": [result]}]
        self.assertSplit(self.ask(messages=turns, tools=[WEATHER], thinking=THINKING))

    def test_stop_sequence(self):
        text = self.ask().content[0].text
        message = self.ask(stop_sequences=[text[5:8]])
        self.assertEqual((message.stop_reason, message.stop_sequence), ("stop_sequence", text[5:8]))
        self.assertEqual(message.content[0].text, text[: text.index(text[5:8])])

    def test_limit(self):
        message = self.ask(max_tokens=3, thinking=THINKING)
        self.assertEqual((message.stop_reason, [block.type for block in message.content]), ("max_tokens", ["thinking"]))

    def test_count_tokens(self):
        counted = self.client.messages.count_tokens(model=MODEL, messages=QUESTION)
        usage = self.ask().usage
        self.assertEqual(counted.input_tokens, usage.input_tokens + (usage.cache_read_input_tokens or 0))

    def test_models(self):
        models = list(self.client.models.list())
        self.assertEqual([(m.id, m.type, m.display_name) for m in models], [(MODEL, "model", MODEL)])
        self.assertEqual(self.client.models.retrieve(MODEL).created_at, models[0].created_at)

    def test_two_at_once(self):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for message in pool.map(lambda seed: self.ask(seed=seed, thinking=THINKING), range(4)):
                self.assertSplit(message)

    def test_leaving(self):
        with self.stream(thinking=THINKING) as stream:
            next(iter(stream))
        self.assertSplit(self.ask(thinking=THINKING))

    def test_retry(self):
        crowd = Proxy(BASE_URL + "/v1", MODEL).crowd()
        with anthropic.DefaultHttpxClient(event_hooks={"response": [crowd.leave]}) as http:
            client = anthropic.Anthropic(base_url=BASE_URL, api_key="none", max_retries=2, timeout=60, http_client=http)
            client.messages.create(model=MODEL, max_tokens=400, messages=QUESTION)
        self.assertTrue(crowd.refused_once(), crowd.seen)

    def test_errors(self):
        with self.assertRaises(anthropic.NotFoundError) as caught:
            self.client.messages.create(model="nobody", max_tokens=9, messages=QUESTION)
        self.assertEqual(caught.exception.body["error"]["type"], "not_found_error")
        self.assertRegex(caught.exception.request_id, "^[0-9a-f]{32}$")
        with self.assertRaises(anthropic.BadRequestError) as caught:
            self.ask(messages=[])
        self.assertIn("messages", caught.exception.body["error"]["message"])


class Lines(unittest.TestResult):
    """Reports each test as one line of JSON."""

    def say(self, test, fault=""):
        print(json.dumps({"test": test.id().rsplit(".", 1)[-1], "fault": fault}), flush=True)

    def addSuccess(self, test):
        self.say(test)

    def addFailure(self, test, err):
        self.say(test, self._exc_info_to_string(err, test))

    addError = addFailure

    def addSkip(self, test, reason):
        self.say(test, "skipped: " + reason)


unittest.defaultTestLoader.loadTestsFromTestCase(Messages).run(Lines())
