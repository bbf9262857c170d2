// Package openapi is the description of the proxy's own API, for people and for
// programs that generate clients or requests from it.
//
// It is written by hand, and tests hold it to the truth: each of its paths and
// methods is a route and each route is described, and what the proxy answers in
// tests of its API fits the schemas. Fields that clients send and the engine judges
// are not listed; objects take further members.
package openapi
