package queue

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"oneslot/queue/address"
	"oneslot/queue/codec"
	"oneslot/queue/eta"
	"oneslot/queue/line"

	"github.com/redis/go-redis/v9"
)

// These tests run the line on every kind of Redis that it may live in, and take
// servers away from it. After each fault holds: no slot had two at once (the engine
// of the tests sees to it), every job ended once, and the order is the policy's.

// thorough reports whether the faults that take their time are tried too: FAULTS is
// "all", as in make test.
func thorough(t *testing.T) bool {
	all := os.Getenv("FAULTS") == "all"
	if !all {
		t.Log("only with FAULTS=all, as in make test")
	}
	return all
}

// crew are two processes that share a line: one job runs, and some wait at both.
type crew struct {
	t       *testing.T
	a, b    *bundle
	engine  *engine
	running *call
	calls   []*call
}

// steady are times that outlive a failover, however slow the machine.
func steady() Config {
	cfg := brisk("spark")
	cfg.Lease = 15 * time.Second
	return cfg
}

// newCrew starts a crew whose processes reach Redis at these addresses.
func newCrew(t *testing.T, cfg Config, addresses ...string) *crew {
	t.Helper()
	c := &crew{t: t, engine: newEngine(t)}
	for _, b := range []**bundle{&c.a, &c.b} {
		store, err := NewRedis(clientOf(t, addresses...), cfg)
		if err != nil {
			t.Fatal(err)
		}
		*b = newBundle(t, store, c.engine, cfg)
	}
	c.running = c.a.busy(0)
	for n := 1; n <= 6; n++ {
		c.calls = append(c.calls, []*bundle{c.a, c.b}[n%2].job(n))
		soon(t, "in line", func() bool {
			s, err := c.a.queue.Snapshot(t.Context())
			return err == nil && len(s.Waiting) == n
		})
	}
	return c
}

func clientOf(t *testing.T, addresses ...string) redis.UniversalClient {
	t.Helper()
	options, err := address.Parse(addresses...)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewUniversalClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// back waits until both processes see the whole line again, and returns how long
// that took from the fault on.
func (c *crew) back(fault time.Time) time.Duration {
	c.t.Helper()
	soon(c.t, "all are back", func() bool {
		for _, b := range []*bundle{c.a, c.b} {
			s, err := b.queue.Snapshot(c.t.Context())
			if err != nil || len(s.Waiting) != len(c.calls) || s.Slots[0].ID != id(0) || s.Slots[0].State != line.Busy {
				return false
			}
		}
		return true
	})
	return time.Since(fault)
}

// finish serves all, checks what holds after each fault, and returns how long the
// slot was unused after the first job.
func (c *crew) finish() time.Duration {
	c.t.Helper()
	if c.running.returned() {
		c.t.Fatal("the running job was lost:", c.running.err)
	}
	freed := time.Now()
	c.running.end(nil)
	c.calls[0].begun(c.t)
	idle := time.Since(freed)
	want := []string{id(0)}
	for _, one := range c.calls {
		one.begun(c.t)
		one.end(nil)
		if err := one.result(); err != nil {
			c.t.Errorf("job %s: %v", one.id, err)
		}
		want = append(want, one.id)
	}
	if got := c.engine.order(); !slices.Equal(got, want) {
		c.t.Errorf("served %v", got)
	}
	c.a.close()
	c.b.close()
	return idle
}

// launched starts a server with flags.
func launched(t *testing.T, flags ...string) *redisServer {
	t.Helper()
	s := &redisServer{flags: flags, dir: t.TempDir()}
	s.launch(t)
	return s
}

// TestSentinel: the master is killed; its sentinels make a replica the master.
func TestSentinel(t *testing.T) {
	t.Parallel()
	if !thorough(t) {
		return
	}
	master := launched(t)
	_, port, _ := net.SplitHostPort(master.addr)
	for range 2 {
		launched(t, "--replicaof", "127.0.0.1 "+port, "--repl-diskless-sync-delay", "0")
	}
	var sentinels []string
	for i := range 3 {
		file := filepath.Join(t.TempDir(), "sentinel.conf")
		text := fmt.Sprintf("sentinel monitor line 127.0.0.1 %s 2\nsentinel down-after-milliseconds line 500\nsentinel failover-timeout line 3000\n", port)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := &redisServer{conf: file, flags: []string{"--sentinel"}}
		s.launch(t)
		sentinels = append(sentinels, "redis://"+s.addr)
		if i == 0 {
			sentinels[0] += "?sentinel=line"
		}
	}
	watch := func(n int, of string) bool {
		o, err := address.Parse(sentinels[n])
		if err != nil {
			t.Fatal(err)
		}
		s := redis.NewSentinelClient(&redis.Options{Addr: o.Addrs[0]})
		defer func() { _ = s.Close() }()
		info, err := s.Master(t.Context(), "line").Result()
		return err == nil && info["num-slaves"] == "2" && info["num-other-sentinels"] == "2" && strings.Contains(info["flags"], of)
	}
	soon(t, "the sentinels know all", func() bool { return watch(0, "master") && watch(1, "master") && watch(2, "master") })
	c := newCrew(t, steady(), sentinels...)
	soon(t, "the replicas have it all", func() bool {
		n, err := master.client(t).Do(t.Context(), "WAIT", 2, 100).Int()
		return err == nil && n == 2
	})
	killed := time.Now()
	master.stop()
	back := c.back(killed)
	idle := c.finish()
	t.Logf("failover: the line was back after %v, the slot then handed on within %v", back, idle)
}

// newCluster starts n masters and gives each its part of the hash slots.
func newCluster(t *testing.T, n int) []*redisServer {
	t.Helper()
	var nodes []*redisServer
	for i := range n {
		s := launched(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no",
			"--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0")
		client := s.client(t)
		if err := client.ClusterAddSlotsRange(t.Context(), 16384*i/n, 16384*(i+1)/n-1).Err(); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			s.meet(t, nodes[0])
		}
		nodes = append(nodes, s)
	}
	for _, s := range nodes {
		s.agrees(t, n)
	}
	return nodes
}

