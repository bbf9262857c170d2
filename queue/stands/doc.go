// Package stands tells where tickets stand in a line that many keys share. To count
// those before one ticket is to look at every key, which each of thousands who ask at
// their heartbeats would do for himself; here the whole line is put in order once for
// all of them.
//
// It promises that a place is at most as old as a line of that length may take, a
// second with 5,000 tickets, and that a line of few keys, and a ticket that has just
// come, are counted as they are now.
package stands
