package grpclimit_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/slidegate/slidegate/grpclimit"
	"github.com/slidegate/slidegate/policy"
)

// A call of a lower class is refused while a higher one still finds what the lower one cannot reach.
func TestClasses(t *testing.T) {
	p := grpclimit.Policy{
		Name: "api", Key: grpclimit.Global(), Limits: parse("4/1h fixed-window"),
		Classes: []policy.Class{{Name: "critical", Percent: 100}, {Name: policy.DefaultClass, Percent: 75}, {Name: "batch", Percent: 50}},
		Class: func(ctx context.Context, _ string) string {
			return strings.Join(metadata.ValueFromIncomingContext(ctx, "class"), ",")
		},
	}
	conn := dial(t, newServer(t, newLimiter(t, newClock()), grpclimit.Options{Policies: []grpclimit.Policy{p}}))
	for _, step := range []struct {
		class string
		want  codes.Code
	}{
		{"batch", codes.OK}, {"batch", codes.OK}, {"batch", codes.ResourceExhausted}, {"", codes.OK}, {"x", codes.ResourceExhausted}, {"critical", codes.OK},
	} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "class", step.class)
		wantCode(t, step.class, call(ctx, conn, "hello"), step.want)
	}
	p.Class = nil
	if _, err := grpclimit.New(newLimiter(t, nil), grpclimit.Options{Policies: []grpclimit.Policy{p}}); err == nil || !strings.Contains(err.Error(), "classes: need both") {
		t.Errorf("classes without a function: got %v", err)
	}
}
