package grpclimit_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slidegate/slidegate/grpclimit"
	"github.com/slidegate/slidegate/policy"
)

// A client that is blocked until a time gets a retry delay, and one that is blocked for good gets PERMISSION_DENIED.
func TestBlockedClients(t *testing.T) {
	limits, err := grpclimit.New(newLimiter(t, newClock()), grpclimit.Options{
		Policies: []grpclimit.Policy{{Name: "api", Key: grpclimit.ByMetadata("user"), Limits: parse("2/1h")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		until time.Time
		code  codes.Code
		text  string
	}{
		{time.Now().Add(time.Hour), codes.ResourceExhausted, "the client is blocked, try again in "},
		{time.Time{}, codes.PermissionDenied, "the client is blocked"},
	} {
		if err := limits.SetRulings("api", policy.Ruling{Key: "ann", Refused: true, Until: test.until}); err != nil {
			t.Fatal(err)
		}
		err := direct(asUser(t.Context(), "ann"), limits)
		wantCode(t, "a blocked client", err, test.code)
		if text := status.Convert(err).Message(); !strings.Contains(text, test.text) {
			t.Errorf("blocked until %v: got %q, want %q", test.until, text, test.text)
		}
		wantCode(t, "another one", direct(asUser(t.Context(), "bob"), limits), codes.OK)
	}
	if err := limits.SetRulings("apy"); err == nil {
		t.Error("rulings of an unknown policy were accepted")
	}
}
