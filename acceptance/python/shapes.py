"""Holds recorded answers to the shapes that OpenAI's own library has for them, read
strictly, as the library itself never does.

Called with a file of JSON lines, {"method", "path", "status", "type", "body",
"anthropics"}, the last of which says whose client asked; prints one line of JSON a
shape, as client_test.py does.
"""

import collections
import json
import sys
import typing

import pydantic
from openai.types import Completion, Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from openai.types.shared import ErrorObject

# What is told beyond OpenAI's shapes, and by whose custom: thinking in chats is
# DeepSeek's, a model's length vLLM's.
BEYOND = {"reasoning_content", "max_model_len", "root", "store"}
NAMED = "ResponseFunctionCallArgumentsDoneEvent.name"  # OpenAI's documentation has it
# Why a response has failed may also be one of the proxy's own reasons.
REASONS = {"queue_full", "key_limit", "hopeless", "queue_timeout", "engine_down", "draining", "slot_lost", "cancelled"}

SHAPES = {  # by route: of one object, of an event
    "/chat/completions": (ChatCompletion, ChatCompletionChunk),
    "/completions": (Completion, Completion),
    "/responses": (Response, ResponseStreamEvent),
    "/models": (Model, None),
}


def stream(text):
    """The events of a stream, of a long one its two ends. Behind the last blank line
    there is nothing, or an event that was cut."""
    blocks = text.split("\n\n")[:-1]
    return blocks if len(blocks) < 200 else blocks[:100] + blocks[-100:]


def beyond(value, at=""):
    """The members that a value has and its shape has not."""
    if isinstance(value, pydantic.BaseModel):
        for name in value.model_extra or {}:
            yield f"{at}.{name}"
        for name in type(value).model_fields:
            yield from beyond(getattr(value, name), f"{at}.{name}")
    elif isinstance(value, list):
        for item in value:
            yield from beyond(item, at)


def by_type(union):
    """The shapes of a union by their type."""
    members = typing.get_args(typing.get_args(union)[0])
    return {typing.get_args(shape.model_fields["type"].annotation)[0]: shape for shape in members}


EVENTS = by_type(ResponseStreamEvent)


class Checks:
    def __init__(self):
        self.counts, self.faults, self.kinds = collections.Counter(), {}, {}

    def hold(self, shape, text):
        if shape is ResponseStreamEvent:
            kind = json.loads(text)["type"]
            if kind not in EVENTS:
                self.faults.setdefault(kind, f"no such event\n{text[:2000]}")
                return
            shape = EVENTS[kind]
        name = shape.__name__
        if '"code":"' in text and (error := json.loads(text).get("response", {}).get("error")) and error["code"] in REASONS:
            text = text.replace(f'"code":"{error["code"]}"', '"code":"server_error"')
        adapter = self.kinds.setdefault(name, pydantic.TypeAdapter(shape))
        self.counts[name] += 1
        try:
            value = adapter.validate_json(text, strict=True)
        except pydantic.ValidationError as error:
            self.faults.setdefault(name, f"{error}\n{text[:2000]}")
            return
        more = [path for path in beyond(value) if path.rsplit(".", 1)[-1] not in BEYOND and name + path != NAMED]
        if more:
            self.faults.setdefault(name, f"it has {sorted(set(more))} beyond its shape\n{text[:2000]}")

    def error(self, text):
        if list(json.loads(text)) != ["error"]:
            self.faults.setdefault("ErrorObject", text)
        self.hold(ErrorObject, json.dumps(json.loads(text)["error"]))

    def answer(self, shapes, record):
        whole, event = shapes
        if record["type"] != "text/event-stream":
            body = json.loads(record["body"])
            if record["status"] >= 400 or "error" in body and "object" not in body:
                return self.error(record["body"])
            if body["object"] == "list":
                return [self.hold(whole, json.dumps(one)) for one in body["data"]]
            return self.hold(whole, record["body"])
        for block in stream(record["body"]):
            for line in block.split("\n"):
                data = line.removeprefix("data: ")
                if data == line or data == "[DONE]":
                    continue
                self.error(data) if data.startswith('{"error"') else self.hold(event, data)


checks = Checks()
for line in open(sys.argv[1]):
    record = json.loads(line)
    route = record["path"].split("?")[0].removeprefix("/v1")
    if route.startswith("/models/"):
        route = "/models"
    if route in SHAPES and record["body"].strip() and not record["anthropics"]:
        checks.answer(SHAPES[route], record)
for name in checks.faults:
    checks.counts[name] += 0
for name, count in sorted(checks.counts.items()):
    print(json.dumps({"test": f"shape {name}", "fault": checks.faults.get(name, ""), "count": count}), flush=True)
