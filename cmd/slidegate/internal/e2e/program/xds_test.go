package program_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	rlsconfig "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// management is a management server of go-control-plane.
type management struct {
	t     *testing.T
	node  string // whose rules it has
	cache cache.SnapshotCache
	grpc  *grpc.Server

	mu          sync.Mutex
	lastRequest *discovery.DiscoveryRequest // the client's last request
	token       string                      // that the client sent
	news        chan struct{}               // signals a request that await has not seen
}

// startManagement serves the rules of a node on an address; port 0 means any free port.
func startManagement(t *testing.T, address, node string, options ...grpc.ServerOption) (m *management, at string) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	m = &management{t: t, node: node, cache: cache.NewSnapshotCache(true, cache.IDHash{}, nil), grpc: grpc.NewServer(options...), news: make(chan struct{}, 1)}
	callbacks := server.CallbackFuncs{
		StreamOpenFunc: func(ctx context.Context, _ int64, _ string) error {
			headers, _ := metadata.FromIncomingContext(ctx)
			m.mu.Lock()
			defer m.mu.Unlock()
			m.token = strings.Join(headers.Get("authorization"), ",")
			return nil
		},
		StreamRequestFunc: func(_ int64, request *discovery.DiscoveryRequest) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.lastRequest = request
			select {
			case m.news <- struct{}{}:
			default: // already signaled
			}
			return nil
		},
	}
	discovery.RegisterAggregatedDiscoveryServiceServer(m.grpc, server.NewServer(t.Context(), m.cache, callbacks))
	go m.grpc.Serve(listener) //nolint:errcheck // it ends with the test
	t.Cleanup(m.grpc.Stop)
	return m, listener.Addr().String()
}

