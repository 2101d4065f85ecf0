package program_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	rlsconfig "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/redistest"
)

// gatewayCertificates writes what Envoy Gateway mounts as /certs, and returns the folder and the settings of a peer with the same files.
func gatewayCertificates(t *testing.T) (dir string, peer *tls.Config) {
	t.Helper()
	dir = t.TempDir()
	c := testkit.NewCertificate(t, "gateway", nil, "localhost")
	c.Write(t, filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	testkit.NoError(t, os.WriteFile(filepath.Join(dir, "ca.crt"), c.Cert, 0o600))
	trusted := c.Pool()
	return dir, &tls.Config{Certificates: []tls.Certificate{c.Pair}, RootCAs: trusted, ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert, ServerName: "localhost"}
}

// yearUnit is YEAR, which this version of the Go type has no name for.
const yearUnit rlsconfig.RateLimitUnit = 6

// chain returns nested descriptors, the last one with a limit per year, as Envoy Gateway makes them of a rule.
func chain(quota uint32, pairs ...[2]string) *rlsconfig.RateLimitDescriptor {
	d := &rlsconfig.RateLimitDescriptor{Key: pairs[0][0], Value: pairs[0][1]}
	if len(pairs) > 1 {
		d.Descriptors = []*rlsconfig.RateLimitDescriptor{chain(quota, pairs[1:]...)}
	} else {
		d.RateLimit = &rlsconfig.RateLimitPolicy{Unit: yearUnit, RequestsPerUnit: quota}
	}
	return d
}

// TestInPlaceOfRatelimit starts the program as the Deployment of Envoy Gateway starts envoyproxy/ratelimit: by that name, without
// arguments, with those variables and probes. Only addresses and paths differ. It sends the rules and the requests of policies for routes
// of all hosts.
func TestInPlaceOfRatelimit(t *testing.T) {
	certs, peer := gatewayCertificates(t)
	m, at := startManagement(t, "localhost:0", "envoy-ratelimit", grpc.Creds(credentials.NewTLS(peer)))
	_, xdsPort, err := net.SplitHostPort(at)
	testkit.NoError(t, err)
	web, decisions, metrics := testkit.FreeAddress(t), testkit.FreeAddress(t), testkit.FreeAddress(t)
	portOf := func(address string) string { _, port, _ := net.SplitHostPort(address); return port }

	link := filepath.Join(t.TempDir(), "ratelimit")
	testkit.NoError(t, os.Symlink(program, link))
	c := command()
	c.Path, c.Args = link, []string{link}
	c.Env = append(c.Env,
		"RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_IGNOREDOTFILES=true", "RUNTIME_WATCH_ROOT=false", "LOG_LEVEL=info", "USE_STATSD=false",
		"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL=localhost:"+xdsPort, "CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit",
		"GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT="+certs+"/tls.crt", "GRPC_SERVER_TLS_KEY="+certs+"/tls.key", "GRPC_SERVER_TLS_CA_CERT="+certs+"/ca.crt",
		"CONFIG_GRPC_XDS_SERVER_USE_TLS=true", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT="+certs+"/tls.crt", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY="+certs+"/tls.key",
		"CONFIG_GRPC_XDS_SERVER_TLS_CACERT="+certs+"/ca.crt", "FORCE_START_WITHOUT_INITIAL_CONFIG=true",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redistest.Server(t).Addr(),
		"USE_PROMETHEUS=true", "PROMETHEUS_ADDR=:"+portOf(metrics), "PROMETHEUS_MAPPER_YAML=/etc/statsd-exporter/conf.yaml",
		"PORT="+portOf(web), "GRPC_PORT="+portOf(decisions), "SLIDEGATE_ADMIN=off") // the Deployment sets none of these three
	output := &testkit.Output{}
	c.Stdout, c.Stderr = output, output
	testkit.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	healthy := func() (code int) {
		response, err := http.Get("http://" + web + "/healthcheck")
		if err != nil {
			return 0
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	late := time.Now().Add(testkit.Patience)
	for healthy() != http.StatusOK {
		if time.Now().After(late) {
			t.Fatalf("/healthcheck is never 200, although the management server has no rules: %s", output.String())
		}
	}

	conn, err := grpc.NewClient("localhost:"+portOf(decisions), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: peer.RootCAs})))
	testkit.NoError(t, err)
	defer conn.Close()
	ask := func(domain string, hits uint64, pairs ...[2]string) string {
		d := &common.RateLimitDescriptor{}
		if hits > 0 {
			d.HitsAddend = wrapperspb.UInt64(hits)
		}
		for _, p := range pairs {
			d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: p[0], Value: p[1]})
		}
		got, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rls.RateLimitRequest{Domain: domain, Descriptors: []*common.RateLimitDescriptor{d}})
		if err != nil {
			return status.Convert(err).Code().String()
		}
		if n := len(got.GetResponseHeadersToAdd()); n > 0 { // Envoy Gateway makes Envoy add its own
			t.Errorf("%s: got %d headers, want none", domain, n)
		}
		if of := got.GetStatuses()[0].GetCurrentLimit(); of != nil {
			return fmt.Sprintf("%s of %d", got.GetOverallCode(), of.GetRequestsPerUnit())
		}
		return got.GetOverallCode().String()
	}
	route := [2]string{"httproute/default/backend/rule/0/match/0/*", "httproute/default/backend/rule/0/match/0/*"}
	user := func(value string) [2]string { return [2]string{"rule-0-match-0", value} }
	all := [2]string{"rule-1-match--1", "rule-1-match--1"}
	shared := [2]string{"envoy-gateway/policy-for-gateway/rule/0", "envoy-gateway/policy-for-gateway/rule/0"}
	network, address := [2]string{"masked_remote_address", "192.0.2.0/24"}, func(value string) [2]string { return [2]string{"remote_address", value} }
	if got := ask("default/eg/http", 0, route, user("ann")); got != "Unavailable" {
		t.Errorf("before there are rules: got %s, want Unavailable", got)
	}
	listener := &rlsconfig.RateLimitConfig{Name: "default/eg/http", Domain: "default/eg/http", Descriptors: []*rlsconfig.RateLimitDescriptor{
		{Key: route[0], Value: route[1], Descriptors: []*rlsconfig.RateLimitDescriptor{chain(3, user("")), chain(10, all)}},
	}}
	policy := &rlsconfig.RateLimitConfig{Name: "envoy-gateway/policy-for-gateway", Domain: "envoy-gateway/policy-for-gateway", Descriptors: []*rlsconfig.RateLimitDescriptor{
		chain(1, shared, network, address("")),
	}}
	m.push("1", listener, policy)
	until(t, "OK of 10", func() string { return ask(listener.Domain, 1, route, all) })
	for _, one := range []struct {
		domain string
		hits   uint64
		pairs  [][2]string
		want   string
	}{
		{listener.Domain, 0, [][2]string{route, user("ann")}, "OK of 3"},
		{listener.Domain, 2, [][2]string{route, user("ann")}, "OK of 3"}, // the cost of a request
		{listener.Domain, 0, [][2]string{route, user("ann")}, "OVER_LIMIT of 3"},
		{listener.Domain, 0, [][2]string{route, user("*")}, "OK of 3"}, // another user
		{listener.Domain, 9, [][2]string{route, all}, "OK of 10"},
		{listener.Domain, 0, [][2]string{route, all}, "OVER_LIMIT of 10"},
		{policy.Domain, 0, [][2]string{shared, network, address("192.0.2.1")}, "OK of 1"},
		{policy.Domain, 0, [][2]string{shared, network, address("192.0.2.1")}, "OVER_LIMIT of 1"},
		{policy.Domain, 0, [][2]string{shared, network, address("192.0.2.2")}, "OK of 1"},
		{policy.Domain, 0, [][2]string{route, user("ann")}, "OK"}, // no rule
	} {
		if got := ask(one.domain, one.hits, one.pairs...); got != one.want {
			t.Errorf("%s %v: got %s, want %s", one.domain, one.pairs, got, one.want)
		}
	}
	if page := get(t, "http://"+metrics+"/metrics"); !strings.Contains(page, "slidegate_envoy_xds_connected 1") || !strings.Contains(page, `slidegate_store_up{store="redis"} 1`) {
		t.Errorf("the metrics do not show the management server and Redis:\n%s", page)
	}
	testkit.NoError(t, c.Process.Signal(syscall.SIGTERM))
	testkit.Eventually(t, "/healthcheck is 500 when it stops", func() bool { return healthy() == http.StatusInternalServerError })
	if got := ask(policy.Domain, 0, shared, network, address("192.0.2.3")); got != "OK of 1" {
		t.Errorf("while it stops: got %s, want it to decide until Envoy has noticed", got)
	}
}
