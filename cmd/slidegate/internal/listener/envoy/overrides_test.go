package envoy

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
)

// addLimited adds a descriptor with a limit of 5 per this many units.
func addLimited(to *rls.RateLimitRequest, text string, unit typev3.RateLimitUnit, multiplier uint32) *rls.RateLimitRequest {
	d := descriptor(text)
	d.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 5, Unit: unit}
	if multiplier != 1 {
		d.Limit.UnitMultiplier = wrapperspb.UInt32(multiplier)
	}
	to.Descriptors = append(to.Descriptors, d)
	return to
}

// Descriptors can have a bounded number of windows, since each takes capacity in the store. Only descriptors with
// further windows are refused.
func TestWindowsOfDescriptors(t *testing.T) {
	var log bytes.Buffer
	rules := "domain: d\ndescriptors:\n- {key: file, rate_limit: {window: 299m, requests_per_unit: 5}}\n- {key: other, rate_limit: {unit: hour, requests_per_unit: 5}}\n"
	r := newRig(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), ResponseHeaders: true}, rules)
	inner, err := memstore.New(memstore.Options{Now: r.clock.Now, MaxLimits: 64 + len(units) + 2})
	if err != nil {
		t.Fatal(err)
	}
	r.store.Store = inner
	admitted := 0
	for multiplier := range uint32(300) {
		got := summary(r.send(addLimited(request("d", 0), "k=v", typev3.RateLimitUnit_MINUTE, multiplier+1)))
		switch got {
		case "OK: OK/4":
			admitted++
		case "OVER: OVER/0":
		default:
			t.Fatalf("%d minutes: got %s", multiplier+1, got)
		}
	}
	if admitted != 64+2 { // one minute and one hour are units
		t.Errorf("got %d windows admitted, want 64 and two that are units", admitted)
	}
	for unit := range typev3.RateLimitUnit_name {
		if unit := typev3.RateLimitUnit(unit); unit != typev3.RateLimitUnit_UNKNOWN {
			r.want(addLimited(request("d", 0), "plain=v", unit, 1), "OK: OK/4") // every unit, also afterwards
		}
	}
	r.want(addLimited(request("d", 0), "k=v", typev3.RateLimitUnit_SECOND, 3600), "OK: OK/3") // an hour, which is already used
	r.want(addLimited(request("d", 0), "k=v", typev3.RateLimitUnit_MINUTE, 2), "OK: OK/3")
	r.want(request("d", 0, "file=v"), "OK: OK/4") // and the rules of the file
	// Other descriptors of the same request are charged as usual.
	mixed := addLimited(request("d", 0, "file=v", "none=v"), "k=v", typev3.RateLimitUnit_DAY, 3)
	mixed.Descriptors = append(mixed.Descriptors, descriptor("other=v"))
	r.want(mixed, "OVER: OK/3 OK/- OVER/0 OK/4")
	r.want(request("d", 0, "file=v", "other=v"), "OK: OK/2 OK/3")
	// There is nothing to refund.
	refund := addLimited(request("d", 1), "k=v", typev3.RateLimitUnit_DAY, 3)
	refund.Descriptors[0].IsNegativeHits = true
	r.want(refund, "OK: OK/-")
	response := r.send(mixed)
	refused := response.GetStatuses()[2]
	if refused.GetCurrentLimit().GetRequestsPerUnit() != 5 || refused.GetCurrentLimit().GetUnitMultiplier().GetValue() != 3 || refused.GetDurationUntilReset().GetSeconds() != 3*86400 {
		t.Errorf("got the status %v", refused)
	}
	if headers := fmt.Sprint(response.GetResponseHeadersToAdd()); strings.Contains(headers, "Retry-After") {
		t.Errorf("got headers with a time to retry: %s", headers)
	}
	if n := strings.Count(log.String(), "too many different windows"); n != 1 {
		t.Errorf("got %d log lines, want 1: %s", n, log.String())
	}
}

// serverStore is a store that looks as if it were reached over a network.
type serverStore struct{ store.Store }

func (s serverStore) Traits() store.Traits {
	traits := s.Store.Traits()
	traits.RoundTrips = 1
	return traits
}

// A connection that uses many windows takes them from no other, neither over HTTP nor over gRPC; a store on a server has no bound.
func TestWindowsOfConnections(t *testing.T) {
	rules := "domain: d\ndescriptors:\n- {key: file, rate_limit: {unit: hour, requests_per_unit: 5}}\n"
	r := newRig(t, Options{}, rules)
	post := func(s *Service, remote string, multiplier int) int {
		body := fmt.Sprintf(`{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}],"limit":{"requestsPerUnit":5,"unit":"MINUTE","unitMultiplier":%d}}]}`, multiplier)
		request, answer := httptest.NewRequest("POST", "/json", strings.NewReader(body)), httptest.NewRecorder()
		request.RemoteAddr = remote
		s.Handler().ServeHTTP(answer, request)
		return answer.Code
	}
	for i := range 70 {
		if got, want := post(r.service, "127.0.0.1:1", 1000+i), 200; i < 64 && got != want || i >= 64 && got != 429 {
			t.Errorf("window %d of one connection: got %d", i, got)
		}
	}
	if got := post(r.service, "127.0.0.1:2", 3); got != 200 {
		t.Errorf("another connection: got %d, want 200", got)
	}
	ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 3}})
	if response, err := r.service.ShouldRateLimit(ctx, addLimited(request("d", 0), "k=v", typev3.RateLimitUnit_MINUTE, 7)); err != nil || response.GetOverallCode() != codeOK {
		t.Errorf("another connection with gRPC: got %v, %v, want OK", response, err)
	}
	remote, err := New(serverStore{r.store}, []*Domain{mustParse(t, rules)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		if got := post(remote, "127.0.0.1:1", 2000+i); got != 200 {
			t.Fatalf("window %d of a store on a server: got %d, want 200", i, got)
		}
	}
}

// With charging: all, nothing is charged if such a descriptor is refused.
func TestWindowsOfDescriptorsTogether(t *testing.T) {
	r := newRig(t, Options{}, "domain: d\ncharging: all\ndescriptors:\n- {key: file, rate_limit: {unit: hour, requests_per_unit: 5}}\n")
	for i := range uint32(maxWindows - 1) {
		r.want(addLimited(request("d", 0), "k=v", typev3.RateLimitUnit_DAY, 400+i), "OK: OK/4")
	}
	r.want(addLimited(request("d", 0, "file=v"), "k=v", typev3.RateLimitUnit_DAY, 2), "OK: OK/4 OK/4")
	r.want(addLimited(request("d", 0, "file=v"), "k=v", typev3.RateLimitUnit_DAY, 3), "OVER: OK/4 OVER/0")
	r.want(request("d", 0, "file=v"), "OK: OK/3")
}
