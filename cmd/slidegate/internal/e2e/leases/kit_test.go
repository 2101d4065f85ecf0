// Package leases_test tests instances of the service that share leased limits over real stores.
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

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/service/servicetest"
	"github.com/slidegate/slidegate/test/natstest"
	"github.com/slidegate/slidegate/test/redistest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1")) // sleeps for a second after a client is closed
}

var ctx = context.Background()

// quota is the quota of the limits in these tests. It is per hour, so no units return during a test.
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

// rules is a file of rules for Envoy with a leased limit.
var rules = fmt.Sprintf("domain: d\ndescriptors:\n- {key: k, rate_limit: {window: 1h, requests_per_unit: %d, algorithm: sliding-window, segments: 60, overlap: whole, lease: true}}\n", quota)

// start starts an instance.
func start(t testing.TB, store string) *servicetest.Service {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	servicetest.Write(t, path, rules)
	return servicetest.Start(t, policies(store, quota), func(o *service.Options) {
		o.Envoy, o.LeaseThrottle = []string{path}, true
	})
}

// newRedis starts a Redis server and returns its URL.
func newRedis(t testing.TB) string { return "redis://" + redistest.Server(t).Addr() }

// overStores runs a test with each kind of store that processes share.
func overStores(t *testing.T, run func(t *testing.T, store string)) {
	t.Run("Redis", func(t *testing.T) { run(t, newRedis(t)) })
	t.Run("NATS", func(t *testing.T) { run(t, natstest.Start(t)) })
}

// sendFunc sends a request for one key to one instance, and reports whether it was admitted.
type sendFunc func() (allowed bool, err error)

// viaJSON sends requests to /v1/allow. It counts the decisions made from leases.
func viaJSON(t testing.TB, s *servicetest.Service, policy, key string, leased *atomic.Int64) sendFunc {
	transport := &http.Transport{MaxIdleConnsPerHost: callers}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	url, body := "http://"+s.Address("http")+"/v1/allow", fmt.Sprintf(`{"policy":%q,"key":%q}`, policy, key)
	return func() (bool, error) {
		response, err := client.Post(url, "application/json", strings.NewReader(body))
		if err != nil {
			return false, err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			return false, err
		}
		var d struct {
			Allowed bool
			Flags   []string
		}
		if err := json.Unmarshal(text, &d); err != nil || response.StatusCode != http.StatusOK && response.StatusCode != http.StatusTooManyRequests {
			return false, fmt.Errorf("%d %s", response.StatusCode, text)
		}
		for _, flag := range d.Flags {
			if flag == "leased" {
				leased.Add(1)
			} else if flag != "cached" {
				return false, fmt.Errorf("got the flag %s, want a decision of the store", flag)
			}
		}
		return d.Allowed, nil
	}
}

// viaRESP sends a RESP command, whose reply begins with the number admitted if the request was admitted.
func viaRESP(t testing.TB, s *servicetest.Service, admitted int64, command ...any) sendFunc {
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

// viaEnvoy sends requests as Envoy does.
func viaEnvoy(t testing.TB, s *servicetest.Service, key string) sendFunc {
	conn, err := grpc.NewClient(s.Address("grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	client := rls.NewRateLimitServiceClient(conn)
	request := &rls.RateLimitRequest{Domain: "d", Descriptors: []*common.RateLimitDescriptor{{
		Entries: []*common.RateLimitDescriptor_Entry{{Key: "k", Value: key}},
	}}}
	return func() (bool, error) {
		got, err := client.ShouldRateLimit(ctx, request)
		return got.GetOverallCode() == rls.RateLimitResponse_OK, err
	}
}

// callers is the number of concurrent callers per instance.
const callers = 8

// runCallers runs callers against each of the instances until each caller was refused many times, or enough requests were admitted. It
// returns the number of admitted requests.
func runCallers(t testing.TB, enough int64, senders ...sendFunc) int64 {
	t.Helper()
	var admitted atomic.Int64
	var all sync.WaitGroup
	for _, send := range senders {
		for range callers {
			all.Go(func() {
				for refused := 0; refused < 50 && admitted.Load() < enough; {
					allowed, err := send()
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

// metricsOf returns the lease metrics of an instance, summed over their labels.
func metricsOf(t testing.TB, s *servicetest.Service) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for _, m := range leaseMetric.FindAllStringSubmatch(s.Send(t, "admin", "GET", "/metrics", "").Body, -1) {
		value, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		all[m[1]] += value
	}
	return all
}

var leaseMetric = regexp.MustCompile(`(?m)^slidegate_leases_(\w+?)(?:_total)?(?:\{[^}]*\})? (\S+)$`)
