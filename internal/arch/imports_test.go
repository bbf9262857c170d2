package arch

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// mayImport lists, for each package, the packages of this module that it may
// import, in the order in which a request meets them. A trailing "/..." stands
// for a package and those below it, which are its own business.
var mayImport = map[string][]string{
	"cmd/oneslot":         {"configs", "api", "api/metrics", "queue", "proxy", "proxy/engine", "proxy/probe", "proxy/surface", "reasoning", "usage", "ledger", "ledger/sqlite", "ledger/redis", "ledger/export", "ledger/live", "internal/tokenizer", "internal/telemetry", "internal/remote", "internal/simengine/...", "queue/address", "api/board", "internal/console"},
	"configs":             {"configs/lines", "api", "api/intake", "api/retry", "queue", "proxy", "proxy/budget", "proxy/downstream", "proxy/engine", "proxy/surface/responses", "reasoning", "ledger", "internal/openai", "internal/telemetry", "queue/address"},
	"api":                 {"api/door", "api/intake", "api/metrics", "api/openapi", "api/origin", "api/parted", "api/report", "api/retry", "api/slack", "queue", "queue/line", "proxy", "proxy/budget", "proxy/downstream", "proxy/downstream/raw", "proxy/engine", "proxy/surface/...", "usage", "ledger", "internal/openai", "internal/telemetry", "api/board"},
	"configs/lines":       {},
	"api/openapi":         {},
	"api/door":            {"internal/socket"},
	"api/origin":          {},
	"api/parted":          {},
	"api/slack":           {},
	"api/intake":          {},
	"api/report":          {"internal/openai", "ledger", "ledger/export", "proxy/surface"},
	"api/board":           {"queue", "queue/line", "proxy", "usage"},
	"api/metrics":         {"queue", "queue/line", "ledger"},
	"api/retry":           {"proxy/downstream/...", "queue", "queue/claims", "internal/openai"},
	"queue/claims":        {},
	"queue":               {"queue/bell", "queue/claims", "queue/line", "queue/codec", "queue/eta", "queue/forecast", "queue/job", "queue/stands"},
	"queue/job":           {"queue/claims", "queue/forecast", "queue/line"},
	"queue/bell":          {},
	"queue/forecast":      {"queue/eta", "queue/line"},
	"queue/address":       {"internal/socket"},
	"queue/line":          {},
	"proxy":               {"proxy/budget", "proxy/cache", "proxy/downstream", "proxy/engine", "proxy/events", "proxy/split", "proxy/surface", "proxy/watchdog", "reasoning", "usage", "internal/openai"},
	"queue/codec":         {"queue/eta", "queue/line"},
	"queue/stands":        {"queue/line"},
	"queue/eta":           {},
	"proxy/budget":        {"reasoning", "internal/openai"},
	"proxy/cache":         {"proxy/engine", "usage", "usage/prefix", "internal/openai"},
	"proxy/downstream":    {"proxy/downstream/...", "internal/openai"},
	"proxy/engine":        {"proxy/engine/wire", "internal/openai", "internal/socket"},
	"proxy/engine/wire":   {"internal/socket"},
	"proxy/events":        {},
	"proxy/watchdog":      {},
	"proxy/split":         {"reasoning", "internal/openai"},
	"proxy/surface":       {"proxy/surface/...", "proxy/downstream", "proxy/split", "reasoning", "usage", "internal/openai"},
	"proxy/probe":         {"proxy/probe/markers", "proxy/engine", "reasoning", "internal/openai"},
	"proxy/probe/markers": {"reasoning"},
	"reasoning":           {},
	"usage":               {"reasoning", "internal/openai"},
	"usage/prefix":        {"usage"},
	"ledger":              {"usage"},
	"ledger/sqlite":       {"ledger", "usage"},
	"ledger/redis":        {"ledger", "usage"},
	"ledger/export":       {"ledger", "usage"},
	"ledger/live":         {"ledger", "internal/remote"},
	"internal/console":    {"api/board"},
	"internal/openai":     {},
	"internal/socket":     {},
	"internal/tokenizer":  {},
	"internal/remote":     {},
	"internal/telemetry":  {"ledger"},
	"internal/simengine":  {"internal/simengine/..."},
	"internal/arch":       {},
	"bench/fairness":      {"queue/line", "queue/eta"},
}

