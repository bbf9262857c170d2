package address

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		addresses []string
		want      func(o *redis.UniversalOptions) bool
	}{
		{[]string{"redis://127.0.0.1:7000/2"}, func(o *redis.UniversalOptions) bool {
			return slices.Equal(o.Addrs, []string{"127.0.0.1:7000"}) && o.DB == 2 && o.TLSConfig == nil && o.ContextTimeoutEnabled && !o.IsClusterMode
		}},
		{[]string{"rediss://me:secret@cache"}, func(o *redis.UniversalOptions) bool {
			return o.TLSConfig != nil && o.Username == "me" && o.Password == "secret" && o.Addrs[0] == "cache:6379"
		}},
		{[]string{"redis://:pw@a:1", "redis://b:2"}, func(o *redis.UniversalOptions) bool {
			return slices.Equal(o.Addrs, []string{"a:1", "b:2"}) && o.Password == "pw" && o.MasterName == ""
		}},
		{[]string{"redis://a:1?sentinel=mine&pool_size=7,redis://b:2"}, func(o *redis.UniversalOptions) bool {
			return slices.Equal(o.Addrs, []string{"a:1", "b:2"}) && o.MasterName == "mine" && o.PoolSize == 7
		}},
		{[]string{"redis://a:1?cluster=true"}, func(o *redis.UniversalOptions) bool { return o.IsClusterMode }},
		{[]string{"a:1"}, nil},
		{[]string{""}, nil},
		{[]string{"http://me:secret@a"}, nil},
		{[]string{"redis://me:secret@a:1", "redis://me:secret@b:x"}, nil},
		{[]string{"redis://me:secret@a/x"}, nil},
		{[]string{"redis://me:secret@a?typo=1"}, nil},
	} {
		o, err := Parse(c.addresses...)
		switch {
		case c.want == nil && err == nil:
			t.Errorf("%q was taken", c.addresses)
		case c.want == nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("%q: the password is in the error: %v", c.addresses, err)
		case c.want != nil && (err != nil || !c.want(o)):
			t.Errorf("%q: %+v, %v", c.addresses, o, err)
		}
	}
}

func TestExposed(t *testing.T) {
	for addresses, want := range map[string]int{
		"redis://127.0.0.1:1,redis://localhost,redis://[::1]:2": 0,
		"redis://cache":                       1,
		"redis://127.0.0.1,redis://10.0.0.7":  1,
		"redis://:pw@cache,redis://:pw@other": 0,
	} {
		o, err := Parse(addresses)
		if err != nil {
			t.Fatal(err)
		}
		if got := Exposed(o); len(got) != want {
			t.Errorf("%s: %v", addresses, got)
		}
	}
}
