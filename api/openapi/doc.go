// Package openapi is the description of the proxy's own API, for people and for
// programs that generate clients or requests from it.
//
// It is written by hand, and tests hold it to the truth: each of its paths and
// methods is a route and each route is described, and the objects, errors and events
// that tests of package api are answered fit the schemas. An event of a stream has a
// type that is described and no field that is not, and no event is described that
// never comes. Fields that clients send and the engine judges are not listed; objects
// take further members.
package openapi
