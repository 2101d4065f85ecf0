package service_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/config"
)

const (
	clientToken = "a-client-of-24-characters"
	adminToken  = "an-admin-of-24-characters"
	viewerToken = "a-viewer-of-24-characters"
)

// Each role may do what docs/service.md describes, on every listener, and no more.
func TestRoles(t *testing.T) {
	const reset, refund = `{"key":"me"}`, `{"key":"me","cost":1}`
	requests := []struct{ listener, method, path, body string }{
		{"http", "POST", "/v1/allow", question},
		{"http", "POST", "/v1/refund", refund},
		{"admin", "GET", "/metrics", ""},
		{"admin", "GET", "/v1/seen", ""},
		{"admin", "GET", "/v1/seen", ""},
		{"admin", "POST", "/v1/seen/key", "{}"},
		{"admin", "GET", "/v1/config", ""},
		{"admin", "GET", "/v1/explain?key=me", ""},
		{"admin", "GET", "/v1/state?key=me", ""},
		{"admin", "POST", "/v1/reset", reset},
		{"admin", "POST", "/v1/reload", ""},
		{"admin", "GET", "/readyz", ""},
	}
	admins := []string{"ann:operator:" + adminToken, "sue:viewer:" + viewerToken}
	for _, test := range []struct {
		name            string
		clients, admins []string
		shown           string
		want            []int // by request
	}{
		{"no tokens", nil, nil, "", []int{200, 200, 200, 200, 200, 400, 200, 200, 200, 204, 200, 200}},
		{"one kind: nothing shown", []string{clientToken}, nil, "", []int{401, 401, 401, 401, 401, 401, 401, 401, 401, 401, 401, 200}},
		{"one kind: a client", []string{clientToken}, nil, clientToken, []int{200, 200, 200, 200, 200, 400, 200, 200, 200, 204, 200, 200}},
		{"two kinds: nothing shown", []string{clientToken}, admins, "", []int{401, 401, 401, 401, 401, 401, 401, 401, 401, 401, 401, 200}},
		{"two kinds: a client", []string{clientToken}, admins, clientToken, []int{200, 403, 401, 401, 401, 401, 401, 401, 401, 401, 401, 200}},
		{"two kinds: an operator", []string{clientToken}, admins, adminToken, []int{200, 200, 200, 200, 200, 400, 200, 200, 200, 204, 200, 200}},
		{"two kinds: a viewer", []string{clientToken}, admins, viewerToken, []int{403, 403, 200, 200, 200, 400, 200, 200, 200, 403, 403, 200}},
		{"admins alone: a viewer", nil, admins, viewerToken, []int{200, 403, 200, 200, 200, 400, 200, 200, 200, 403, 403, 200}},
		{"admins alone: nothing shown", nil, admins, "", []int{200, 403, 401, 401, 401, 401, 401, 401, 401, 401, 401, 200}},
		{"admins alone: an operator", nil, admins, adminToken, []int{200, 200, 200, 200, 200, 400, 200, 200, 200, 204, 200, 200}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := start(t, roomy, func(o *service.Options) {
				o.Tokens, o.AdminTokens, o.Envoy = test.clients, test.admins, []string{domainFile(t)}
			})
			var headers []string
			if test.shown != "" {
				headers = []string{"Authorization", "Bearer " + test.shown}
			}
			for i, r := range requests {
				if got := s.send(t, r.listener, r.method, r.path, r.body, headers...); got.status != test.want[i] {
					t.Errorf("%s %s: got %d, want %d: %s", r.method, r.path, got.status, test.want[i], got.body)
				}
			}
			if err := s.callGRPC(t, nil, test.shown); (err == nil) != (test.want[0] == 200) {
				t.Errorf("gRPC: got %v", err)
			}
			s.checkRESP(t, test.shown, test.want[0] == 200, test.want[1] == 200)
		})
	}
}

