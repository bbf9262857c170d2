package origin_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"oneslot/api/origin"
)

func TestNamed(t *testing.T) {
	hosts := []string{"Box.example.org"}
	for host, want := range map[string]bool{
		"127.0.0.1:8080": true, "[::1]:8080": true, "localhost": true, "spark": true, "spark.local:80": true, "a.localhost.": true,
		"box.EXAMPLE.org:8080": true, "box.example.org": true,
		"evil.example.org": false, "box.example.org.evil.com": false, "127.0.0.1.nip.io": false, "local.evil.com": false,
	} {
		if got := origin.Named(host, hosts); got != want {
			t.Errorf("%s: %v", host, got)
		}
	}
}

func TestForeign(t *testing.T) {
	for _, x := range []struct {
		origin, site string
		want         bool
	}{
		{"", "", false},
		{"", "same-origin", false},
		{"", "none", false},
		{"", "cross-site", true},
		{"http://proxy.test", "", false},
		{"http://proxy.test", "same-origin", false},
		{"http://proxy.test", "same-site", true},
		{"https://evil.test", "", true},
		{"https://evil.test", "cross-site", true},
		{"null", "", true},
		{"http://%zz", "", true},
		{"vscode-webview://abc", "", false},
		{"vscode-webview://abc", "cross-site", false},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://proxy.test/v1/chat/completions", nil)
		if x.origin != "" {
			r.Header.Set("Origin", x.origin)
		}
		if x.site != "" {
			r.Header.Set("Sec-Fetch-Site", x.site)
		}
		if got := origin.Foreign(r); got != x.want {
			t.Errorf("origin %q, site %q: %v", x.origin, x.site, got)
		}
	}
}
