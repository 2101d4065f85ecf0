// Package leases_test has instances of the service share leased limits over real stores.
package leases_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/servertest"
	"github.com/slidegate/slidegate/test/memcachedtest"
	"github.com/slidegate/slidegate/test/natstest"
	"github.com/slidegate/slidegate/test/redistest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1")) // sleeps for a second after a client was closed
}

var ctx = context.Background()

// quota is what the limits of these tests admit in an hour, and so what they admit while a test runs.
const quota = 4000

// policies is a file with leased limits.
func policies(store string, quota int) string {
	return fmt.Sprintf(`store: %s
store_timeout: 5s
policies:
  default:
    key: "{key}"
    lease: true
    limits: [%d/1h segments=60 overlap=whole]
  several:
    key: "{key}"
    limits: [%d/1h segments=60 overlap=whole lease, %d/1d segments=24 overlap=whole lease]
`, store, quota, quota, quota)
}

// rules is a file of Envoy's with one.
var rules = fmt.Sprintf("domain: d\ndescriptors:\n- {key: k, rate_limit: {window: 1h, requests_per_unit: %d, algorithm: sliding-window, segments: 60, overlap: whole, lease: true}}\n", quota)

// start runs an instance.
func start(t testing.TB, store string) *servertest.Service {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	servertest.Write(t, path, rules)
	return servertest.Start(t, policies(store, quota), func(o *server.Options) {
		o.Envoy, o.LeaseThrottle = []string{path}, true
	})
}

// newRedis returns the URL of a Redis.
func newRedis(t testing.TB) string { return "redis://" + redistest.Server(t).Addr() }

// overStores runs a test with each kind of store that processes share.
func overStores(t *testing.T, run func(t *testing.T, store string)) {
	t.Run("Redis", func(t *testing.T) { run(t, newRedis(t)) })
	t.Run("NATS", func(t *testing.T) { run(t, natstest.Start(t)) })
	t.Run("memcached", func(t *testing.T) { run(t, "memcached://"+memcachedtest.Start(t).Addr()) })
}

// asker asks one instance about one key, and reports whether it was admitted.
type asker func() (allowed bool, err error)

// jsonDoor asks through /v1/allow. It counts the answers that were given from blocks.
func jsonDoor(t testing.TB, s *servertest.Service, policy, key string, leased *atomic.Int64) asker {
	transport := &http.Transport{MaxIdleConnsPerHost: callers}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	url, body := "http://"+s.Address("http")+"/v1/allow", fmt.Sprintf(`{"policy":%q,"key":%q}`, policy, key)
	return func() (bool, error) {
		answer, err := client.Post(url, "application/json", strings.NewReader(body))
		if err != nil {
			return false, err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			return false, err
		}
		var d struct {
			Allowed bool
			Flags   []string
		}
		if err := json.Unmarshal(text, &d); err != nil || answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusTooManyRequests {
			return false, fmt.Errorf("%d %s", answer.StatusCode, text)
		}
		for _, flag := range d.Flags {
			if flag == "leased" {
				leased.Add(1)
			} else if flag != "cached" {
				return false, fmt.Errorf("the flag %s, want the store to answer", flag)
			}
		}
		return d.Allowed, nil
	}
}

// respDoor asks by a command of which the first number says whether it was admitted, if it is the one given.
func respDoor(t testing.TB, s *servertest.Service, admitted int64, command ...any) asker {
	client := redis.NewClient(&redis.Options{Addr: s.Address("resp"), PoolSize: callers})
	t.Cleanup(func() { _ = client.Close() })
	return func() (bool, error) {
		got, err := client.Do(ctx, command...).Int64Slice()
		if err != nil {
			return false, err
		}
		return got[0] == admitted, nil
	}
}

// envoyDoor asks as Envoy does.
func envoyDoor(t testing.TB, s *servertest.Service, key string) asker {
	conn, err := grpc.NewClient(s.Address("grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	client := rls.NewRateLimitServiceClient(conn)
	ask := &rls.RateLimitRequest{Domain: "d", Descriptors: []*common.RateLimitDescriptor{{
		Entries: []*common.RateLimitDescriptor_Entry{{Key: "k", Value: key}},
	}}}
	return func() (bool, error) {
		got, err := client.ShouldRateLimit(ctx, ask)
		return got.GetOverallCode() == rls.RateLimitResponse_OK, err
	}
}

// callers is how many ask an instance at once.
const callers = 8

// crowd has callers ask each of the instances until each of them was refused many times over, or enough were admitted. It
// returns how many were.
func crowd(t testing.TB, enough int64, askers ...asker) int64 {
	t.Helper()
	var admitted atomic.Int64
	var all sync.WaitGroup
	for _, ask := range askers {
		for range callers {
			all.Go(func() {
				for refused := 0; refused < 50 && admitted.Load() < enough; {
					allowed, err := ask()
					switch {
					case err != nil:
						t.Error(err)
						return
					case allowed:
						admitted.Add(1)
					default:
						refused++
					}
				}
			})
		}
	}
	all.Wait()
	return admitted.Load()
}

// metricsOf returns the metrics of an instance about leases, summed over their labels.
func metricsOf(t testing.TB, s *servertest.Service) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for _, m := range leaseMetric.FindAllStringSubmatch(s.Ask(t, "admin", "GET", "/metrics", "").Body, -1) {
		value, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		all[m[1]] += value
	}
	return all
}

var leaseMetric = regexp.MustCompile(`(?m)^slidegate_leases_(\w+?)(?:_total)?(?:\{[^}]*\})? (\S+)$`)
