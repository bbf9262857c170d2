// Package forecast is what a process knows of how long jobs take and those in line
// wait: a book of package eta that many may ask at a time. It remembers numbers, in
// place of keys. While the book knows too few jobs, it asks what runs how fast the
// engine is, so that those who wait behind the first job of all are told something.
package forecast
