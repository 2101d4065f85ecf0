package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service/servicetest"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/redistest"
)

// TestNoKeyWhenRedisRefuses checks that a key is neither in the log nor in a response of any listener, whatever error Redis
// returns, and whatever the failure mode is.
func TestNoKeyWhenRedisRefuses(t *testing.T) {
	const marker = "marker-7f3a"
	for name, test := range map[string]struct {
		config []string
		acl    string // what is changed about the user while the service runs, since a service that starts with it ends
	}{
		"renamed":           {[]string{`rename-command EVALSHA ""`}, ""},
		"renamed, both":     {[]string{`rename-command EVALSHA ""`, `rename-command EVAL ""`}, ""},
		"keys forbidden":    {nil, "resetkeys ~elsewhere:*"},
		"commands":          {nil, "-evalsha -eval"},
		"inside the script": {nil, "-set -get -mget -getrange -setrange"},
		"full":              {[]string{"maxmemory 1kb", "maxmemory-policy noeviction"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			node := redistest.Server(t, append(test.config, "maxclients 100")...) // not shared with other tests
			s := servicetest.Start(t, fmt.Sprintf(`
store: "redis://%s"
policies:
  default: {key: "{header:X-Key}", limits: [2/1h]}
  open: {failure: open, limits: [2/1h]}
  closed: {failure: closed, limits: [2/1h]}
  local: {failure: local, limits: [2/1h]}
`, node.Addr()), nil)
			if test.acl != "" {
				admin := node.Client(t)
				change := admin.B().Arbitrary("ACL", "SETUSER", "default").Args(strings.Fields(test.acl)...).Build()
				testkit.NoError(t, admin.Do(t.Context(), change).Error())
			}
			client := redis.NewClient(&redis.Options{Addr: s.Address("resp"), Protocol: 2})
			t.Cleanup(func() { client.Close() })
			var answers []string
			for _, policy := range []string{"default", "open", "closed", "local"} {
				for _, path := range []string{"/v1/allow", "/v1/peek", "/v1/refund", "/v1/reserve"} {
					got := s.Send(t, "http", "POST", path, fmt.Sprintf(`{"policy":%q,"key":%q}`, policy, marker))
					answers = append(answers, fmt.Sprint(path, got))
				}
				for _, command := range []string{"SG.ALLOW", "SG.PEEK", "SG.RESET"} {
					answers = append(answers, fmt.Sprint(command, client.Do(t.Context(), command, policy, marker).Err()))
				}
				answers = append(answers, fmt.Sprint("admin", s.Send(t, "admin", "POST", "/v1/reset", fmt.Sprintf(`{"policy":%q,"key":%q}`, policy, marker))))
			}
			answers = append(answers, fmt.Sprint("throttle", client.Do(t.Context(), "CL.THROTTLE", marker, 1, 2, 3600).Err()))
			answers = append(answers, fmt.Sprint("check", s.Send(t, "http", "GET", "/v1/check", "", "X-Key", marker)))
			testkit.Eventually(t, "the failure is logged", func() bool {
				return s.Log.Has("decided without it") || s.Log.Has("the store did not answer some") // the second if it answers some requests
			})
			if got := s.Send(t, "http", "GET", "/healthz", ""); got.Status != http.StatusOK {
				t.Errorf("/healthz: got %+v, want status 200", got)
			}
			if s.Log.Has(marker) {
				t.Errorf("the log has the key:\n%s", s.Log)
			}
			for _, answer := range answers {
				if strings.Contains(answer, marker) {
					t.Errorf("a response has the key: %s", answer)
				}
			}
		})
	}
}
