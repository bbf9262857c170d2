"""Makes a small real language model in about a second.

The model is a llama-architecture GGUF of about a megabyte. Its weights are set
by hand so that the next token depends on the last one only, by a table of
bigrams: the embedding is the identity, attention and MLP add nothing, and the
output matrix holds log-probabilities. What the normalisation multiplies in, the
square root of the width, the output matrix divides out.

It thinks in lower case and answers in UPPER CASE, with umlauts, Japanese and
emoji, so that one leaked word shows at a glance; it ends by itself. Beside the
GGUF stands the tokenizer.json that a proxy counts with.
"""

import argparse
import json
import math
import pathlib
import re
from collections import Counter, defaultdict

import gguf
import numpy
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

THINK, UNTHINK, CALL, UNCALL = "<think>", "</think>", "<tool_call>", "</tool_call>"
START, END = "<|im_start|>", "<|im_end|>"
SPECIAL = [END, START, THINK, UNTHINK, CALL, UNCALL]

# Tokens of their own, so that a bigram can tell where it stands: the gap between
# thinking and answer, and the three pieces of the one tool call it knows.
GAP = "\n\n"
TOOL = ['{"name": "weather", ', '"arguments": {"city": "KY', 'ŌTO"}}']

# Thinking and answer share no character but the blank, which is always part of a
# word. The first sentence of each list is the one a greedy reader gets.
THOUGHTS = [
    "so one user asks about our queue.",
    " maybe nobody waits, maybe twenty clients wait, they all share one slot.",
    " then nothing is lost, nothing is forgotten.",
    " wait, check that again, slowly, step by step.",
]
ANSWERS = [
    "GRÜSSE AUS DER KÜCHE!",
    " ÄPFEL UND ÖL SIND SCHÖN!",
    " 東京 IST GROẞ!",
    " HEUTE 😊!",
    " ありがとう FÜR DIE GEDULD!",
]
# The emoji is kept out of the merges, so that one character takes four tokens.
UNMERGED = ["HEUTE 😊!"]
# The log-probability of what never follows, and of a tool call in place of an
# answer: a logit_bias of 25 on <tool_call> makes it happen there and nowhere else.
FLOOR, RARE = -40.0, -15.0

TEMPLATE = """\
{%- if tools %}<|im_start|>system
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.reasoning_content %}<think>{{ message.reasoning_content }}</think>

{% endif %}{{ message.content or "" }}
{%- for call in message.tool_calls or [] %}<tool_call>{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}</tool_call>{% endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think></think>

{% endif %}{% endif %}"""

# The same for a model whose makers left thinking out of the template, and whose
# markers are tokens like others. The engine then neither splits it nor keeps a
# budget of it.
UNAWARE = re.sub(r"{% if message.reasoning_content %}.*?{% endif %}|{% if enable_thinking .*?{% endif %}", "", TEMPLATE, flags=re.S)


