package grpclimit_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/slidegate/slidegate/grpclimit"
)

// A Match that no method of the server has is an error that suggests the one that was meant.
func TestCheck(t *testing.T) {
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	for match, want := range map[string]string{
		"":                                    "",
		"/grpc.health.v1.Health/Check":        "",
		"/grpc.health.v1.Health/*":            "",
		"/grpc.health.v1.Health/check":        `did you mean "/grpc.health.v1.Health/Check"?`,
		"/grpc.health.v1.health/Wacth":        `did you mean "/grpc.health.v1.Health/Watch"?`,
		"/grpc.health.v1.health/*":            `did you mean "/grpc.health.v1.Health/*"?`,
		"/grpc.reflection.v1.Reflection/List": `the server has no method "/grpc.reflection.v1.Reflection/List"`,
	} {
		limits, err := grpclimit.New(newLimiter(t, newClock(), "1/1m"), grpclimit.Options{Policies: []grpclimit.Policy{{Name: "p", Match: match}}})
		if err != nil {
			t.Fatal(err)
		}
		err = limits.Check(server)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), `grpclimit: policy "p": match: `)) {
			t.Errorf("%q: got %v, want %q", match, err, want)
		}
	}
	limits, err := grpclimit.New(newLimiter(t, newClock(), "1/1m"), grpclimit.Options{Policies: []grpclimit.Policy{{Match: "/a.B/C"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := limits.Check(grpc.NewServer()); err == nil || !strings.Contains(err.Error(), "the server has no methods") {
		t.Errorf("a server without services: got %v", err)
	}
}
