package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
)

// The counts of a client are found again by a later version of a program: a request under these policies is charged to the same addresses.
func TestReleasedAddresses(t *testing.T) {
	user, policies := httplimit.ByHeader("X-User"), []httplimit.Policy{}
	for name, key := range map[string]httplimit.Key{
		"address": httplimit.ByAddress(nil), "header": user, "cookie": httplimit.ByCookie("session"), "path": httplimit.ByPathValue("id"), "whole path": httplimit.ByPath(),
		"token": httplimit.ByBearerToken(), "secret": httplimit.ByAPIKey("X-Api-Key"), "global": httplimit.Global(),
		"all": httplimit.AllOf(user, httplimit.ByCookie("session")), "first": httplimit.FirstOf(user, httplimit.ByAddress(nil)),
		"func": httplimit.KeyFunc(func(r *http.Request) (string, error) { return "of " + r.Method, nil }),
	} {
		policies = append(policies, httplimit.Policy{Name: name, Key: key, Limits: []slidegate.Limit{slidegate.PerMinute(10)}})
	}
	hourly := slidegate.PerHour(10)
	hourly.Name = "slow"
	policies = append(policies, httplimit.Policy{
		Name: "several", Key: user, Limits: []slidegate.Limit{slidegate.PerMinute(10), hourly}, Candidate: []slidegate.Limit{slidegate.PerMinute(5)}, Penalty: time.Minute,
	})
	st := &testkit.Addresses{Store: memstore.NewDefault()}
	limits, err := httplimit.New(slidegate.MustNew(slidegate.Namespace(st, "shop")), httplimit.Options{
		Policies: policies, Group: func(*http.Request) string { return "acme" },
	})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/users/{id}", limits.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	var lines []string
	for client, name := range map[string]string{"203.0.113.9:1": "alice", "[2001:db8:1:2:3:4:5:6]:1": "address:203.0.113.9", "[2002:cb00:7109::1]:1": ""} {
		r := httptest.NewRequest("GET", "http://shop.example/users/7", nil)
		r.RemoteAddr = client
		if name != "" {
			r.Header.Set("X-User", name)
			r.Header.Set("X-Api-Key", "secret")
			r.Header.Set("Authorization", "Bearer secret")
			r.AddCookie(&http.Cookie{Name: "session", Value: "s1"})
		}
		st.Seen = nil
		w := httptest.NewRecorder()
		if mux.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Fatalf("%s: got status %d: %s", client, w.Code, w.Body)
		}
		for _, address := range st.Seen {
			lines = append(lines, fmt.Sprintf("client %s, user %q: %s", client, name, address))
		}
	}
	testkit.Released(t, "../internal/repotest/released/middleware.txt", lines)
}