// pure packages keep away from the world, so that they can be tested by calling
// them and held to an oracle.
var pure = []string{"reasoning", "proxy/split", "proxy/budget", "proxy/events", "proxy/probe/markers", "usage", "usage/prefix", "internal/openai", "queue/line", "queue/codec", "queue/eta", "queue/stands"}

// world is what a pure package may not import.
var world = []string{"io/fs", "log", "log/slog", "net", "os", "os/exec", "sync", "sync/atomic", "syscall", "testing/synctest"}

// fences say where a third party may be imported, and why only there.
var fences = []struct {
	module string
	in     []string
	why    string
}{
	{"github.com/labstack/echo/", []string{"api"}, "the router is kept at the edge, so that another one is a day's work"},
	{"github.com/redis/go-redis/", []string{"queue", "queue/address", "ledger/redis", "cmd/oneslot"}, "only the line and the ledger know Redis"},
	{"github.com/tmaxmax/go-sse", []string{"proxy/probe", "api/board", "internal/console"}, "the hot path frames events by itself (proxy/events), and tests hold it to the library"},
	{"go.uber.org/zap", []string{"api", "cmd/oneslot"}, "inner packages return facts; the edge logs them"},
	{"modernc.org/sqlite", []string{"ledger/sqlite"}, "only the ledger knows its file"},
	{"github.com/daulet/tokenizers", []string{"internal/tokenizer"}, "it needs a native library, everything else builds without"},
	{"github.com/spf13/", []string{"cmd/oneslot"}, "the command line is cmd's"},
	{"github.com/knadh/koanf/", []string{"configs"}, "settings are read in one place"},
	{"github.com/prometheus/", []string{"api/metrics", "internal/telemetry"}, "metrics have one home, and one way out"},
	{"go.opentelemetry.io/", []string{"internal/telemetry"}, "what is off costs nothing, and the rest knows no spans"},
}

func TestImports(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range code(tree(t)) {
		rule, ok := ruleOf(s.pkg)
		if !ok {
			t.Errorf("%s: package has no line in mayImport", s.path)
			continue
		}
		seen[rule] = true
		for _, path := range imports(s) {
			inner, ours := strings.CutPrefix(path, module+"/")
			if ours && !allowed(mayImport[rule], inner) && !within(rule, s.pkg, inner) {
				t.Errorf("%s imports %s, which %s may not", s.path, path, rule)
			}
			if path == "C" && s.pkg != "internal/tokenizer" {
				t.Errorf("%s imports C: only internal/tokenizer may", s.path)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(mayImport)) {
		if !seen[name] {
			t.Errorf("mayImport has a line for %s, which is not there", name)
		}
	}
}

// ruleOf finds the line for a package: its own, or that of the package above it
// which may import what lies below.
func ruleOf(pkg string) (string, bool) {
	if _, ok := mayImport[pkg]; ok {
		return pkg, true
	}
	for name, list := range mayImport {
		if strings.HasPrefix(pkg, name+"/") && slices.Contains(list, name+"/...") {
			return name, true
		}
	}
	return "", false
}

func allowed(list []string, pkg string) bool {
	return slices.ContainsFunc(list, func(rule string) bool {
		family, ok := strings.CutSuffix(rule, "/...")
		return pkg == rule || ok && (pkg == family || strings.HasPrefix(pkg, family+"/"))
	})
}

// within reports whether a package below rule imports one of the same family.
func within(rule, from, to string) bool {
	return from != rule && (to == rule || strings.HasPrefix(to, rule+"/"))
}

func TestPurePackages(t *testing.T) {
	for _, s := range code(tree(t)) {
		for _, path := range imports(s) {
			if slices.Contains(pure, s.pkg) && (slices.Contains(world, path) || strings.HasPrefix(path, "net/")) {
				t.Errorf("%s imports %s: %s is pure", s.path, path, s.pkg)
			}
		}
	}
}

func TestFences(t *testing.T) {
	for _, s := range code(tree(t)) {
		for _, path := range imports(s) {
			for _, f := range fences {
				if strings.HasPrefix(path, f.module) && !slices.Contains(f.in, s.pkg) {
					t.Errorf("%s imports %s: %s", s.path, path, f.why)
				}
			}
		}
	}
}
