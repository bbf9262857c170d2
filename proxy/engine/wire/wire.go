package wire

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// Config says where the server is.
type Config struct {
	// Base is its URL, http or https; its path goes before that of a request. A user
	// and password are sent as basic authentication.
	Base *url.URL
	// Dial makes the connections. It is required.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Idle is how long a connection is kept for the next request. Zero means that none
	// is.
	Idle time.Duration
	// Handshake bounds that of TLS. Zero means 10 s.
	Handshake time.Duration
	// TLS is how certificates are checked. Zero means as usual.
	TLS *tls.Config
}

// most is how many connections are kept.
const most = 4

// A Client sends requests to one server. Create it with New.
type Client struct {
	cfg     Config
	address string
	host    string
	path    string
	login   string

	mu    sync.Mutex // guards what follows
	idle  []*conn    // the one used last at the end
	sweep *time.Timer
}

// New returns a Client. It does not connect yet.
func New(cfg Config) *Client {
	if cfg.Handshake == 0 {
		cfg.Handshake = 10 * time.Second
	}
	u := cfg.Base
	port := u.Port()
	if port == "" {
		port = u.Scheme // its name is that of the port
	}
	c := &Client{cfg: cfg, address: net.JoinHostPort(u.Hostname(), port), host: u.Host, path: u.EscapedPath()}
	if u.User != nil {
		password, _ := u.User.Password()
		c.login = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
	}
	return c
}

// Do sends a request and returns the response when its header is there.
func (c *Client) Do(ctx context.Context, r *Request) (*http.Response, error) {
	for {
		conn, sent := r.goOn()
		if conn == nil {
			var err error
			if conn, err = c.take(ctx); err != nil {
				if ctx.Err() != nil {
					return nil, context.Cause(ctx)
				}
				return nil, err
			}
			sent = conn.send(c.head(conn, r), r.Body)
		}
		resp, err := c.exchange(ctx, conn, r, sent)
		if err == nil {
			return resp, nil
		}
		_ = conn.Close()
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case conn.kept && (errors.Is(err, errUnsent) || r.Again && errors.Is(err, errUnanswered)):
		default:
			return nil, fmt.Errorf("%s %s: %w", r.Method, r.Path, err)
		}
	}
}

// exchange waits for the response to a request that is on its way. The end of the
// context closes the connection.
func (c *Client) exchange(ctx context.Context, conn *conn, r *Request, sent <-chan error) (*http.Response, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	resp, err := conn.receive(r, sent)
	if err != nil {
		stop()
		return nil, err
	}
	resp.Body = &body{ReadCloser: resp.Body, ctx: ctx, client: c, conn: conn, sent: sent, stop: stop, keep: !r.Last && !resp.Close}
	return resp, nil
}

// take returns a connection that was kept, else a new one.
func (c *Client) take(ctx context.Context) (*conn, error) {
	if conn := c.kept(); conn != nil {
		return conn, nil
	}
	return c.open(ctx)
}

// open makes a connection.
func (c *Client) open(ctx context.Context) (*conn, error) {
	raw, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	if c.cfg.Base.Scheme != "https" {
		return newConn(raw), nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.cfg.TLS != nil {
		cfg = c.cfg.TLS.Clone()
	}
	if cfg.ServerName == "" {
		cfg.ServerName = c.cfg.Base.Hostname()
	}
	secure := tls.Client(raw, cfg)
	bounded, cancel := context.WithTimeout(ctx, c.cfg.Handshake)
	defer cancel()
	if err := secure.HandshakeContext(bounded); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return newConn(secure), nil
}

// dial calls Config.Dial and waits no longer than ctx, whatever the dialer does.
func (c *Client) dial(ctx context.Context) (raw net.Conn, err error) {
	made := make(chan struct{})
	var late atomic.Bool
	go func() {
		conn, fault := c.cfg.Dial(ctx, "tcp", c.address)
		if late.Swap(true) {
			if conn != nil {
				_ = conn.Close()
			}
			return
		}
		raw, err = conn, fault
		close(made)
	}()
	select {
	case <-made:
	case <-ctx.Done():
		if !late.Swap(true) {
			return nil, context.Cause(ctx)
		}
		<-made
	}
	return raw, err
}

// Close closes the connections that are kept. The Client can still be used.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.idle {
		conn.cut()
	}
	c.idle = nil
	if c.sweep != nil {
		c.sweep.Stop()
	}
}
