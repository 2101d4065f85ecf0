package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/service/servicetest"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/redistest"
)

// database is a database server that can be stopped and started.
type database interface {
	Kill()
	Restart()
}

// TestStoreDown checks that the service starts while its store is down, reports that it is not ready, and answers by the failure
// modes; once the store is up it decides, until it is down again.
func TestStoreDown(t *testing.T) {
	for name, open := range map[string]func() (database, string){
		"redis": func() (database, string) {
			node := redistest.Server(t)
			return node, "redis://" + node.Addr()
		},
		"postgres": func() (database, string) {
			server := pgtest.Start(t, "fsync = off")
			return server, server.URL()
		},
	} {
		t.Run(name, func(t *testing.T) {
			db, url := open()
			testDown(t, db, url)
		})
	}
}

func testDown(t *testing.T, db database, url string) {
	db.Kill()
	s := servicetest.Start(t, fmt.Sprintf(`
store: %q
store_timeout: 2s
policies:
  open: {failure: open, limits: [2/1h]}
  closed: {failure: closed, limits: [2/1h]}
  local: {failure: local, limits: [2/1h]}
`, url), nil)
	health := func(path string, want int) {
		t.Helper()
		if got := s.Send(t, "http", "GET", path, ""); got.Status != want {
			t.Errorf("%s: %+v, not %d", path, got, want)
		}
	}
	down := func(key string) {
		t.Helper()
		health("/healthz", http.StatusOK)
		health("/readyz", http.StatusServiceUnavailable)
		for i, step := range []struct {
			policy string
			want   int
		}{
			{"open", 200}, {"open", 200}, {"open", 200},
			{"closed", 503},
			{"local", 200}, {"local", 200}, {"local", 429},
		} {
			got, flags := flagsOf(t, s, step.policy, key)
			if got != step.want || got != http.StatusServiceUnavailable && !slices.Contains(flags, "fallback_"+step.policy) {
				t.Errorf("%d: by failure mode %s: got %d, %q, want %d and its flag", i, step.policy, got, flags, step.want)
			}
		}
	}
	down("before")

	db.Restart()
	testkit.Eventually(t, "the service is ready", func() bool { return s.Send(t, "http", "GET", "/readyz", "").Status == http.StatusOK })
	for _, policy := range []string{"open", "closed", "local"} {
		n := 0
		testkit.Eventually(t, "the store decides about "+policy, func() bool {
			n++
			_, flags := flagsOf(t, s, policy, fmt.Sprint("try ", n))
			return len(flags) == 0
		})
	}
	health("/healthz", http.StatusOK)

	db.Kill()
	testkit.Eventually(t, "the service is not ready", func() bool { return s.Send(t, "http", "GET", "/readyz", "").Status != http.StatusOK })
	down("after")
	if s.Log.Has("before") || s.Log.Has("after\"") {
		t.Error("a key is in the log")
	}
}

// flagsOf requests a unit and returns the status and the flags of the decision.
func flagsOf(t *testing.T, s *servicetest.Service, policy, key string) (int, []string) {
	t.Helper()
	got := s.Send(t, "http", "POST", "/v1/allow", fmt.Sprintf(`{"policy":%q,"key":%q}`, policy, key))
	var decision struct{ Flags []string }
	if err := json.Unmarshal([]byte(got.Body), &decision); err != nil {
		t.Fatalf("got %+v, want JSON: %v", got, err)
	}
	return got.Status, decision.Flags
}

// TestStoreDownForEnvoyAndThrottle checks that Envoy gets an error, so that its failure_mode_deny decides, unless the file sets a
// failure mode, and that CL.THROTTLE follows the failure mode of policies.
func TestStoreDownForEnvoyAndThrottle(t *testing.T) {
	node := redistest.Server(t)
	node.Kill()
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	servicetest.Write(t, rules, "domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: hour, requests_per_unit: 1}}\n")
	for _, c := range []struct {
		failure string
		code    codes.Code
		overall rls.RateLimitResponse_Code
		status  int   // of /json
		limited int64 // the first number in the reply to CL.THROTTLE; -1 for an error
	}{
		{"", codes.Unavailable, 0, 500, 0},
		{"failure: open", codes.OK, rls.RateLimitResponse_OK, 200, 0},
		{"failure: closed", codes.OK, rls.RateLimitResponse_OVER_LIMIT, 429, -1},
		{"failure: local", codes.OK, rls.RateLimitResponse_OK, 200, 0},
	} {
		t.Run(c.failure, func(t *testing.T) {
			s := servicetest.Start(t, fmt.Sprintf("store: redis://%s\n%s\npolicies: {p: {limits: [1/1h]}}\n", node.Addr(), c.failure),
				func(o *service.Options) { o.Envoy = []string{rules} })
			conn, err := grpc.NewClient(s.Address("grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			answer, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rls.RateLimitRequest{
				Domain: "d", Descriptors: []*common.RateLimitDescriptor{{Entries: []*common.RateLimitDescriptor_Entry{{Key: "k", Value: "grpc"}}}},
			})
			if status.Code(err) != c.code || answer.GetOverallCode() != c.overall {
				t.Errorf("gRPC: got %v, %v, want %v, %v", answer, err, c.overall, c.code)
			}
			if got := s.Send(t, "http", "POST", "/json", `{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"json"}]}]}`); got.Status != c.status {
				t.Errorf("/json: got %+v, want status %d", got, c.status)
			}
			client := redis.NewClient(&redis.Options{Addr: s.Address("resp"), MaxRetries: -1})
			defer client.Close()
			reply, err := client.Do(t.Context(), "CL.THROTTLE", "k", 1, 1, 3600).Int64Slice()
			if (err != nil) != (c.limited < 0) || err == nil && reply[0] != c.limited {
				t.Errorf("CL.THROTTLE: got %v, %v, want %d first, or an error if that is -1", reply, err, c.limited)
			}
		})
	}
}
