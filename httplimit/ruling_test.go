package httplimit

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rulings"
)

// The response to a blocked client contains for how long, in every body; a client that is blocked for good gets 403.
func TestBlockedClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for body, want := range map[Body][2]string{
			BodyProblem: {`"status":429,"detail":"The client is blocked. Try again in 90 seconds.","retry_after":90}`, `"status":403,"detail":"The client is blocked."}`},
			BodyJSON:    {`{"error":"blocked","retry_after":90}`, `{"error":"blocked"}`},
			BodyText:    {"The client is blocked. Try again in 90 seconds.\n", "The client is blocked.\n"},
			BodyNone:    {"", ""},
		} {
			opts := Options{Body: body, Policies: []Policy{{Name: "api", Key: ByHeader("X-User")}}}
			p := newPlay(t, opts, nil, slidegate.MustParseLimit("2/1m"))
			book, err := rulings.Open(t.Context(), memstore.NewDefault(), rulings.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer book.Close()
			p.limits.Follow(book)
			for field, wrong := range map[string]rulings.Ruling{
				"policy": {Policy: "apy", Key: "ann", Kind: rulings.Block, Who: "eve"},
				"limits": {Policy: "api", Key: "ann", Kind: rulings.Limits, Limits: []string{"3/1m in-flight"}, Who: "eve"},
			} {
				var invalid *rulings.FieldError
				if _, _, err := book.Add(t.Context(), wrong); !errors.As(err, &invalid) || invalid.Field != field {
					t.Errorf("got %v, want an error of the field %s", err, field)
				}
			}
			for i, end := range []time.Time{time.Now().Add(90 * time.Second), {}} {
				if _, _, err := book.Add(t.Context(), rulings.Ruling{Policy: "api", Key: "ann", Kind: rulings.Block, Until: end, Who: "eve"}); err != nil {
					t.Fatal(err)
				}
				got := p.do(request("X-User: ann"))
				status, retry := 429, "90"
				if end.IsZero() {
					status, retry = 403, ""
				}
				if got.Code != status || got.Header().Get("Retry-After") != retry || !strings.Contains(got.Body.String(), want[i]) {
					t.Errorf("body %d, until %v: got %d, %v, %q; want %d, Retry-After %q and %q", body, end, got.Code, got.Header(), got.Body, status, retry, want[i])
				}
				if other := p.do(request("X-User: bob")); other.Code != 200 {
					t.Errorf("another client: got %d, want 200", other.Code)
				}
			}
			// Another ruling does not replace this one, and without both the client is admitted.
			for _, key := range []string{"ann", "eve"} {
				if _, _, err := book.Add(t.Context(), rulings.Ruling{Policy: "api", Key: key, Kind: rulings.Block, Who: "eve"}); err != nil {
					t.Fatal(err)
				}
			}
			if ann, eve := p.do(request("X-User: ann")), p.do(request("X-User: eve")); ann.Code != 403 || eve.Code != 403 {
				t.Errorf("two blocks: got %d and %d, want 403", ann.Code, eve.Code)
			}
			if _, err := book.Remove(t.Context(), rulings.Ruling{Policy: "api", Key: "ann", Who: "eve"}); err != nil {
				t.Fatal(err)
			}
			if ann, eve := p.do(request("X-User: ann")), p.do(request("X-User: eve")); ann.Code != 200 || eve.Code != 403 {
				t.Errorf("after one block: got %d and %d, want 200 and 403", ann.Code, eve.Code)
			}
		}
	})
}
