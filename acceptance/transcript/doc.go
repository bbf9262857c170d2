// Package transcript stands between a client and the proxy, takes down what each
// says, and writes it so that two runs of the same client read the same.
//
// What is written has no key, no id, no time, no version, no path of the machine and
// no long text in it: of a request and an answer it shows the head and the shape.
package transcript