// push sets the rules of a version.
func (m *management) push(version string, configs ...*rlsconfig.RateLimitConfig) {
	m.t.Helper()
	var list []types.Resource
	for _, c := range configs {
		list = append(list, c)
	}
	snapshot, err := cache.NewSnapshot(version, map[resource.Type][]types.Resource{resource.RateLimitConfigType: list})
	if err == nil {
		err = m.cache.SetSnapshot(m.t.Context(), m.node, snapshot)
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// await returns the client's last request, once it is as wanted, and the token that the client sent.
func (m *management) await(what string, is func(*discovery.DiscoveryRequest) bool) (request *discovery.DiscoveryRequest, token string) {
	m.t.Helper()
	late := time.After(time.Minute)
	for {
		m.mu.Lock()
		request, token = m.lastRequest, m.token
		m.mu.Unlock()
		if request != nil && is(request) {
			return request, token
		}
		select {
		case <-m.news:
		case <-late:
			m.t.Fatalf("never: %s; the last request is %v", what, request)
		}
	}
}

// perDay returns a domain in which every value of a key has a quota per unit.
func perDay(domain, key string, quota uint32, unit rlsconfig.RateLimitUnit) *rlsconfig.RateLimitConfig {
	return &rlsconfig.RateLimitConfig{
		Name: domain + "-config", Domain: domain,
		Descriptors: []*rlsconfig.RateLimitDescriptor{{Key: key, RateLimit: &rlsconfig.RateLimitPolicy{Unit: unit, RequestsPerUnit: quota}}},
	}
}

// until calls get until it returns want.
func until(t *testing.T, want string, get func() (got string)) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		got := get()
		if strings.Contains(got, want) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("never %s, but\n%s", want, got)
		}
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRulesOverXDS checks that rules from a management server take effect and are withdrawn, that invalid rules are rejected with
// the reason, and that nothing changes while the server is down.
func TestRulesOverXDS(t *testing.T) {
	m, at := startManagement(t, "127.0.0.1:0", "edge")
	listeners := serve(t, "--config", write(t, "policies.yaml", fmt.Sprintf(`
policies: {default: {limits: [100/1m]}}
envoy: {xds: {address: %q, node: edge, metadata: {zone: a}, headers: {authorization: Bearer x}}}
`, at)))
	conn, err := grpc.NewClient(listeners["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	limit := func(domain, key, value string, hits uint32) string {
		got, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rls.RateLimitRequest{
			Domain: domain, HitsAddend: hits,
			Descriptors: []*common.RateLimitDescriptor{{Entries: []*common.RateLimitDescriptor_Entry{{Key: key, Value: value}}}},
		})
		if err != nil {
			return status.Convert(err).Code().String()
		}
		if st := got.GetStatuses()[0]; st.GetCurrentLimit() != nil {
			return fmt.Sprintf("%s %d", got.GetOverallCode(), st.GetCurrentLimit().GetRequestsPerUnit())
		}
		return got.GetOverallCode().String() + " without a limit"
	}
	// fresh sends requests for unused values until the response is as wanted.
	value := 0
	fresh := func(domain, key, want string) {
		t.Helper()
		until(t, want, func() string { value++; return limit(domain, key, fmt.Sprint("v", value), 1) })
	}
	page := func(text string) {
		t.Helper()
		until(t, text, func() string { return get(t, "http://"+listeners["admin"]+"/metrics") })
	}

	if got := limit("d", "k", "x", 1); got != "Unavailable" {
		t.Errorf("before there are rules: got %s, want \"Unavailable\"", got)
	}
	for _, path := range []string{"/readyz", "/healthcheck"} {
		if got := get(t, "http://"+listeners["http"]+path); !strings.Contains(got, "rules") {
			t.Errorf("%s before there are rules: %s", path, got)
		}
	}
	m.push("1", perDay("d", "k", 2, rlsconfig.RateLimitUnit_DAY))
	fresh("d", "k", "OK 2")
	for _, want := range []string{"OK 2", "OK 2", "OVER_LIMIT 2"} {
		if got := limit("d", "k", "ann", 1); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	first, token := m.await("an acknowledged version", func(r *discovery.DiscoveryRequest) bool { return r.GetVersionInfo() == "1" })
	if first.GetNode().GetId() != "edge" || first.GetNode().GetMetadata().GetFields()["zone"].GetStringValue() != "a" || token != "Bearer x" {
		t.Errorf("the server received the node %v and the token %q", first.GetNode(), token)
	}
	if got := get(t, "http://"+listeners["admin"]+"/v1/seen"); !strings.Contains(got, `"policy":"envoy:d"`) || !strings.Contains(got, `"d.k"`) {
		t.Errorf("/v1/seen: got %s, want the domain and its rule", got)
	}
	if got := get(t, "http://"+listeners["http"]+"/readyz"); got != "ready\n" {
		t.Errorf("/readyz: %s", got)
	}
	page(`slidegate_envoy_xds_connected 1`)
	page(`slidegate_envoy_xds_version{version="1"} 1`)

	m.push("2", perDay("d", "k", 9, rlsconfig.RateLimitUnit_DAY))
	fresh("d", "k", "OK 9")
	if got := limit("d", "k", "ann", 6); got != "OK 9" { // 3 were counted before
		t.Errorf("a raised limit forgot the count: got %s, want \"OK 9\"", got)
	}

	m.push("3", perDay("d", "k", 1, rlsconfig.RateLimitUnit_UNKNOWN), perDay("", "k", 1, rlsconfig.RateLimitUnit_DAY))
	nack, _ := m.await("a rejection", func(r *discovery.DiscoveryRequest) bool { return r.GetErrorDetail() != nil })
	if message := nack.GetErrorDetail().GetMessage(); nack.GetVersionInfo() != "2" ||
		!strings.Contains(message, `resource "d-config": descriptors[0].rate_limit.unit: must be one of SECOND`) || !strings.Contains(message, "domain: must not be empty") {
		t.Errorf("the server received %v", nack)
	}
	page(`slidegate_envoy_xds_updates_total{outcome="rejected"} 1`)
	if got := limit("d", "k", "ann", 1); got != "OVER_LIMIT 9" {
		t.Errorf("after rules that were rejected: got %s, want \"OVER_LIMIT 9\"", got)
	}

	m.push("4", perDay("e", "k", 4, rlsconfig.RateLimitUnit_DAY))
	fresh("e", "k", "OK 4")
	fresh("d", "k", "OK without a limit") // withdrawn

	m.grpc.Stop()
	page(`slidegate_envoy_xds_connected 0`)
	fresh("e", "k", "OK 4")
	m, _ = startManagement(t, at, "edge")
	m.push("4", perDay("e", "k", 5, rlsconfig.RateLimitUnit_DAY)) // a restarted server that numbers versions from the beginning
	fresh("e", "k", "OK 5")
	page(`slidegate_envoy_xds_connected 1`)
	m.push("5")
	fresh("e", "k", "OK without a limit")
}
