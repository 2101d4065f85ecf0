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

// client asks a running service.
type client struct {
	base  string // as it was given
	root  string // what paths are added to
	token string
	http  http.Client

	certificateWanted atomic.Bool // by the service, in a handshake
}

func (c *client) close() { c.http.CloseIdleConnections() }

// send asks one question and returns the answer's status and text. A body of nil is none.
func (c *client) send(ctx context.Context, method, path string, body any) (int, []byte, error) {
	return c.sendUpTo(ctx, 1<<20, method, path, body)
}

// sendUpTo is send for an answer of at most so many bytes.
func (c *client) sendUpTo(ctx context.Context, most int64, method, path string, body any) (int, []byte, error) {
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
	answer, err := c.http.Do(r)
	if err != nil {
		return 0, nil, c.failed(err)
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(io.LimitReader(answer.Body, most))
	return answer.StatusCode, text, err
}

// problem is an error of the service.
func (c *client) problem(status int, text []byte) error {
	if detail := problemOf(text).String(); detail != "" {
		return fmt.Errorf("%s: %s", c.base, detail)
	}
	if status == http.StatusBadRequest && bytes.Contains(text, []byte("HTTPS server")) { // as net/http answers without TLS
		return fmt.Errorf("--server: %s wants TLS: ask https%s", c.base, strings.TrimPrefix(c.base, "http"))
	}
	return fmt.Errorf("%s: answered %d %s", c.base, status, http.StatusText(status))
}

func (c *client) ask(ctx context.Context, verb, policy, key string, cost int64) (answer, error) {
	status, text, err := c.send(ctx, http.MethodPost, "/v1/"+verb, question(policy, key, &cost))
	if err != nil {
		return answer{}, err
	}
	if status != http.StatusOK && status != http.StatusTooManyRequests {
		err := c.problem(status, text)
		if status == http.StatusNotFound && problemOf(text) == (problem{}) {
			err = fmt.Errorf("%w%s", err, proxyHint(verb))
		}
		return answer{}, err
	}
	a := answer{text: string(text)}
	if err := json.Unmarshal(text, &a); err != nil {
		return answer{}, fmt.Errorf("%s: this is not an answer of a Slidegate service: %w%s", c.base, err, proxyHint(verb))
	}
	return a, nil
}

// proxyHint says what to ask instead where an application may have answered.
func proxyHint(verb string) string {
	if verb != "peek" {
		return ""
	}
	return "; if this is a slidegate proxy, ask its admin door: --server " + adminURL
}

func (c *client) reset(ctx context.Context, policy, key string) error {
	status, text, err := c.send(ctx, http.MethodPost, "/v1/reset", question(policy, key, nil))
	if err == nil && status >= 300 {
		err = c.adminProblem(status, text)
	}
	return err
}

// problem is what a service says that has no answer, in the form of RFC 9457.
type problem struct{ Detail, Field string }

// problemOf reads a problem; it is empty if the text is none.
func problemOf(text []byte) (p problem) {
	_ = json.Unmarshal(text, &p)
	return p
}

// String returns what is wrong, and with which field.
func (p problem) String() string {
	if p.Field != "" {
		return p.Field + ": " + p.Detail
	}
	return p.Detail
}

// adminProblem is problem for what only the admin door answers.
func (c *client) adminProblem(status int, text []byte) error {
	if status == http.StatusNotFound && problemOf(text).Field == "" { // no field is missing, so the path is
		return fmt.Errorf("--server: %s is not the admin door of a service, which alone answers this; by default that is %s", c.base, adminURL)
	}
	return c.problem(status, text)
}

// The doors of a service that runs with no flags.
const (
	publicURL = "http://127.0.0.1:8080"
	adminURL  = "http://127.0.0.1:8082"
)

// question is what the service reads.
func question(policy, key string, cost *int64) map[string]any {
	q := map[string]any{"key": key}
	if policy != "" {
		q["policy"] = policy
	}
	if cost != nil {
		q["cost"] = *cost
	}
	return q
}
