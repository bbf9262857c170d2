// Package origin tells whether a web page of somewhere else has had a browser send a
// request, or may have made a name mean this machine. It looks at the request only, and
// promises to err on the side of refusing.
package origin