// checkRESP fails the test unless a client with the token may send requests, and reset, as given.
func (s *started) checkRESP(t *testing.T, token string, mayRequest, mayReset bool) {
	t.Helper()
	commands := "SG.ALLOW default me\nSG.RESET default me\nQUIT"
	if token != "" {
		commands = "AUTH " + token + "\n" + commands
	}
	got := raw(t, s.Address("resp"), testkit.Commands(commands))
	if mayRequest == strings.Contains(got, "NOAUTH") || mayRequest && mayReset == strings.Contains(got, "NOPERM") {
		t.Errorf("RESP: got %q, want requests: %t, resets: %t", got, mayRequest, mayReset)
	}
	if n := strings.Count(got, "NOPERM"); n > 1 {
		t.Errorf("RESP: %d commands are refused: %q", n, got)
	}
}

// Admin tokens are reloaded like client tokens, and the old ones become invalid, on open connections too.
func TestReloadAdminTokens(t *testing.T) {
	const young = "a-new-admin-of-28-characters"
	file := filepath.Join(t.TempDir(), "admins")
	write(t, file, "ann:operator:"+adminToken+"\n")
	s := start(t, roomy, func(o *service.Options) { o.AdminTokensFile = file })
	seen := func(token string) int {
		return s.send(t, "admin", "GET", "/v1/seen", "", "Authorization", "Bearer "+token).status
	}
	if got := seen(adminToken); got != http.StatusOK {
		t.Fatalf("at first: got %d, want 200", got)
	}
	conn := authenticated(t, s, adminToken)
	defer conn.Close()
	write(t, file, "# by name\nann:operator:"+young+"\nsue:viewer:"+viewerToken+"\n")
	testkit.Eventually(t, "the new token is valid", func() bool { return seen(young) == http.StatusOK })
	if got := seen(adminToken); got != http.StatusUnauthorized { // on a connection that was open before
		t.Errorf("the old token: got %d, want 401", got)
	}
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("a RESP client with the old token got %d bytes, want to be disconnected", n)
	}
}

// The owner of a token is who made a change, whatever the request claims, and the log has a hash of the key. Without admin tokens, a claim
// is marked as such.
func TestWhoMadeAChange(t *testing.T) {
	admins := []string{"ann:operator:" + adminToken, "bob:operator:another-" + adminToken, "sue:viewer:" + viewerToken}
	s := start(t, roomy, func(o *service.Options) { o.AdminTokens = admins })
	bearer := func(token string) []string { return []string{"Authorization", "Bearer " + token} }
	const claim = `{"key":"the-victim","kind":"block","who":"ceo@company","why":"on behalf of the ceo"}`
	if got := s.send(t, "admin", "POST", "/v1/rulings", claim, bearer(adminToken)...); got.status != http.StatusOK || !strings.Contains(got.body, `"who":"ann","why":"on behalf of the ceo"`) {
		t.Errorf("got %+v, want a ruling by ann", got)
	}
	got := s.send(t, "admin", "POST", "/v1/rulings", claim, bearer(viewerToken)...)
	if got.status != http.StatusForbidden || !strings.Contains(got.body, "role viewer") || !strings.Contains(got.body, "role operator") {
		t.Errorf("a viewer: got %+v, want 403 with the roles", got)
	}
	if got := s.send(t, "admin", "POST", "/v1/explain/request", `{"url":"/login"}`, bearer(viewerToken)...); got.status != http.StatusOK {
		t.Errorf("a viewer that explains a request: got %+v, want 200", got)
	}
	if got := s.send(t, "admin", "POST", "/v1/peek", `{"key":"the-victim"}`, bearer(viewerToken)...); got.status != http.StatusOK {
		t.Errorf("a viewer peeks: got %+v, want 200", got)
	}
	s.send(t, "admin", "POST", "/v1/rulings/clear", `{"key":"the-victim"}`, bearer("another-"+adminToken)...)
	s.send(t, "admin", "POST", "/v1/reset", `{"key":"the-victim"}`, bearer("another-"+adminToken)...)
	s.send(t, "http", "POST", "/v1/refund", `{"key":"the-victim","cost":3}`, bearer(adminToken)...)
	raw(t, s.Address("resp"), testkit.Commands("AUTH "+adminToken+"\nSG.RESET default the-victim\nQUIT"))
	log := s.send(t, "admin", "GET", "/v1/rulings/log", "", bearer(viewerToken)...)
	var decoded struct {
		Log []struct{ Kind, Key, Who string }
	}
	if err := json.Unmarshal([]byte(log.body), &decoded); err != nil {
		t.Fatalf("%v: %s", err, log.body)
	}
	if got, want := fmt.Sprint(decoded.Log), "[{reset the-victim ann} {reset the-victim bob} {clear the-victim bob} {block the-victim ann}]"; got != want {
		t.Errorf("the log: got %s, want %s", got, want)
	}
	const hash = "key_sha256=d816415628482690" // printf %s the-victim | sha256sum
	for _, want := range []string{"kind=block policy=default " + hash + " who=ann", "msg=\"usage reset\" kind=reset policy=default " + hash + " who=bob",
		"kind=reset policy=default " + hash + " who=ann", "msg=refund policy=default " + hash + " who=ann cost=3"} {
		if !s.Log.Has(want) {
			t.Errorf("the log has no %q:\n%s", want, s.Log)
		}
	}
	if s.Log.Has("the-victim") || s.Log.Has(adminToken) {
		t.Errorf("the log has a key or a token:\n%s", s.Log)
	}
}

