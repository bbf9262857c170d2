// Package stack starts what an acceptance test needs on the loopback interface:
// a real engine (llama.cpp's server with one slot), the simulated engine, and the
// built proxy in front of either.
//
// Everything started belongs to the test that started it and ends with it. The
// environment says where the built things are: ONESLOT_BIN is the proxy,
// ONESLOT_PYTHON a Python with the engine and the Python client, ONESLOT_API_PYTHON and
// ONESLOT_LANGCHAIN_PYTHON those with other clients, ONESLOT_MODEL the model to serve
// (tiny, the default, or smollm2), and ONESLOT_TOKENIZER is yes when the proxy was built
// with the native tokenizer.
package stack
