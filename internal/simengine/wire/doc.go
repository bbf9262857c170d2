// Package wire writes what engines write: stream events, whole replies and
// errors, key by key in the order the engines use.
//
// It is pure. The shapes were taken from recorded replies of SGLang 0.5.19,
// vLLM 0.32.0 and llama.cpp's server (build 11434).
package wire
