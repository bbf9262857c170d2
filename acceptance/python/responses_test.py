"""What a user of openai-python's Responses API sees through the proxy.

Called with the base URL, the model and the id of the token that calls a tool;
prints one line of JSON a test, as client_test.py does.
"""

import sys
import unittest

import openai

import lines

BASE_URL, MODEL, CALLER = sys.argv[1:4]
QUESTION = "Wie lange dauert es?"
TOOLS = [{
    "type": "function", "name": "weather", "strict": False,
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}, {"type": "web_search"}]


def thinking(response):
    return "".join(part.text for item in response.output if item.type == "reasoning" for part in item.content or [])


class Responses(unittest.TestCase):
    def setUp(self):
        self.client = openai.OpenAI(base_url=BASE_URL, api_key="none", max_retries=0, timeout=60)
        self.addCleanup(self.client.close)

    def ask(self, seed=7, **options):
        options.setdefault("input", QUESTION)
        extra = {"seed": seed, **options.pop("extra", {})}
        return self.client.responses.create(model=MODEL, extra_body=extra, **options)

    def assertWhole(self, response):
        self.assertEqual(response.status, "completed")
        self.assertTrue(thinking(response).strip() and response.output_text.strip(), response)
        self.assertEqual(thinking(response), thinking(response).lower())
        self.assertEqual(response.output_text, response.output_text.upper())
        usage = response.usage
        self.assertEqual(usage.input_tokens + usage.output_tokens, usage.total_tokens)
        self.assertGreater(usage.output_tokens_details.reasoning_tokens, 0)
        self.assertLess(usage.output_tokens_details.reasoning_tokens, usage.output_tokens)

    def test_responses_whole(self):
        response = self.ask(instructions="Be brief.", metadata={"a": "b"})
        self.assertWhole(response)
        self.assertEqual((response.instructions, response.metadata), ("Be brief.", {"a": "b"}))
        self.assertEqual(response.id, "resp_" + response._request_id)

    def test_responses_streamed(self):
        whole, events = self.ask(), list(self.ask(stream=True))
        self.assertEqual([e.sequence_number for e in events], list(range(len(events))))
        self.assertEqual([e.type for e in events][:2], ["response.created", "response.in_progress"])
        self.assertEqual(events[-1].type, "response.completed")
        said = "".join(e.delta for e in events if e.type == "response.output_text.delta")
        thought = "".join(e.delta for e in events if e.type == "response.reasoning_text.delta")
        self.assertEqual((thought, said), (thinking(whole), whole.output_text))
        self.assertWhole(events[-1].response)

    def test_responses_stream_helper(self):
        with self.client.responses.stream(model=MODEL, input=QUESTION, extra_body={"seed": 5}) as stream:
            for _ in stream:
                pass
            self.assertWhole(stream.get_final_response())

    def test_responses_summary(self):
        events = list(self.ask(stream=True, reasoning={"summary": "auto"}, include=["reasoning.encrypted_content"]))
        summary = "".join(e.delta for e in events if e.type == "response.reasoning_summary_text.delta")
        self.assertEqual(summary, thinking(self.ask()))
        self.assertTrue(events[-1].response.output[0].encrypted_content)

    def test_responses_tools(self):
        bias = {"logit_bias": {CALLER: 25}}
        response = self.ask(seed=3, tools=TOOLS, extra=bias)
        calls = [item for item in response.output if item.type == "function_call"]
        self.assertEqual([(c.name, c.arguments) for c in calls], [("weather", '{"city": "KYŌTO"}')])
        streamed = list(self.ask(seed=3, tools=TOOLS, extra=bias, stream=True))
        done = [e for e in streamed if e.type == "response.function_call_arguments.done"]
        deltas = "".join(e.delta for e in streamed if e.type == "response.function_call_arguments.delta")
        self.assertEqual((deltas, done[0].arguments), (calls[0].arguments, calls[0].arguments))
        history = [{"role": "user", "content": QUESTION}, *response.output,
                   {"type": "function_call_output", "call_id": calls[0].call_id, "output": "rain"}]
        self.assertWhole(self.ask(input=history, tools=TOOLS))

    def test_responses_incomplete(self):
        response = self.ask(max_output_tokens=6)
        self.assertEqual((response.status, response.incomplete_details.reason), ("incomplete", "max_output_tokens"))
        self.assertEqual(response.output_text, "")
        self.assertEqual(list(self.ask(max_output_tokens=6, stream=True))[-1].type, "response.incomplete")

    def test_responses_errors(self):
        for options, param in (({"background": True}, "background"), ({"input": []}, "input"), ({"previous_response_id": "resp_x"}, "previous_response_id")):
            with self.assertRaises(openai.BadRequestError) as caught:
                self.ask(**options)
            self.assertEqual(caught.exception.param, param)
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.retrieve("resp_x")


lines.run(Responses)