def train_tokenizer():
    """A byte-level BPE tokenizer whose merges make a token of every word but the emoji's."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=4096,
        show_progress=False,
        special_tokens=SPECIAL,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    words = [s for s in THOUGHTS + ANSWERS if s.strip() not in UNMERGED] + ["HEUTE!"]
    tokenizer.train_from_iterator(words + ["user assistant system tool"], trainer)
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in [GAP, *TOOL]])
    return tokenizer


def bigrams(tokenizer):
    """For each token its followers and their weights."""
    follow = defaultdict(Counter)

    def chain(text, weight):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        for a, b in zip(ids, ids[1:]):
            follow[a][b] += weight
        return ids[0], ids[-1]

    def link(a, b, weight):
        follow[tokenizer.token_to_id(a) if isinstance(a, str) else a][
            tokenizer.token_to_id(b) if isinstance(b, str) else b] += weight

    newline = tokenizer.encode("\n", add_special_tokens=False).ids[0]
    link(newline, THINK, 1)
    for opener, sentences, closer in ((THINK, THOUGHTS, UNTHINK), (GAP, ANSWERS, END)):
        for number, sentence in enumerate(sentences):
            first, last = chain(sentence, len(sentences) - number)
            link(opener if number == 0 else last, first, 2)
        link(last, closer, 3)  # the likeliest single follower, so that greedy text ends
    link(UNTHINK, GAP, 1)
    for a, b in zip([CALL, *TOOL, UNCALL], [*TOOL, UNCALL, END]):
        link(a, b, 1)
    return follow


def matrices(tokenizer, follow, size):
    """Embedding and output matrix for a vocabulary of the given size."""
    logs = numpy.full((size, size), FLOOR, dtype=numpy.float32)
    for a, row in follow.items():
        total = sum(row.values())
        for b, weight in row.items():
            logs[b, a] = math.log(weight / total)
    logs[tokenizer.token_to_id(CALL), tokenizer.token_to_id(GAP)] = RARE
    return numpy.eye(size, dtype=numpy.float32), logs / math.sqrt(size)


def write_gguf(path, tokenizer, follow, plain=()):
    vocabulary = sorted(tokenizer.get_vocab(), key=tokenizer.token_to_id)
    size = -(-len(vocabulary) // 32) * 32
    tokens = vocabulary + [f"<|unused{n}|>" for n in range(size - len(vocabulary))]
    kinds = [kind(token, plain) for token in tokens]
    embedding, output = matrices(tokenizer, follow, size)
    head, inner = 32, 32

    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("tiny")
    writer.add_context_length(32768)
    writer.add_embedding_length(size)
    writer.add_block_count(1)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_rope_dimension_count(head)
    writer.add_layer_norm_rms_eps(1e-9)
    writer.add_vocab_size(size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges(tokenizer))
    writer.add_eos_token_id(tokens.index(END))
    writer.add_pad_token_id(tokens.index(END))
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)

    def zeros(*shape):
        return numpy.zeros(shape, dtype=numpy.float32)

    ones = numpy.ones(size, dtype=numpy.float32)
    writer.add_tensor("token_embd.weight", embedding.astype(numpy.float16))
    writer.add_tensor("output.weight", output.astype(numpy.float16))
    writer.add_tensor("output_norm.weight", ones)
    writer.add_tensor("blk.0.attn_norm.weight", ones)
    writer.add_tensor("blk.0.ffn_norm.weight", ones)
    for name in ("attn_q", "attn_k", "attn_v"):
        writer.add_tensor(f"blk.0.{name}.weight", zeros(head, size))
    writer.add_tensor("blk.0.attn_output.weight", zeros(size, head))
    writer.add_tensor("blk.0.ffn_gate.weight", zeros(inner, size))
    writer.add_tensor("blk.0.ffn_up.weight", zeros(inner, size))
    writer.add_tensor("blk.0.ffn_down.weight", zeros(size, inner))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def kind(token, plain):
    """How llama.cpp treats a token: control tokens are parsed and shown only on request."""
    if token in SPECIAL and token not in plain:
        return gguf.TokenType.CONTROL
    if token in (GAP, *TOOL, *plain):
        return gguf.TokenType.USER_DEFINED
    return gguf.TokenType.UNUSED if token.startswith("<|unused") else gguf.TokenType.NORMAL


def merges(tokenizer):
    pairs = json.loads(tokenizer.to_str())["model"]["merges"]
    return [" ".join(pair) if isinstance(pair, list) else pair for pair in pairs]


def make(folder, plain=()):
    """Writes tiny.gguf and tokenizer.json into the folder and returns the paths.

    The special tokens in plain are made tokens like others."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer()
    model, vocabulary = folder / "tiny.gguf", folder / "tokenizer.json"
    write_gguf(model, tokenizer, bigrams(tokenizer), plain)
    tokenizer.save(str(vocabulary))
    return model, vocabulary


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", help="where tiny.gguf and tokenizer.json go")
    for written in make(parser.parse_args().folder):
        print(written)
