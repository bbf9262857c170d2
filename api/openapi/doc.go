// Package openapi is the description of the proxy's own API, for people and for
// programs that generate clients or requests from it.
//
// It is written by hand, and tests hold it to the truth: each of its paths and
// methods is a route and each route is described, and the objects, errors and chat
// chunks that tests of package api are answered fit the schemas. The events of
// Messages, Responses and the queue's feed are described in words, and checked where
// they are made. Fields that clients send and the engine judges are not listed;
// objects take further members.
package openapi
