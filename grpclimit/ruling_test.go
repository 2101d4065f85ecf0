package grpclimit_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slidegate/slidegate/grpclimit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rulings"
)

// A client that is blocked until a time gets a retry delay, and one that is blocked for good gets PERMISSION_DENIED.
func TestBlockedClients(t *testing.T) {
	limits, err := grpclimit.New(newLimiter(t, newClock()), grpclimit.Options{
		Policies: []grpclimit.Policy{{Name: "api", Key: grpclimit.ByMetadata("user"), Limits: parse("2/1h")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	book, err := rulings.Open(t.Context(), memstore.NewDefault(), rulings.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	limits.Follow(book)
	for _, test := range []struct {
		until time.Time
		code  codes.Code
		text  string
	}{
		{time.Now().Add(time.Hour), codes.ResourceExhausted, "the client is blocked, try again in "},
		{time.Time{}, codes.PermissionDenied, "the client is blocked"},
	} {
		if _, _, err := book.Add(t.Context(), rulings.Ruling{Policy: "api", Key: "ann", Kind: rulings.Block, Until: test.until, Who: "eve"}); err != nil {
			t.Fatal(err)
		}
		err := direct(asUser(t.Context(), "ann"), limits)
		wantCode(t, "a blocked client", err, test.code)
		if text := status.Convert(err).Message(); !strings.Contains(text, test.text) {
			t.Errorf("blocked until %v: got %q, want %q", test.until, text, test.text)
		}
		wantCode(t, "another one", direct(asUser(t.Context(), "bob"), limits), codes.OK)
	}
	if _, _, err := book.Add(t.Context(), rulings.Ruling{Policy: "apy", Key: "ann", Kind: rulings.Block, Who: "eve"}); err == nil {
		t.Error("a ruling of an unknown policy was accepted")
	}
}
