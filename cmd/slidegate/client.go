package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
)

// client sends requests to a running service.
type client struct {
	base  string // as given by the user
	root  string // prefix of all paths
	token string
	http  http.Client

	certificateRequested atomic.Bool // the service requested a client certificate in a handshake
}

func (c *client) close() { c.http.CloseIdleConnections() }

// send sends one request and returns the status and the body of the response. A nil body sends none.
func (c *client) send(ctx context.Context, method, path string, body any) (int, []byte, error) {
	return c.sendUpTo(ctx, 1<<20, method, path, body)
}

// sendUpTo is like send, but reads at most maxBytes of the response.
func (c *client) sendUpTo(ctx context.Context, maxBytes int64, method, path string, body any) (int, []byte, error) {
	var text []byte
	var err error
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return 0, nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, c.root+path, bytes.NewReader(text))
	if err != nil {
		return 0, nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(r)
	if err != nil {
		return 0, nil, c.requestError(err)
	}
	defer response.Body.Close()
	text, err = io.ReadAll(io.LimitReader(response.Body, maxBytes))
	return response.StatusCode, text, err
}

// problem returns the error that a response of the service describes.
func (c *client) problem(status int, text []byte) error {
	if detail := parseProblem(text).String(); detail != "" {
		return fmt.Errorf("%s: %s", c.base, detail)
	}
	if status == http.StatusBadRequest && bytes.Contains(text, []byte("HTTPS server")) { // the response of net/http to a request without TLS
		return fmt.Errorf("--server: %s requires TLS; use https%s", c.base, strings.TrimPrefix(c.base, "http"))
	}
	return fmt.Errorf("%s: unexpected response: %d %s", c.base, status, http.StatusText(status))
}

func (c *client) decide(ctx context.Context, verb, policy, key string, cost int64) (decision, error) {
	status, text, err := c.send(ctx, http.MethodPost, "/v1/"+verb, requestBody(policy, key, &cost))
	if err != nil {
		return decision{}, err
	}
	if status != http.StatusOK && status != http.StatusTooManyRequests {
		err := c.problem(status, text)
		if status == http.StatusNotFound && parseProblem(text) == (problem{}) {
			err = fmt.Errorf("%w%s", err, proxyHint(verb))
		}
		return decision{}, err
	}
	a := decision{text: string(text)}
	if err := json.Unmarshal(text, &a); err != nil {
		return decision{}, fmt.Errorf("%s: the response is not from a Slidegate service: %w%s", c.base, err, proxyHint(verb))
	}
	return a, nil
}

// proxyHint names the admin listener, for a response that may be from the application behind a proxy.
func proxyHint(verb string) string {
	if verb != "peek" {
		return ""
	}
	return "; if this is a slidegate proxy, use its admin listener: --server " + adminURL
}

func (c *client) reset(ctx context.Context, policy, key string) error {
	status, text, err := c.send(ctx, http.MethodPost, "/v1/reset", requestBody(policy, key, nil))
	if err == nil && status >= 300 {
		err = c.adminProblem(status, text)
	}
	return err
}

// problem is an error response of the service, in the form of RFC 9457.
type problem struct{ Detail, Field string }

// parseProblem parses a problem; the result is empty if the text is not a problem.
func parseProblem(text []byte) (p problem) {
	_ = json.Unmarshal(text, &p)
	return p
}

// String returns the detail, after the field that is wrong, if any.
func (p problem) String() string {
	if p.Field != "" {
		return p.Field + ": " + p.Detail
	}
	return p.Detail
}

// adminProblem is like the method problem, for requests that only the admin listener serves.
func (c *client) adminProblem(status int, text []byte) error {
	if status == http.StatusNotFound && parseProblem(text).Field == "" { // a 404 that names no field is about the path
		return fmt.Errorf("--server: %s is not the admin listener of a service; use its address, which is %s by default", c.base, adminURL)
	}
	return c.problem(status, text)
}

// Default listeners of a service.
const (
	publicURL = "http://127.0.0.1:8080"
	adminURL  = "http://127.0.0.1:8082"
)

// requestBody returns the body of a request. A nil cost is left out.
func requestBody(policy, key string, cost *int64) map[string]any {
	q := map[string]any{"key": key}
	if policy != "" {
		q["policy"] = policy
	}
	if cost != nil {
		q["cost"] = *cost
	}
	return q
}
