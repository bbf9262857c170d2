package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"oneslot/internal/openai"
	"oneslot/queue"

	"github.com/labstack/echo/v4"
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
}

// owns reports whether a request of the named key is the caller's to see.
func (who caller) owns(key string) bool { return who.admin || key == who.name }

const callerKey = "caller"

// auth lets a request pass whose key is known. Without keys everybody is the
// operator: the program then listens on loopback only.
func (s *Server) auth(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if len(s.cfg.Keys) == 0 {
			c.Set(callerKey, caller{admin: true, maxClass: queue.Interactive})
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
		c.Set(callerKey, caller{name: k.Name, class: k.Class, maxClass: k.MaxClass, maxWaiting: k.MaxWaiting, admin: k.Admin, field: k.Field})
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

// urgency ranks the classes; queue.Class values are not in that order.
func urgency(c queue.Class) int {
	switch c {
	case queue.Interactive:
		return 2
	case queue.Batch:
		return 0
	case queue.Default:
	}
	return 1
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
	if urgency(class) > urgency(who.maxClass) {
		class = who.maxClass
	}
	return class, nil
}
