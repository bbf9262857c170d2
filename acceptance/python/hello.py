"""The first contact of each Python client: an answer, a stream, and what the client
asks for of itself. Called with the client, the proxy's URL and the model."""

import sys

CLIENT, URL, MODEL = sys.argv[1:4]
BASE_URL, LOREM = URL + "/v1", "Lorem ipsum dolor sit amet?"
ASKED = [{"role": "user", "content": LOREM}]


def openai_python():
    import openai

    client = openai.OpenAI(base_url=BASE_URL, api_key="none")
    client.models.list()
    client.chat.completions.create(model=MODEL, messages=ASKED, max_tokens=50)
    for _ in client.chat.completions.create(model=MODEL, messages=ASKED, max_tokens=50, stream=True, stream_options={"include_usage": True}):
        pass
    client.responses.create(model=MODEL, input=LOREM, max_output_tokens=50)
    for _ in client.responses.create(model=MODEL, input=LOREM, max_output_tokens=50, stream=True):
        pass


def langchain():
    from langchain_deepseek import ChatDeepSeek
    from langchain_openai import ChatOpenAI

    for model in (
        ChatOpenAI(base_url=BASE_URL, api_key="none", model=MODEL, max_tokens=50),
        ChatOpenAI(base_url=BASE_URL, api_key="none", model=MODEL, max_tokens=50, use_responses_api=True, reasoning={"summary": "auto"}, store=False),
        ChatDeepSeek(api_base=BASE_URL, api_key="none", model=MODEL, max_tokens=50),
    ):
        model.invoke(LOREM)
        for _ in model.stream(LOREM):
            pass


def anthropic():
    import anthropic

    client = anthropic.Anthropic(base_url=URL, api_key="none")
    thinking = {"type": "enabled", "budget_tokens": 1024}
    client.messages.count_tokens(model=MODEL, messages=ASKED)
    client.messages.create(model=MODEL, max_tokens=1050, messages=ASKED)
    with client.messages.stream(model=MODEL, max_tokens=1050, messages=ASKED, thinking=thinking) as stream:
        for _ in stream:
            pass


{"openai-python": openai_python, "langchain": langchain, "anthropic": anthropic}[CLIENT]()
