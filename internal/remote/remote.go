package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config says where the proxy is.
type Config struct {
	// URL is the proxy's base URL, with or without /v1.
	URL string
	// Key is the API key. Zero means that none is sent.
	Key string
	// Patience bounds the wait for the headers of an answer. Zero means 30 s.
	Patience time.Duration
	// Dial opens connections. Zero means TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Causes a caller can test for.
var (
	// ErrAddress is returned by New for a URL that is none.
	ErrAddress = errors.New("no base URL")
	// ErrUnreachable is returned when no proxy answers.
	ErrUnreachable = errors.New("no proxy answers")
)

// A Problem is what the proxy said instead of an answer.
type Problem struct {
	// Status is the HTTP status, 300 to 599.
	Status int
	// Code is the machine-readable reason, empty if there was none.
	Code string
	// Message is for people.
	Message string
}

// Error is the message, and what to do about it where that is known here.
func (p *Problem) Error() string {
	if p.Status == http.StatusUnauthorized {
		return p.Message + " Here: --key KEY, or ONESLOT_API_KEY."
	}
	return p.Message
}

// A Call is one request to the proxy.
type Call struct {
	// Method is the HTTP method. Zero means GET.
	Method string
	// Path begins with a slash, such as /v1/queue.
	Path string
	// Query is put behind it.
	Query url.Values
	// Accept is the media type wanted. Zero means JSON.
	Accept string
}

// A Client talks to one proxy. Create it with New; it is safe for concurrent use.
type Client struct {
	base string
	key  string
	http *http.Client
}

// New returns a Client for the proxy, which is not asked yet.
func New(cfg Config) (*Client, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return nil, fmt.Errorf("%w: write it as http://HOST:PORT, without user and password", ErrAddress)
	}
	if cfg.Patience == 0 {
		cfg.Patience = 30 * time.Second
	}
	path := strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v1")
	return &Client{
		base: u.Scheme + "://" + u.Host + path,
		key:  strings.TrimSpace(cfg.Key),
		http: &http.Client{Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: cfg.Dial, ResponseHeaderTimeout: cfg.Patience, TLSHandshakeTimeout: cfg.Patience,
		}},
	}, nil
}

// Close gives the connections back.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Open sends the call. The response has a status below 300; the caller closes
// its body, which may be read for as long as ctx lasts.
func (c *Client) Open(ctx context.Context, call Call) (*http.Response, error) {
	address := c.base + call.Path
	if len(call.Query) > 0 {
		address += "?" + call.Query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, call.Method, address, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrAddress, address, err)
	}
	req.Header.Set("Accept", "application/json")
	if call.Accept != "" {
		req.Header.Set("Accept", call.Accept)
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		defer resp.Body.Close()
		return nil, problem(resp)
	}
	return resp, nil
}

// JSON sends the call and reads the whole answer into the value.
func (c *Client) JSON(ctx context.Context, call Call, into any) error {
	resp, err := c.Open(ctx, call)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%s%s answered what is no JSON: %w; is it oneslot?", c.base, call.Path, err)
	}
	return nil
}

func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var wrapped *url.Error // repeats the address
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return fmt.Errorf("%w at %s: %w; start one with `oneslot serve`, or name another with --url or ONESLOT_URL", ErrUnreachable, c.base, err)
}

// maxProblem bounds what is read of a refusal, in bytes.
const maxProblem = 64 << 10

// problem reads an error object of the OpenAI shape, or does without.
func problem(resp *http.Response) *Problem {
	var body struct {
		Error struct {
			Message string `json:"message"`
			Code    string `json:"code"`
		} `json:"error"`
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	p := &Problem{Status: resp.StatusCode}
	if err := json.Unmarshal(text, &body); err == nil {
		p.Code, p.Message = body.Error.Code, body.Error.Message
	}
	if p.Message == "" {
		p.Message = "The proxy answered " + resp.Status + "."
	}
	return p
}