func (s *redisServer) meet(t *testing.T, other *redisServer) {
	t.Helper()
	host, port, _ := net.SplitHostPort(other.addr)
	if err := s.client(t).ClusterMeet(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
}

// agrees waits until the node sees a whole cluster of so many nodes.
func (s *redisServer) agrees(t *testing.T, n int) {
	t.Helper()
	client := s.client(t)
	soon(t, "the cluster is well", func() bool {
		info, err := client.ClusterInfo(t.Context()).Result()
		return err == nil && strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_slots_ok:16384") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", n))
	})
}

// TestClusterLosesNodes: three masters, of which first one without the line is
// lost, and then the one with it, whose replica takes over.
func TestClusterLosesNodes(t *testing.T) {
	t.Parallel()
	if !thorough(t) {
		return
	}
	nodes := newCluster(t, 3)
	slot, err := nodes[0].client(t).ClusterKeySlot(t.Context(), codec.Keys{Name: "default"}.Of("books")).Result()
	if err != nil {
		t.Fatal(err)
	}
	home := int(slot) * 3 / 16384
	replica := launched(t, nodes[0].flags...)
	replica.meet(t, nodes[home])
	replica.agrees(t, 4)
	master, err := nodes[home].client(t).Do(t.Context(), "CLUSTER", "MYID").Text()
	if err != nil {
		t.Fatal(err)
	}
	soon(t, "the replica follows", func() bool { return replica.client(t).ClusterReplicate(t.Context(), master).Err() == nil })
	var addresses []string
	for _, s := range append(nodes, replica) {
		addresses = append(addresses, "redis://"+s.addr)
	}
	c := newCrew(t, steady(), addresses...)
	soon(t, "the replica has it all", func() bool {
		n, err := nodes[home].client(t).Do(t.Context(), "WAIT", 1, 100).Int()
		return err == nil && n == 1
	})
	// Two masters of three have to agree on the failover, so the one without the line
	// comes back in between.
	other := nodes[(home+1)%3]
	killed := time.Now()
	other.stop()
	t.Logf("a node without the line lost: back after %v", c.back(killed))
	if !other.start(t) {
		t.Fatal("the node does not start again")
	}
	other.agrees(t, 4)
	for _, s := range nodes {
		s.agrees(t, 4)
	}
	killed = time.Now()
	nodes[home].stop()
	back := c.back(killed)
	idle := c.finish()
	t.Logf("the node with the line lost: back after %v, the slot then handed on within %v", back, idle)
}

