package envoy

import (
	"context"
	"fmt"
	"math"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// base is the initial time of the tests' clock: a whole minute, 13 minutes past an hour, 22:13 of a day.
const base = 1_699_999_980

// countingStore is a store that counts its calls, and can be made to fail.
type countingStore struct {
	store.Store
	calls atomic.Int64
	fail  atomic.Pointer[error]
}

func (c *countingStore) Apply(ctx context.Context, batch []store.Request) error {
	c.calls.Add(1)
	if err := c.fail.Load(); err != nil {
		return *err
	}
	return c.Store.Apply(ctx, batch)
}

func (c *countingStore) Inspect(ctx context.Context, limit *store.Limit, group, key string) (rule.State, rule.Micros, error) {
	return c.Store.(store.Inspector).Inspect(ctx, limit, group, key)
}

// rig is a service on loopback with a client of Envoy's own types, and a clock that the test controls.
type rig struct {
	t       *testing.T
	service *Service
	client  rls.RateLimitServiceClient
	conn    *grpc.ClientConn
	store   *countingStore
	clock   storetest.Clock
}

func mustParse(t testing.TB, text string) *Domain {
	t.Helper()
	d, err := Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func newRig(t *testing.T, opts Options, files ...string) *rig {
	t.Helper()
	r := &rig{t: t}
	r.set(0)
	inner, err := memstore.New(memstore.Options{Now: r.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	r.store = &countingStore{Store: inner}
	r.start(opts, files...)
	return r
}

// start serves over the rig's store.
func (r *rig) start(opts Options, files ...string) {
	r.t.Helper()
	var domains []*Domain
	for _, file := range files {
		domains = append(domains, mustParse(r.t, file))
	}
	var err error
	if r.service, err = New(r.store, domains, opts); err != nil {
		r.t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	server := grpc.NewServer()
	r.service.Register(server)
	go server.Serve(listener) //nolint:errcheck // it ends with the test
	r.t.Cleanup(server.Stop)
	r.conn, err = grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { r.conn.Close() })
	r.client = rls.NewRateLimitServiceClient(r.conn)
}

// set sets the clock to a number of seconds after base.
func (r *rig) set(seconds float64) { r.clock.Set(base*1_000_000 + rule.Micros(seconds*1e6)) }

func (r *rig) send(request *rls.RateLimitRequest) *rls.RateLimitResponse {
	r.t.Helper()
	response, err := r.trySend(request)
	if err != nil {
		r.t.Fatal(err)
	}
	return response
}

func (r *rig) trySend(request *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return r.client.ShouldRateLimit(ctx, request)
}

// request returns a request with descriptors written like "key=value,key=value".
func request(domain string, hits uint32, descriptors ...string) *rls.RateLimitRequest {
	made := &rls.RateLimitRequest{Domain: domain, HitsAddend: hits}
	for _, text := range descriptors {
		made.Descriptors = append(made.Descriptors, descriptor(text))
	}
	return made
}

func descriptor(text string) *common.RateLimitDescriptor {
	d := &common.RateLimitDescriptor{}
	for entry := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(entry, "=")
		d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	return d
}

// summary abbreviates a response: the overall code, and for each descriptor its code and what remains; "-" if there is
// no limit and "inf" if it is unlimited.
func summary(response *rls.RateLimitResponse) string {
	short := func(code rls.RateLimitResponse_Code) string { return strings.TrimSuffix(code.String(), "_LIMIT") }
	text := short(response.GetOverallCode()) + ":"
	for _, st := range response.GetStatuses() {
		switch {
		case st.GetCurrentLimit() != nil:
			text += fmt.Sprintf(" %s/%d", short(st.GetCode()), st.GetLimitRemaining())
		case st.GetLimitRemaining() == math.MaxUint32:
			text += fmt.Sprintf(" %s/inf", short(st.GetCode()))
		default:
			text += fmt.Sprintf(" %s/-", short(st.GetCode()))
		}
	}
	return text
}

// step is one request of a script and the summary of its response.
type step struct {
	at      float64 // seconds after base
	hits    uint32
	request string // descriptors, separated by spaces
	want    string
}

func (r *rig) play(domain string, steps []step) {
	r.t.Helper()
	for i, s := range steps {
		r.set(s.at)
		got := summary(r.send(request(domain, s.hits, strings.Fields(s.request)...)))
		if got != s.want {
			r.t.Errorf("step %d: at %gs, %d hits on %s: got %s, want %s", i, s.at, s.hits, s.request, got, s.want)
		}
	}
}
