"""Opens a stream with openai-python that does not end by itself, and prints the
request's id once text has come. Whoever started it kills it then."""

import sys

import openai

base_url, model = sys.argv[1:3]
client = openai.OpenAI(base_url=base_url, api_key="none", max_retries=0)
response = client.chat.completions.with_raw_response.create(
    model=model,
    messages=[{"role": "user", "content": "Wie lange dauert es?"}],
    stream=True,
    max_tokens=30000,
    extra_body={"ignore_eos": True},
)
for number, chunk in enumerate(response.parse()):
    if number == 4:
        print(response.headers["x-request-id"], flush=True)