// TestClusterHome: all keys of a line are on one node, those of another line may be
// on another.
func TestClusterHome(t *testing.T) {
	t.Parallel()
	if !thorough(t) {
		return
	}
	nodes := newCluster(t, 3)
	var addresses []string
	for _, s := range nodes {
		addresses = append(addresses, "redis://"+s.addr)
	}
	homes := map[int]bool{}
	for n := range 8 {
		cfg := brisk("spark")
		cfg.Name = fmt.Sprint("line", n)
		store, err := NewRedis(clientOf(t, addresses...), cfg)
		if err != nil {
			t.Fatal(err)
		}
		b := newBundle(t, store, newEngine(t), cfg)
		b.busy(0).end(nil)
		b.close()
		at := -1
		for i, s := range nodes {
			if found, err := s.client(t).Keys(t.Context(), "oneslot:{"+cfg.Name+"}:*").Result(); err != nil || len(found) > 0 && at >= 0 {
				t.Errorf("%s is on two nodes: %v, %v", cfg.Name, found, err)
			} else if len(found) > 0 {
				at = i
			}
		}
		homes[at] = true
	}
	if len(homes) < 2 || homes[-1] {
		t.Errorf("eight lines live on the nodes %v", homes)
	}
}

// TestRedisRestartWithData: Redis is killed, and comes back with all it had
// promised to keep.
func TestRedisRestartWithData(t *testing.T) {
	t.Parallel()
	server := launched(t, "--appendonly", "yes", "--appendfsync", "always")
	c := newCrew(t, steady(), "redis://"+server.addr)
	epoch := c.a.queue.caller().Epoch
	killed := time.Now()
	server.stop()
	if !server.start(t) {
		t.Fatal("redis-server does not start again")
	}
	back := c.back(killed)
	if c.a.queue.caller().Epoch != epoch {
		t.Error("the data were lost")
	}
	t.Logf("with its data: back after %v, the slot then handed on within %v", back, c.finish())
}

// TestLostPublish (B084): the connections that carry messages break at the moment
// of the release; who is next is served by the poll.
func TestLostPublish(t *testing.T) {
	t.Parallel()
	server, e := startRedis(t), newEngine(t)
	a, b := server.bundle(t, e, brisk("spark")), server.bundle(t, e, brisk("spark"))
	admin := server.client(t)
	var worst time.Duration
	for n := range 5 {
		first := a.busy(2 * n)
		second := b.job(2*n + 1)
		soon(t, "in line", func() bool { return len(a.snapshot().Waiting) == 1 })
		if err := admin.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err(); err != nil {
			t.Fatal(err)
		}
		freed := time.Now()
		first.end(nil)
		second.begun(t)
		worst = max(worst, time.Since(freed))
		second.end(nil)
		want(t, second.result())
	}
	if worst > brisk().Poll+2*time.Second { // a busy machine may need more than the poll
		t.Errorf("found after %v", worst)
	}
	t.Logf("message lost: served within %v, polling every %v", worst, brisk().Poll)
	a.close()
	b.close()
}

