package api

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"oneslot/api/door"
	"oneslot/api/origin"
	"oneslot/api/report"
	"oneslot/internal/openai"
	"oneslot/proxy/surface/chat"
	"oneslot/queue"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
)

// A Key is an API key that callers may use.
type Key struct {
	// Name stands for the key in the line, the ledger and the log.
	Name string
	// SHA256 is the hash of the secret, 64 hex digits.
	SHA256 string
	// Class is used when a request names none; MaxClass caps what it may name.
	Class, MaxClass queue.Class
	// MaxWaiting is how many of its requests may wait. Zero means the line's own
	// limit of a key.
	MaxWaiting int
	// Admin may see and cancel everybody's requests.
	Admin bool
	// ByUser has the key's users share its slot time among themselves. Nil means as
	// Config.ByUser says.
	ByUser *bool
	// Field is where thinking goes for this key's requests. Nil means that it goes
	// where Config.Field says.
	Field *openai.ReasoningField

	hash [sha256.Size]byte
}

// Validate checks the name and the hash.
func (k *Key) Validate() error {
	raw, err := hex.DecodeString(k.SHA256)
	switch {
	case k.Name == "":
		return errors.New("name is missing: it stands for the key in the ledger")
	case err != nil || len(raw) != sha256.Size:
		return fmt.Errorf("key %q: sha256 must be the 64 hex digits of the secret's SHA-256", k.Name)
	}
	copy(k.hash[:], raw)
	return nil
}

// caller is who sent a request.
type caller struct {
	name            string
	class, maxClass queue.Class
	maxWaiting      int
	admin           bool
	field           *openai.ReasoningField
	byUser          bool
	salt            []byte
}

// user stands for the name of one of the caller's users, where they share by it, so
// that nobody who lacks the salt can find the name by trying: the hash of the key, or
// without keys what this process alone knows. All who give none are one.
func (who caller) user(name string) string {
	if !who.byUser {
		return ""
	}
	sum := hmac.New(sha256.New, who.salt)
	_, _ = sum.Write([]byte(name)) // never fails
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// newSalt returns a salt that nobody can guess.
func newSalt() []byte { return []byte(rand.Text()) }

// owns reports whether a request of the named key is the caller's to see.
func (who caller) owns(key string) bool { return who.admin || key == who.name }

const callerKey = "caller"

// auth lets a request pass whose key is known. Without keys everybody is the
// operator: the program then listens on loopback only.
func (s *Server) auth(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if len(s.cfg.Keys) == 0 {
			c.Set(callerKey, caller{admin: true, maxClass: queue.Interactive, byUser: s.cfg.ByUser, salt: s.salt})
			return next(c)
		}
		k, ok := s.key(secret(c.Request().Header))
		if !ok {
			c.Response().Header().Set("WWW-Authenticate", "Bearer")
			return &openai.Problem{
				Status: http.StatusUnauthorized, Type: invalid, Code: "invalid_api_key",
				Message: "No valid API key was sent. Send one as 'Authorization: Bearer KEY'; the operator of this proxy gives them out.",
			}
		}
		who := caller{name: k.Name, class: k.Class, maxClass: k.MaxClass, maxWaiting: k.MaxWaiting, admin: k.Admin, field: k.Field, byUser: s.cfg.ByUser, salt: k.hash[:]}
		if k.ByUser != nil {
			who.byUser = *k.ByUser
		}
		c.Set(callerKey, who)
		return next(c)
	}
}

// secret reads the key from the headers that clients use for it.
func secret(h http.Header) string {
	if scheme, rest, _ := strings.Cut(h.Get("Authorization"), " "); strings.EqualFold(scheme, "bearer") && strings.TrimSpace(rest) != "" {
		return strings.TrimSpace(rest)
	}
	for _, name := range []string{"X-Api-Key", "Api-Key"} {
		if v := h.Get(name); v != "" {
			return v
		}
	}
	return ""
}

// key compares hashes of equal length in constant time, all of them, so that
// neither the secret nor its place in the list shows in the time.
func (s *Server) key(secret string) (found *Key, ok bool) {
	hash := sha256.Sum256([]byte(secret))
	for i := range s.cfg.Keys {
		if subtle.ConstantTimeCompare(hash[:], s.cfg.Keys[i].hash[:]) == 1 {
			found, ok = &s.cfg.Keys[i], true
		}
	}
	return found, ok && secret != ""
}

func callerOf(c echo.Context) caller {
	who, _ := c.Get(callerKey).(caller)
	return who
}

// admin lets a request pass whose key is an admin's.
func (s *Server) admin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !callerOf(c).admin {
			return adminNeeded("This route needs a key with 'admin: true'.")
		}
		return next(c)
	}
}

func adminNeeded(message string) *openai.Problem {
	return &openai.Problem{Status: http.StatusForbidden, Type: invalid, Code: "admin_key_needed", Message: message}
}

// classOf is the class of a request: by header, else by service tier, else the
// key's own; never above what the key may have.
func (who caller) classOf(header, tier string) (queue.Class, error) {
	class := who.class
	switch tier {
	case "priority", "fast":
		class = queue.Interactive
	case "flex", "scale":
		class = queue.Batch
	case "default":
		class = queue.Default
	}
	if header != "" {
		named, err := queue.ParseClass(strings.ToLower(header))
		if err != nil {
			return class, openai.Invalid("", "invalid_value", "X-Oneslot-Priority is %q; it must be interactive, default or batch.", cut(header, 40))
		}
		class = named
	}
	if class.Urgency() < who.maxClass.Urgency() {
		class = who.maxClass
	}
	return class, nil
}

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
		r, listed := c.Request(), c.Response().Header().Get(echo.HeaderAccessControlAllowOrigin) != "" // by CORS
		switch {
		case len(s.cfg.Keys) > 0:
		case s.cfg.Loopback && !origin.Named(r.Host, s.cfg.Hosts):
			return forbidden("host_not_allowed", "This proxy has no keys and answers on loopback only, so it does not answer under the name %q. Call it by its address, configure keys, or add the name to hosts.", cut(r.Host, maxLabel))
		case r.Method != http.MethodGet && r.Method != http.MethodHead && !listed && origin.Foreign(r):
			return forbidden("origin_not_allowed", "This proxy has no keys, so web pages of other origins, such as %q, may not use it. Add the origin to cors_origins to allow it.", cut(r.Header.Get("Origin"), maxLabel))
		}
		return next(c)
	}
}

func forbidden(code, format string, args ...any) *openai.Problem {
	return &openai.Problem{Status: http.StatusForbidden, Type: invalid, Code: code, Message: fmt.Sprintf(format, args...)}
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
