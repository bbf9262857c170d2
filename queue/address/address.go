package address

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"oneslot/internal/socket"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Parse makes the options of a Redis client from addresses as they stand in the
// configuration: redis://user:password@host:port/db or rediss:// for TLS. Several,
// as a list or separated by commas, are the nodes of a cluster, or with the query
// parameter sentinel=NAME the sentinels that watch the master NAME; cluster=true
// makes a cluster of one address. The sentinels' own user and password are
// sentinel_username and sentinel_password.
//
// Over TLS, ca=FILE names the certificates to trust in place of the system's, and
// cert=FILE with key=FILE the client's own, all in PEM; skip_verify=true trusts
// anybody. User, password, database, TLS and other parameters are those of the
// first address. Errors do not show the addresses, which may hold a password.
func Parse(addresses ...string) (*redis.UniversalOptions, error) {
	all := &redis.UniversalOptions{}
	for i, address := range strings.Split(strings.Join(addresses, ","), ",") {
		u, err := url.Parse(strings.TrimSpace(address))
		if err != nil || u.Host == "" || (u.Scheme != "redis" && u.Scheme != "rediss") {
			return nil, fmt.Errorf("queue: Redis address %d is not of the form redis://[user:password@]host[:port][/db] or rediss://…", i+1)
		}
		own := take(u, "sentinel", "sentinel_username", "sentinel_password", "cluster", "ca", "cert", "key")
		one, err := redis.ParseURL(u.String())
		if err == nil {
			err = trust(one.TLSConfig, own)
		}
		if err != nil {
			return nil, fmt.Errorf("queue: Redis address %d: %w", i+1, err)
		}
		if i == 0 {
			all = first(one)
			all.MasterName, all.SentinelUsername, all.SentinelPassword = own["sentinel"], own["sentinel_username"], own["sentinel_password"]
			all.IsClusterMode, _ = strconv.ParseBool(own["cluster"])
		}
		all.Addrs = append(all.Addrs, one.Addr)
	}
	return all, nil
}

// take removes parameters from the query of u and returns them.
func take(u *url.URL, names ...string) map[string]string {
	query, taken := u.Query(), map[string]string{}
	for _, name := range names {
		taken[name] = query.Get(name)
		query.Del(name)
	}
	u.RawQuery = query.Encode()
	return taken
}

// trust adds the certificates that an address names to its TLS settings, which are
// nil for redis://.
func trust(cfg *tls.Config, files map[string]string) error {
	ca, cert, key := files["ca"], files["cert"], files["key"]
	if ca+cert+key != "" && cfg == nil {
		return errors.New("ca, cert and key are for TLS: begin the address with rediss://")
	}
	if cfg != nil {
		cfg.ServerName = "" // each node is known by its own
	}
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return fmt.Errorf("ca: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("ca: %s holds no certificate in PEM", ca)
		}
	}
	if cert == "" && key == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("cert and key: %w", err)
	}
	cfg.Certificates = []tls.Certificate{pair}
	return nil
}

// first is the options of all addresses, taken from the first one. Calls are
// short and repeated by the queue itself, so the client is to fail soon.
func first(one *redis.Options) *redis.UniversalOptions {
	all := &redis.UniversalOptions{
		Username: one.Username, Password: one.Password, DB: one.DB, TLSConfig: one.TLSConfig,
		Protocol: one.Protocol, ClientName: one.ClientName,
		PoolSize: one.PoolSize, MinIdleConns: one.MinIdleConns, MaxActiveConns: one.MaxActiveConns,
		PoolTimeout: one.PoolTimeout, ConnMaxIdleTime: one.ConnMaxIdleTime, ConnMaxLifetime: one.ConnMaxLifetime,
		DialTimeout: one.DialTimeout, ReadTimeout: one.ReadTimeout, WriteTimeout: one.WriteTimeout,
		MaxRetries:               one.MaxRetries,
		ContextTimeoutEnabled:    true,
		DialerRetries:            1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	all.DialTimeout = cmp.Or(all.DialTimeout, time.Second)
	all.ReadTimeout = cmp.Or(all.ReadTimeout, 2*time.Second)
	all.WriteTimeout = cmp.Or(all.WriteTimeout, 2*time.Second)
	all.MaxRetries = cmp.Or(all.MaxRetries, 1)
	if all.TLSConfig == nil { // as the library's own dialer, but that the connection is a calm one
		all.Dialer = socket.Dialer(&net.Dialer{Timeout: all.DialTimeout, KeepAlive: 5 * time.Minute})
	}
	return all
}

// Exposed lists the servers that other machines can reach although o has no
// password: all but loopback addresses. With them, anybody near may cancel jobs.
func Exposed(o *redis.UniversalOptions) []string {
	if o.Password != "" || o.CredentialsProvider != nil {
		return nil
	}
	var open []string
	for _, address := range o.Addrs {
		host, _, err := net.SplitHostPort(address)
		ip := net.ParseIP(host)
		local := strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") || ip != nil && ip.IsLoopback()
		if err != nil || !local {
			open = append(open, address)
		}
	}
	return open
}
