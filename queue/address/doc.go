// Package address reads where Redis is, as the settings say it, and makes the
// options of a client from that: one server, a cluster, or sentinels and the master
// they watch, with passwords and TLS.
//
// No error shows an address, which may hold a password. Parse reads the files of
// certificates that an address names, and does nothing else outside.
package address