// TestValkey: the scripts and the client do on Valkey what they do on Redis.
func TestValkey(t *testing.T) {
	t.Parallel()
	binary, err := exec.LookPath("valkey-server")
	if err != nil {
		binary = "../.cache/bin/valkey-server"
	}
	if _, err := os.Stat(binary); err != nil {
		t.Fatal(`valkey-server is missing: run "make deps"`)
	}
	server := &redisServer{binary: binary}
	server.launch(t)
	info, err := server.client(t).Info(t.Context(), "server").Result()
	if err != nil || !strings.Contains(info, "valkey_version") {
		t.Fatalf("this is no Valkey: %v %.200s", err, info)
	}
	for seed := range 30 {
		cfg := randomConfig(seed)
		store, err := newRedisStore(server.client(t), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if diff := diverge(store, cfg, seed); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
	}
	newCrew(t, brisk("spark"), "redis://"+server.addr).finish()
}

// certificates writes a private authority and certificates of it for 127.0.0.1.
func certificates(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "private authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "redis"}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte, err error) {
		t.Helper()
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &signer.PublicKey, signer)
	write("ca.pem", "CERTIFICATE", der, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err = x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, signer)
	write("cert.pem", "CERTIFICATE", der, err)
	der, err = x509.MarshalECPrivateKey(key)
	write("key.pem", "EC PRIVATE KEY", der, err)
	return dir
}

// TestTLSAndUsers: over TLS with a private authority, certificates on both sides,
// and a user that may touch the keys of oneslot only.
func TestTLSAndUsers(t *testing.T) {
	t.Parallel()
	dir := certificates(t)
	file := func(name string) string { return filepath.Join(dir, name) }
	trust := "?ca=" + file("ca.pem") + "&cert=" + file("cert.pem") + "&key=" + file("key.pem")
	server := &redisServer{
		flags: []string{
			"--port", "0", "--tls-port", "PORT", "--tls-cert-file", file("cert.pem"), "--tls-key-file", file("key.pem"), "--tls-ca-cert-file", file("ca.pem"),
			"--requirepass", "root", "--user", "proxy", "on", ">secret", "~oneslot:*", "&oneslot:*", "-@all", "+@scripting", "+@hash", "+@sortedset", "+@list", "+@pubsub", "+@connection", "+time",
		},
		url: func(addr string) string { return "rediss://:root@" + addr + trust },
	}
	server.launch(t)
	newCrew(t, brisk("spark"), "rediss://proxy:secret@"+server.addr+trust).finish()
	store, err := newRedisStore(clientOf(t, "rediss://proxy:secret@"+server.addr+trust), brisk("spark"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.times(t.Context(), []eta.Sample{{Slot: 1}}); err != nil {
		t.Error("slot times cannot be shared:", err)
	}
	for _, script := range []string{"claim_take", "claim_drop"} {
		if _, err := store.run(t.Context(), line.Caller{Owner: "a"}, script, "name", id(1), "body", 1); err != nil {
			t.Error(err)
		}
	}
	for name, c := range map[string]struct{ url, says string }{
		"wrong password":    {"rediss://proxy:wrong@" + server.addr + trust, "WRONGPASS"},
		"no password":       {"rediss://" + server.addr + trust, "unauthenticated"},
		"strange authority": {"rediss://proxy:secret@" + server.addr + "?cert=" + file("cert.pem") + "&key=" + file("key.pem"), "unknown authority"},
		"no certificate":    {"rediss://proxy:secret@" + server.addr + "?ca=" + file("ca.pem"), "certificate required"},
		"no TLS":            {"redis://proxy:secret@" + server.addr, ""},
	} {
		store, err := NewRedis(clientOf(t, c.url), brisk("spark"))
		if err != nil {
			t.Fatal(err)
		}
		b := newBundle(t, store, newEngine(t), brisk("spark"))
		err = b.job(1).result()
		if want(t, err, ErrStoreDown); err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if err := b.queue.Close(t.Context()); !errors.Is(err, ErrStoreDown) {
			t.Errorf("%s: close: %v", name, err)
		}
	}
	for _, c := range []struct{ url, says string }{
		{"redis://a?ca=" + file("ca.pem"), "rediss://"},
		{"rediss://a?ca=" + file("nothing.pem"), "no such file"},
		{"rediss://a?ca=" + file("key.pem"), "no certificate"},
		{"rediss://a?cert=" + file("cert.pem"), "cert and key"},
	} {
		if _, err := address.Parse(c.url); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.url, err, c.says)
		}
	}
}
