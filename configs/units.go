package configs

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Duration is a time.Duration that also reads days, as in 90d.
type Duration time.Duration

const day = 24 * time.Hour

// UnmarshalText reads Go's durations and whole days. Negative ones are none.
func (d *Duration) UnmarshalText(text []byte) error {
	s := string(text)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 32); err == nil && n < uint64(math.MaxInt64/day) {
			*d = Duration(time.Duration(n) * day)
			return nil
		}
	}
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 {
		return fmt.Errorf("%q is no duration; write it as in 500ms, 10s, 2h or 90d", s)
	}
	*d = Duration(v)
	return nil
}

// MarshalText is the inverse of UnmarshalText, in the shortest form.
func (d Duration) MarshalText() ([]byte, error) {
	v := time.Duration(d)
	if v >= day && v%day == 0 {
		return append(strconv.AppendInt(nil, int64(v/day), 10), 'd'), nil
	}
	text := v.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return []byte(text), nil
}

// A Size is a number of bytes, at least 1.
type Size int64

// units are the names a Size may end with, the largest first.
func units() []unit {
	return []unit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}
}

type unit struct {
	name  string
	bytes int64
}

// UnmarshalText reads a number of bytes with an optional unit.
func (z *Size) UnmarshalText(text []byte) error {
	s, factor := string(text), int64(1)
	for _, u := range units() {
		if rest, ok := strings.CutSuffix(s, u.name); ok {
			s, factor = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || n > (1<<40)/factor {
		return fmt.Errorf("%q is no size; write it as in 1048576, 512KiB or 32MiB", text)
	}
	*z = Size(n * factor)
	return nil
}

// MarshalText is the inverse of UnmarshalText, in the largest unit that fits.
func (z Size) MarshalText() ([]byte, error) {
	for _, u := range units() {
		if int64(z) >= u.bytes && int64(z)%u.bytes == 0 {
			return []byte(strconv.FormatInt(int64(z)/u.bytes, 10) + u.name), nil
		}
	}
	return []byte(strconv.FormatInt(int64(z), 10)), nil
}
