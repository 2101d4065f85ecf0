package service_test

import (
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
)

// TestPage serves the operators' page to browsers and text to other programs, without a token, and what it shows only with one.
func TestPage(t *testing.T) {
	s := start(t, "policies:\n  api:\n    limits: [5/1m]\n", func(o *service.Options) {
		o.AdminTokens = []string{"ann:operator:" + adminToken, "bob:viewer:viewer-" + adminToken}
	})
	for accept, want := range map[string]string{
		"text/html,application/xhtml+xml,*/*;q=0.8": "<!doctype html>", "*/*": "This is the admin listener", "": "This is the admin listener",
		"text/html;q=0, text/plain": "This is the admin listener",
	} {
		got := s.send(t, "admin", "GET", "/", "", "Accept", accept)
		if got.status != 200 || !strings.HasPrefix(got.body, want) || got.header.Get("Vary") != "Accept" {
			t.Errorf("with Accept %q the admin listener responds with %d and %.40q, want %q", accept, got.status, got.body, want)
		}
	}
	for path, kind := range map[string]string{"/page/page.js": "text/javascript; charset=utf-8", "/page/page.css": "text/css; charset=utf-8"} {
		got := s.send(t, "admin", "GET", path, "")
		if got.status != 200 || got.header.Get("Content-Type") != kind {
			t.Errorf("%s: got %d and %s, want %s", path, got.status, got.header.Get("Content-Type"), kind)
		}
		if again := s.send(t, "admin", "GET", path, "", "If-None-Match", got.header.Get("ETag")); again.status != 304 || again.body != "" {
			t.Errorf("%s: got %d for a copy that is current, want 304", path, again.status)
		}
		if got := s.send(t, "http", "GET", path, ""); got.status != 404 {
			t.Errorf("%s: the clients' listener responds with %d, want 404", path, got.status)
		}
	}
	for token, want := range map[string]string{
		adminToken: `{"name":"ann","role":"operator"}`, "viewer-" + adminToken: `{"name":"bob","role":"viewer"}`, "another-token-of-nobody": "the token is not valid here; an admin token is required",
		"": "an admin token is required: send", "bob:viewer:viewer-" + adminToken: "send only the token, which follows the second colon",
	} {
		if got := s.send(t, "admin", "GET", "/v1/whoami", "", "Authorization", "Bearer "+token); !strings.Contains(got.body, want) {
			t.Errorf("with the token %s, whoami responds with %d and %s, want %s", token, got.status, got.body, want)
		}
	}
}

// TestWhoamiWithoutTokens says operator where no token is required, since everybody may do everything.
func TestWhoamiWithoutTokens(t *testing.T) {
	s := start(t, "policies:\n  api:\n    limits: [5/1m]\n", nil)
	if got, want := s.send(t, "admin", "GET", "/v1/whoami", "").body, `{"name":"","role":"operator"}`; strings.TrimSpace(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestResetHasAReason finds the reason of a reset in the log of rulings.
func TestResetHasAReason(t *testing.T) {
	s := start(t, "policies:\n  api:\n    limits: [5/1m]\n", nil)
	if got := s.send(t, "admin", "POST", "/v1/reset", `{"policy":"api","key":"me","why":"support case 4711","who":"eve"}`); got.status != 204 {
		t.Fatalf("got %d and %s, want 204", got.status, got.body)
	}
	if got := s.send(t, "admin", "GET", "/v1/rulings/log", "").body; !strings.Contains(got, `"kind":"reset"`) || !strings.Contains(got, `"who":"eve (not verified)","why":"support case 4711"`) {
		t.Errorf("the log is %s, want the reset, who made it and its reason", got)
	}
}