// Admin tokens without a name, a role or an operator are rejected, and the error has nothing of them.
func TestRefusesNamelessAdminTokens(t *testing.T) {
	parsed, err := config.Parse("file.yaml", []byte(roomy))
	if err != nil {
		t.Fatal(err)
	}
	for name, lines := range map[string]string{
		"no name":       adminToken,
		"an empty name": ":operator:" + adminToken,
		"a space":       "ann smith:operator:" + adminToken,
		"a wrong role":  "ann:root:" + adminToken,
		"too short":     "ann:operator:short",
		"no operator":   "ann:viewer:" + adminToken,
		"two owners":    "ann:operator:" + adminToken + "\nbob:operator:" + adminToken,
	} {
		file := filepath.Join(t.TempDir(), "admins")
		write(t, file, lines+"\n")
		_, err := service.New(t.Context(), service.Options{File: parsed, HTTP: "127.0.0.1:0", AdminTokensFile: file})
		if err == nil || strings.Contains(err.Error(), adminToken) || strings.Contains(err.Error(), "root") {
			t.Errorf("%s: got %v, want an error without the token", name, err)
		}
	}
}

// A reload can be requested on the admin listener, which reports what changed or what is wrong, and serves the running policies.
func TestReloadOnTheAdminListener(t *testing.T) {
	var path string
	s := start(t, "store: \"memory:\"\npolicies:\n  a: {limits: [5/1h]}\n  b: {limits: [5/1h]}\n", func(o *service.Options) { path = o.Paths[0] })
	before := s.send(t, "admin", "GET", "/v1/config", "")
	if before.status != http.StatusOK || !strings.Contains(before.body, "5/1h") || !strings.Contains(before.body, `"hash":"`) {
		t.Errorf("the running policies: got %+v", before)
	}
	if got := s.send(t, "admin", "POST", "/v1/reload", ""); !strings.Contains(got.body, `"added":[],"removed":[],"changed":[],"service":false`) {
		t.Errorf("nothing changed: got %+v", got)
	}
	write(t, path, "store: \"memory:\"\npolicies:\n  a: {limits: [6/1h]}\n  c: {limits: [5/1h]}\n")
	if got := s.send(t, "admin", "POST", "/v1/reload", ""); got.status != http.StatusOK || !strings.Contains(got.body, `"hash":"`) {
		t.Errorf("a changed file: got %+v", got) // the watcher may have reported the changes
	}
	if got := s.send(t, "admin", "POST", "/v1/reload", "", "Origin", "https://evil.example"); got.status != http.StatusForbidden {
		t.Errorf("a web page requests a reload: got %+v", got)
	}
	write(t, path, "policies:\n  a: {limits: [6/1x]}\n")
	got := s.send(t, "admin", "POST", "/v1/reload", "")
	if got.status != http.StatusUnprocessableEntity || !strings.Contains(got.body, ":2:") {
		t.Errorf("an invalid file: got %+v", got)
	}
	if after := s.send(t, "admin", "GET", "/v1/config", ""); !strings.Contains(after.body, "6/1h") || after.body == before.body {
		t.Errorf("after an invalid file: got %+v", after)
	}
}
