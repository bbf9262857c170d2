"""Holds recorded answers to the proxy's own description, and those of Messages to the
shapes that Anthropic's library has for them, read strictly.

Called with a file of JSON lines, as shapes.py is, and the description; prints the same.
"""

import collections
import json
import re
import sys

import jsonschema_rs
import pydantic
import yaml
from anthropic.types import Message, MessageTokensCount, RawMessageStreamEvent

RECORDS, DESCRIPTION = sys.argv[1:3]
API = yaml.safe_load(open(DESCRIPTION))
THEIRS = {"/messages": (Message, RawMessageStreamEvent), "/messages/count_tokens": (MessageTokensCount, None)}
counts, faults, validators, adapters = collections.Counter(), {}, {}, {}


def stream(text):
    """The events of a stream, of a long one its two ends. Behind the last blank line
    there is nothing, or an event that was cut."""
    blocks = text.split("\n\n")[:-1]
    return blocks if len(blocks) < 200 else blocks[:100] + blocks[-100:]


def described(path):
    """The path of the description that a request's is of."""
    for form in sorted(API["paths"], key=lambda form: form.count("{")):
        pattern = re.sub(r"\{model\}", ".+", form)
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", pattern), path if path.startswith("/v1") else "/v1" + path):
            return form


def note(name, fault):
    counts[name] += 1
    if fault:
        faults.setdefault(name, fault)


def ours(name, schema, text):
    key = json.dumps(schema, sort_keys=True)
    if key not in validators:
        validators[key] = jsonschema_rs.Draft202012Validator({**schema, "components": API["components"]})
    value = "[DONE]" if text == "[DONE]" else json.loads(text)
    error = next(validators[key].iter_errors(value), None)
    note(name, error and f"{error}\n{text[:2000]}")


def theirs(shape, text):
    if shape is None or text.startswith('{"type":"error"'):
        return
    if text == '{"type":"ping"}':
        return  # it is of the wire, and not among the library's events
    fault = ""
    try:
        adapters.setdefault(shape, pydantic.TypeAdapter(shape)).validate_json(text, strict=True)
    except pydantic.ValidationError as error:
        fault = f"{error}\n{text[:2000]}"
    note("Anthropic's " + ("event" if shape is RawMessageStreamEvent else shape.__name__), fault)


def answer(record):
    path = record["path"].split("?")[0]
    form = described(path)
    operation = API["paths"].get(form, {}).get(record["method"].lower())
    if operation is None or not record["body"].strip():
        return
    responses = operation["responses"]
    response = responses.get(str(record["status"]), responses["default"])
    if "$ref" in response:
        response = API["components"]["responses"][response["$ref"].rsplit("/", 1)[-1]]
    schema = response["content"][record["type"]]["schema"]
    whole, event = THEIRS.get(path.removeprefix("/v1"), (None, None))
    if record["type"] == "application/json":
        ours(f"{record['method']} {form}", schema, record["body"])
        return theirs(whole if record["status"] == 200 else None, record["body"].strip())
    for block in stream(record["body"]):
        for line in block.split("\n"):
            if line.startswith("data: "):
                ours(f"event of {form}", schema, line[6:])
                theirs(event, line[6:])


for line in open(RECORDS):
    answer(json.loads(line))
for name, count in sorted(counts.items()):
    print(json.dumps({"test": name, "fault": faults.get(name, ""), "count": count}), flush=True)
