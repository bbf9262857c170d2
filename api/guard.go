package api

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"oneslot/api/door"
	"oneslot/api/intake"
	"oneslot/api/report"
	"oneslot/internal/openai"
	"oneslot/proxy/surface/chat"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
)

// cors answers preflights and marks answers for the listed origins; refusals
// too, or a page could not tell why. Without a list there is no CORS.
func (s *Server) cors() echo.MiddlewareFunc {
	return middleware.CORSWithConfig(middleware.CORSConfig{
		AllowOrigins: s.cfg.CORSOrigins,
		AllowMethods: []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete},
		ExposeHeaders: []string{
			"X-Request-Id", "Request-Id", "X-Oneslot-Reason", "X-Oneslot-Position", "X-Oneslot-Wait-Ms", "X-Oneslot-Budget", report.NextAfter,
			"X-Should-Retry", "Retry-After", "Retry-After-Ms", "WWW-Authenticate",
		},
		MaxAge: 600,
	})
}

// guard keeps pages of other sites away from a proxy without keys. Such a proxy
// trusts whoever reaches it, and on loopback a browser does, which sends what any
// page tells it to: a POST of plain text, whose answer alone CORS withholds; and
// anything at all, once the page's own name resolves to 127.0.0.1. A page knows no
// key, so with keys there is nothing to guard.
func (s *Server) guard(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		switch {
		case len(s.cfg.Keys) > 0:
		case s.cfg.Loopback && !s.named(r.Host):
			return forbidden("host_not_allowed", "This proxy has no keys and answers on loopback only, so it does not answer under the name %q. Call it by its address, configure keys, or add the name to hosts.", cut(r.Host, maxLabel))
		case r.Method != http.MethodGet && r.Method != http.MethodHead && s.foreign(c):
			return forbidden("origin_not_allowed", "This proxy has no keys, so web pages of other origins, such as %q, may not use it. Add the origin to cors_origins to allow it.", cut(r.Header.Get("Origin"), maxLabel))
		}
		return next(c)
	}
}

func forbidden(code, format string, args ...any) *openai.Problem {
	return &openai.Problem{Status: http.StatusForbidden, Type: invalid, Code: code, Message: fmt.Sprintf(format, args...)}
}

// named reports whether nobody but the machine's owner can have made host mean
// this machine: it is an address, has no dot, stands below a name that is never
// delegated, or is configured.
func (s *Server) named(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if net.ParseIP(host) != nil || !strings.Contains(host, ".") {
		return true
	}
	own := func(suffix string) bool { return strings.HasSuffix(host, suffix) }
	return slices.ContainsFunc([]string{".localhost", ".local", ".internal", ".home.arpa", ".test"}, own) ||
		slices.ContainsFunc(s.cfg.Hosts, func(name string) bool { return strings.EqualFold(name, host) })
}

// foreign reports whether a web page of another origin had a browser send the
// request. Sec-Fetch-Site cannot be forged by a page; browsers that lack it send
// Origin with every POST and DELETE. An origin of another scheme than http is an
// installed application, such as an editor.
func (s *Server) foreign(c echo.Context) bool {
	r := c.Request()
	origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
	if site == "same-origin" || site == "none" || site == "" && origin == "" {
		return false
	}
	if c.Response().Header().Get(echo.HeaderAccessControlAllowOrigin) != "" {
		return false // it is listed
	}
	u, err := url.Parse(origin)
	web := err != nil || u.Host == "" || u.Scheme == "http" || u.Scheme == "https"
	return web && (err != nil || u.Host == "" || site != "" || u.Host != r.Host)
}

// maxHeader is how large the headers of a request may be, in bytes.
const maxHeader = 64 << 10

// unread words the refusal of a request that could not be read as far as its route.
// In OpenAI's shape, as on a route that is none.
func (s *Server) unread(status int, fault string) door.Refusal {
	p := &openai.Problem{Status: status, Type: invalid, Message: "The request cannot be read as HTTP/1.1. If it was meant for HTTPS: this proxy is called by http://, or through a TLS proxy."}
	switch status {
	case http.StatusRequestHeaderFieldsTooLarge:
		p.Message = fmt.Sprintf("The headers of the request are larger than the limit of %d bytes.", maxHeader)
	case http.StatusExpectationFailed:
		p.Message = "The header Expect asks for something that is not known here; only 100-continue is."
	case http.StatusNotImplemented:
		p.Message = "The Transfer-Encoding of the request is not known here; send it as chunked, or with a Content-Length."
	case http.StatusHTTPVersionNotSupported:
		p.Message = "The request is of a version of HTTP that is not known here; send it as HTTP/1.1."
	default:
		if fault != "" {
			p.Message = "The request cannot be read as HTTP/1.1: " + fault + "."
		}
	}
	s.Metrics.Request("", status, false)
	return door.Refusal{
		Header: http.Header{"Content-Type": {"application/json"}, "X-Request-Id": {newID()}},
		Body:   chat.API{}.Problem(p),
	}
}

// body reads the whole request body: until that is done the server cannot tell
// that a client has left, and no place in line is given to half a request.
func (s *Server) body(c echo.Context) ([]byte, error) {
	if coding := c.Request().Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, &openai.Problem{Status: http.StatusUnsupportedMediaType, Type: invalid, Message: fmt.Sprintf("The request body is compressed (Content-Encoding: %s). Send it as it is.", cut(coding, 40))}
	}
	text, err := bodyOf(c).All(callerOf(c).name)
	cfg := s.bodies.Config()
	switch {
	case err == nil, errors.Is(err, intake.ErrFull), errors.Is(err, intake.ErrKeyFull), errors.Is(err, intake.ErrClosed):
		return text, err
	case errors.Is(err, intake.ErrTooLarge):
		return nil, &openai.Problem{
			Status: http.StatusRequestEntityTooLarge, Type: invalid, Code: "request_too_large",
			Message: fmt.Sprintf("The request body is larger than the limit of %d bytes (limits.body).", cfg.Body),
		}
	case errors.Is(err, intake.ErrSlow):
		return nil, &openai.Problem{
			Status: http.StatusRequestTimeout, Type: invalid, Code: "request_timeout",
			Message: fmt.Sprintf("The request body came too slowly: it has %v, a second more for every %d bytes that have come, and %v at most.", cfg.Patience, cfg.Pace, cfg.Time),
		}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, openai.Invalid("", "", "The request body ended before it was complete.")
	default:
		return nil, openai.Invalid("", "", "The request body cannot be read: its chunks are malformed, or the connection broke.")
	}
}

// bodyOf is the body of a request, nil if it has none.
func bodyOf(c echo.Context) *intake.Body {
	b, _ := c.Get(bodyKey).(*intake.Body)
	return b
}
