package origin

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Named reports whether nobody but the machine's owner can have made host mean
// this machine: it is an address, has no dot, stands below a name that is never
// delegated, or is one of hosts.
func Named(host string, hosts []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if net.ParseIP(host) != nil || !strings.Contains(host, ".") {
		return true
	}
	own := func(suffix string) bool { return strings.HasSuffix(host, suffix) }
	return slices.ContainsFunc([]string{".localhost", ".local", ".internal", ".home.arpa", ".test"}, own) ||
		slices.ContainsFunc(hosts, func(name string) bool { return strings.EqualFold(name, host) })
}

// Foreign reports whether a web page of another origin had a browser send the
// request. Sec-Fetch-Site cannot be forged by a page; browsers that lack it send
// Origin with every POST and DELETE. An origin of another scheme than http is an
// installed application, such as an editor.
func Foreign(r *http.Request) bool {
	origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
	if site == "same-origin" || site == "none" || site == "" && origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	web := err != nil || u.Host == "" || u.Scheme == "http" || u.Scheme == "https"
	return web && (err != nil || u.Host == "" || site != "" || u.Host != r.Host)
}
