package grpclimit_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/grpclimit"
	"github.com/slidegate/slidegate/memstore"
)

// The metadata of both interceptors about what is left reaches the client.
func TestMetadataOfNestedInterceptors(t *testing.T) {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	opts := grpclimit.Options{SendRemaining: true}
	outer, inner := intercept(t, store, "100/1m name=all", opts), intercept(t, store, "5/1m name=login", opts)
	conn := dial(t, serve(t, grpc.ChainUnaryInterceptor(outer.Unary(), inner.Unary())))
	var header metadata.MD
	if err := call(t.Context(), conn, "a", grpc.Header(&header)); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(header["ratelimit"], ", ")
	if !strings.HasPrefix(got, `"all";r=99;`) || !strings.Contains(got, `, "login";r=4;`) {
		t.Errorf("got ratelimit %s, want what is left of all and of login", got)
	}
}

func intercept(t *testing.T, store *memstore.Store, limit string, opts grpclimit.Options) *grpclimit.Interceptors {
	t.Helper()
	limiter, err := slidegate.New(store, parse(limit)...)
	if err != nil {
		t.Fatal(err)
	}
	limits, err := grpclimit.New(limiter, opts)
	if err != nil {
		t.Fatal(err)
	}
	return limits
}
